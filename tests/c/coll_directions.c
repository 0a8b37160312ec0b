// ranks: 2 3
// transports: all
/* Collectives in alternating directions, of changing lengths: the reader of the last one may be
 * the next writer. Between them others, which use the same segments, and late ranks. */
#include "check.h"

enum { LONGEST = 70000, CALLS = 1500, KINDS = 9 };

static unsigned dice = 20021;

static int throw(int below)
{
    dice = dice * 1103515245u + 12345u;
    return (int) (dice >> 8) % below;
}

static int value(int from, int to, int i, int call) { return (from + 1) * 1009 + to * 31 + i * 7 + call * 13; }

static void fill(int *at, int count, int from, int to, int call)
{
    for (int i = 0; i < count; i++) at[i] = value(from, to, i, call);
}

static void expect(const int *at, int count, int from, int to, int call)
{
    for (int i = 0; i < count; i++)
        if (!CHECK_EQ(at[i], value(from, to, i, call))) return;
}

static void expect_sum(const int *at, int count, int last, int call)
{
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int r = 0; r <= last; r++) sum += value(r, 0, i, call);
        if (!CHECK_EQ(at[i], sum)) return;
    }
}

static void be_late(int longest_us)
{
    double end = MPI_Wtime() + longest_us * 1e-6 * rand() / RAND_MAX;
    while (MPI_Wtime() < end) {}
}

static void one(MPI_Comm comm, int kind, int count, int root, int in_place, int call, int *out, int *in)
{
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    int here = in_place && me == root;
    MPI_Request request;
    switch (kind) {
    case 0:
        if (me == root) fill(out, count, root, 0, call);
        CHECK_OK(MPI_Bcast(out, count, MPI_INT, root, comm));
        expect(out, count, root, 0, call);
        break;
    case 1:
        fill(here ? in + me * count : out, count, me, root, call);
        CHECK_OK(MPI_Gather(here ? MPI_IN_PLACE : (void *) out, count, MPI_INT, in, count, MPI_INT, root, comm));
        for (int r = 0; me == root && r < n; r++) expect(in + r * count, count, r, root, call);
        break;
    case 2:
        for (int r = 0; me == root && r < n; r++) fill(in + r * count, count, root, r, call);
        CHECK_OK(MPI_Scatter(in, count, MPI_INT, here ? MPI_IN_PLACE : (void *) out, count, MPI_INT, root, comm));
        expect(here ? in + me * count : out, count, root, me, call);
        break;
    case 3:
        fill(here ? in : out, count, me, 0, call);
        CHECK_OK(MPI_Reduce(here ? MPI_IN_PLACE : (void *) out, in, count, MPI_INT, MPI_SUM, root, comm));
        if (me == root) expect_sum(in, count, n - 1, call);
        break;
    case 4:
        fill(in_place ? in : out, count, me, 0, call);
        CHECK_OK(MPI_Scan(in_place ? MPI_IN_PLACE : (void *) out, in, count, MPI_INT, MPI_SUM, comm));
        expect_sum(in, count, me, call);
        break;
    case 5:
        fill(in_place ? in : out, count, me, 0, call);
        CHECK_OK(MPI_Exscan(in_place ? MPI_IN_PLACE : (void *) out, in, count, MPI_INT, MPI_SUM, comm));
        if (me > 0) expect_sum(in, count, me - 1, call);
        break;
    case 6:
        fill(out, count, me, 0, call);
        CHECK_OK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm));
        expect_sum(in, count, n - 1, call);
        break;
    case 7:
        if (me == root) fill(out, count, root, 0, call);
        CHECK_OK(MPI_Ibcast(out, count, MPI_INT, root, comm, &request));
        be_late(5);
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        expect(out, count, root, 0, call);
        break;
    default:
        CHECK_OK(MPI_Barrier(comm));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    srand((unsigned) rank + 1);
    static const int counts[] = {100, 511, 512, 513, 1024, 2500, 4096, 8192, 12345, 16384, 20000, 32768, 65536, 65537, LONGEST};
    enum { COUNTS = sizeof counts / sizeof counts[0] };
    int *out = allocate((size_t) LONGEST * size * sizeof *out), *in = allocate((size_t) LONGEST * size * sizeof *in);
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]));
    int calls = scaled(CALLS), root = 0, kind = 0;
    for (int call = 0; call < calls && !check_failures; call++) {
        int spell = call / 50 % 3;
        if (spell != 0 || call % 50 == 0) kind = throw(KINDS);
        root = spell == 1 ? throw(size) : (root + throw(3) / 2 + 1) % size;
        int count = counts[throw(COUNTS)], in_place = throw(2), comm = throw(4) == 0;
        check_where("call %d: kind %d of %d, root %d, in place %d, communicator %d", call, kind, count, root, in_place, comm);
        if (throw(4) == 0) be_late(20);
        one(comms[comm], kind, count, root, in_place, call, out, in);
        /* Another team in the memory of the last one. */
        if (call % 100 == 99) {
            MPI_Comm_free(&comms[1]);
            CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]));
        }
    }
    MPI_Comm_free(&comms[1]);
    free(in);
    free(out);
    return check_end();
}
