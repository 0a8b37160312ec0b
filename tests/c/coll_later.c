// ranks: 1 2 4 7
// transports: all
// every day: nodes
/* Nonblocking collectives through shared memory: many open at a time, ended in any order,
 * between blocking ones, of all lengths up to those of plans, in place, of strided elements; a
 * communicator that is freed while some are open. */
#include "check.h"

#include <unistd.h>

enum { MANY = 40, MOST = 40000 };

static unsigned seed = 1;

static unsigned draw(unsigned below)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % below;
}

static void wait_shuffled(MPI_Request *requests, int count)
{
    unsigned own = (unsigned) rank * 7919u + 13u;
    for (int left = count; left > 0; left--) {
        int at = -1;
        own = own * 1103515245u + 12345u;
        switch (own >> 16 & 3) {
        case 0: {
            int done = 0;
            while (!done) CHECK_OK(MPI_Testany(count, requests, &at, &done, MPI_STATUS_IGNORE));
            break;
        }
        case 1: CHECK_OK(MPI_Waitany(count, requests, &at, MPI_STATUS_IGNORE)); break;
        default:
            at = (int) ((own >> 8) % (unsigned) count);
            while (requests[at] == MPI_REQUEST_NULL) at = (at + 1) % count;
            CHECK_OK(MPI_Wait(&requests[at], MPI_STATUS_IGNORE));
        }
    }
}

static void barriers(MPI_Comm comm)
{
    check_where("barriers");
    MPI_Request requests[MANY];
    for (int n = 0; n < MANY; n++) CHECK_OK(MPI_Ibarrier(comm, &requests[n]));
    wait_shuffled(requests, MANY);
    for (int n = 0; n < 200; n++) {
        CHECK_OK(MPI_Ibarrier(comm, &requests[0]));
        if (n % 3 == 0) CHECK_OK(MPI_Barrier(comm));
        CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    }
}

static void late(MPI_Comm comm)
{
    check_where("late");
    MPI_Request request;
    int done = 0, token = 0;
    if (size < 2) return;
    if (rank == 1) {
        CHECK_OK(MPI_Recv(&token, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Ibarrier(comm, &request));
    } else {
        CHECK_OK(MPI_Ibarrier(comm, &request));
        for (int n = 0; n < 20; n++) {
            CHECK_OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
            if (rank == 0) CHECK(!done);
        }
        if (rank == 0) CHECK_OK(MPI_Send(&token, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static int value(int of, int n, int at) { return of * 131 + n * 17 + at % 251; }

enum { KINDS = 19 };

struct open {
    int kind, len, root;
    int *in, *out;
};

static void begin(struct open *o, int n, MPI_Comm comm, MPI_Datatype strided, MPI_Request *request)
{
    int len = o->len;
    int blocks = o->kind >= 9 ? size : 1;
    for (int at = 0; at < len * blocks; at++) o->in[at] = value(rank, n, at);
    memset(o->out, 0, sizeof(int) * (size_t) len * (size_t) (size + 1) * 2);
    switch (o->kind) {
    case 0: CHECK_OK(MPI_Ibarrier(comm, request)); break;
    case 1:
        if (rank == o->root) memcpy(o->out, o->in, sizeof(int) * (size_t) len);
        CHECK_OK(MPI_Ibcast(o->out, len, MPI_INT, o->root, comm, request));
        break;
    case 2: CHECK_OK(MPI_Iallreduce(o->in, o->out, len, MPI_INT, MPI_SUM, comm, request)); break;
    case 3:
        memcpy(o->out, o->in, sizeof(int) * (size_t) len);
        CHECK_OK(MPI_Iallreduce(MPI_IN_PLACE, o->out, len, MPI_INT, MPI_SUM, comm, request));
        break;
    case 4: CHECK_OK(MPI_Ireduce(o->in, o->out, len, MPI_INT, MPI_SUM, o->root, comm, request)); break;
    case 5:
        memcpy(o->out, o->in, sizeof(int) * (size_t) len);
        if (rank == o->root) CHECK_OK(MPI_Ireduce(MPI_IN_PLACE, o->out, len, MPI_INT, MPI_SUM, o->root, comm, request));
        else CHECK_OK(MPI_Ireduce(o->in, NULL, len, MPI_INT, MPI_SUM, o->root, comm, request));
        break;
    case 6: CHECK_OK(MPI_Iallgather(o->in, len, MPI_INT, o->out, len, MPI_INT, comm, request)); break;
    case 7:
        memcpy(o->out + rank * len, o->in, sizeof(int) * (size_t) len);
        CHECK_OK(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_INT, o->out, len, MPI_INT, comm, request));
        break;
    case 8:
        CHECK_OK(MPI_Igather(o->in, len, MPI_INT, o->out, len, strided, o->root, comm, request));
        break;
    case 9:
        CHECK_OK(MPI_Iscatter(rank == o->root ? o->in : NULL, len, MPI_INT, o->out, len, strided, o->root, comm, request));
        break;
    case 10:
        if (rank == o->root) CHECK_OK(MPI_Iscatter(o->in, len, MPI_INT, MPI_IN_PLACE, 0, MPI_INT, o->root, comm, request));
        else CHECK_OK(MPI_Iscatter(NULL, 0, MPI_INT, o->out, len, MPI_INT, o->root, comm, request));
        break;
    case 11: CHECK_OK(MPI_Ialltoall(o->in, len, MPI_INT, o->out, len, strided, comm, request)); break;
    case 12:
        memcpy(o->out, o->in, sizeof(int) * (size_t) (len * size));
        CHECK_OK(MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_INT, o->out, len, MPI_INT, comm, request));
        break;
    case 13: CHECK_OK(MPI_Iscan(o->in, o->out, len, MPI_INT, MPI_SUM, comm, request)); break;
    case 14:
        memcpy(o->out, o->in, sizeof(int) * (size_t) len);
        CHECK_OK(MPI_Iscan(MPI_IN_PLACE, o->out, len, MPI_INT, MPI_SUM, comm, request));
        break;
    case 15: CHECK_OK(MPI_Iexscan(o->in, o->out, len, MPI_INT, MPI_SUM, comm, request)); break;
    case 16:
        memcpy(o->out, o->in, sizeof(int) * (size_t) len);
        CHECK_OK(MPI_Iexscan(MPI_IN_PLACE, o->out, len, MPI_INT, MPI_SUM, comm, request));
        break;
    case 17: CHECK_OK(MPI_Ireduce_scatter_block(o->in, o->out, len, MPI_INT, MPI_SUM, comm, request)); break;
    default:
        memcpy(o->out, o->in, sizeof(int) * (size_t) (len * size));
        CHECK_OK(MPI_Ireduce_scatter_block(MPI_IN_PLACE, o->out, len, MPI_INT, MPI_SUM, comm, request));
    }
}

/* The right integer `at` of the output of the kinds from 9 on, from block `of`, or -1 if any
 * value is right. */
static int expected(const struct open *o, int n, int of, int at)
{
    int len = o->len, sum = 0;
    switch (o->kind) {
    case 9: return of == 0 ? value(o->root, n, rank * len + at) : -1;
    case 10: return of == 0 && rank != o->root ? value(o->root, n, rank * len + at) : -1;
    case 11:
    case 12: return value(of, n, rank * len + at);
    case 13:
    case 14:
        for (int from = 0; from <= rank; from++) sum += value(from, n, at);
        return of == 0 ? sum : -1;
    case 15:
    case 16:
        for (int from = 0; from < rank; from++) sum += value(from, n, at);
        /* The buffer of rank 0 stays unchanged. */
        if (rank == 0) sum = o->kind == 15 ? 0 : value(0, n, at);
        return of == 0 ? sum : -1;
    default:
        for (int from = 0; from < size; from++) sum += value(from, n, rank * len + at);
        return of == 0 ? sum : -1;
    }
}

static void check(const struct open *o, int n)
{
    int len = o->len;
    for (int of = 0; of < size && o->kind >= 9; of++) {
        int stride = o->kind == 9 || o->kind == 11 ? 2 : 1;
        for (int at = 0; at < len; at++) {
            int want = expected(o, n, of, at);
            if (want >= 0 && !CHECK_EQ(o->out[stride * (of * len + at)], want)) return;
            if (stride == 2 && !CHECK_EQ(o->out[2 * (of * len + at) + 1], 0)) return;
        }
    }
    int sums = o->kind == 2 || o->kind == 3 || ((o->kind == 4 || o->kind == 5) && rank == o->root);
    for (int at = 0; at < len; at++) {
        if (o->kind == 1 && !CHECK_EQ(o->out[at], value(o->root, n, at))) return;
        if (sums) {
            int sum = 0;
            for (int of = 0; of < size; of++) sum += value(of, n, at);
            if (!CHECK_EQ(o->out[at], sum)) return;
        }
        for (int of = 0; of < size; of++) {
            if ((o->kind == 6 || o->kind == 7) && !CHECK_EQ(o->out[of * len + at], value(of, n, at))) return;
            if (o->kind == 8 && rank == o->root && !CHECK_EQ(o->out[2 * (of * len + at)], value(of, n, at))) return;
        }
    }
}

static void mixture(MPI_Comm comm, int rounds)
{
    enum { OPEN = 6 };
    static const int lengths[] = {1, 2, 14, 15, 300, 2048, 8192, 12289, 16384, MOST};
    struct open open[OPEN];
    MPI_Request requests[OPEN];
    MPI_Datatype one, strided;
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 8, &one));
    CHECK_OK(MPI_Type_dup(one, &strided));
    CHECK_OK(MPI_Type_free(&one));
    CHECK_OK(MPI_Type_commit(&strided));
    for (int at = 0; at < OPEN; at++) {
        open[at].in = malloc(sizeof(int) * MOST * (size_t) size);
        open[at].out = malloc(sizeof(int) * MOST * 2 * (size_t) (size + 1));
    }
    for (int round = 0; round < rounds; round++) {
        for (int at = 0; at < OPEN; at++) {
            open[at].kind = (int) draw(KINDS);
            open[at].len = lengths[draw(round % 8 ? 6 : 10)];
            open[at].root = (int) draw((unsigned) size);
            check_where("round %d, kind %d, %d integers", round, open[at].kind, open[at].len);
            begin(&open[at], round * OPEN + at, comm, strided, &requests[at]);
            if (draw(4) == 0) {
                int one = 1, all = 0;
                CHECK_OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm));
                CHECK_EQ(all, size);
            }
        }
        wait_shuffled(requests, OPEN);
        for (int at = 0; at < OPEN; at++) {
            check_where("round %d, kind %d, %d integers", round, open[at].kind, open[at].len);
            check(&open[at], round * OPEN + at);
        }
    }
    for (int at = 0; at < OPEN; at++) {
        free(open[at].in);
        free(open[at].out);
    }
    CHECK_OK(MPI_Type_free(&strided));
}

static void gaps(MPI_Comm comm)
{
    check_where("gaps");
    MPI_Datatype pair;
    enum { LEN = 500 };
    int in[2 * LEN], out[2 * LEN];
    MPI_Request request;
    CHECK_OK(MPI_Type_vector(LEN, 1, 2, MPI_INT, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    for (int at = 0; at < 2 * LEN; at++) in[at] = rank + at, out[at] = -1;
    CHECK_OK(MPI_Ibcast(rank == 0 ? in : out, 1, pair, 0, comm, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int at = 0; at < 2 * LEN && rank > 0; at++) CHECK_EQ(out[at], at % 2 ? -1 : at);
    CHECK_OK(MPI_Type_free(&pair));
}

static void freed(void)
{
    check_where("freed");
    for (int n = 0; n < 40; n++) {
        MPI_Comm comm;
        MPI_Request requests[4];
        int in = rank + n, out[3] = {0, 0, 0};
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int at = 0; at < 3; at++)
            CHECK_OK(MPI_Iallreduce(&in, &out[at], 1, MPI_INT, MPI_SUM, comm, &requests[at]));
        CHECK_OK(MPI_Ibarrier(comm, &requests[3]));
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
        for (int at = 0; at < 3; at++) CHECK_EQ(out[at], size * (size - 1) / 2 + n * size);
    }
}

/* In place, longer than the room for one step, while the first rank is away: the only copy of
 * the data is in the buffers. */
static void in_place(MPI_Comm comm)
{
    enum { OPEN = 24, SIZE = 16 };
    int all = size * (size - 1) / 2, below = rank * (rank - 1) / 2;
    for (int n = 0; n < 10; n++) {
        MPI_Request requests[OPEN];
        int data[OPEN][SIZE];
        for (int at = 0; at < OPEN; at++) {
            check_where("in place, way %d, number %d", n % 5, at);
            if (at % 8 == 0 && rank == 0) usleep(20000);
            for (int to = 0; to < size; to++) data[at][to] = rank + at * 100 + to * 10000;
            void *in = MPI_IN_PLACE;
            MPI_Request *request = &requests[at];
            switch (n % 5) {
            case 0: CHECK_OK(MPI_Iallreduce(in, data[at], 1, MPI_INT, MPI_SUM, comm, request)); break;
            case 1: CHECK_OK(MPI_Iscan(in, data[at], 1, MPI_INT, MPI_SUM, comm, request)); break;
            case 2: CHECK_OK(MPI_Iexscan(in, data[at], 1, MPI_INT, MPI_SUM, comm, request)); break;
            case 3: CHECK_OK(MPI_Ireduce_scatter_block(in, data[at], 1, MPI_INT, MPI_SUM, comm, request)); break;
            default: CHECK_OK(MPI_Ialltoall(in, 0, MPI_INT, data[at], 1, MPI_INT, comm, request));
            }
        }
        CHECK_OK(MPI_Waitall(OPEN, requests, MPI_STATUSES_IGNORE));
        for (int at = 0; at < OPEN; at++) {
            check_where("in place, way %d, number %d", n % 5, at);
            switch (n % 5) {
            case 0: CHECK_EQ(data[at][0], all + at * 100 * size); break;
            case 3: CHECK_EQ(data[at][0], all + (at * 100 + rank * 10000) * size); break;
            case 1: CHECK_EQ(data[at][0], below + rank + at * 100 * (rank + 1)); break;
            case 2: CHECK_EQ(data[at][0], rank == 0 ? at * 100 : below + at * 100 * rank); break;
            default:
                for (int of = 0; of < size; of++) CHECK_EQ(data[at][of], of + at * 100 + rank * 10000);
            }
        }
    }
}

/* The root of a scatter goes on, as do the ranks below in a scan: they reach much later calls
 * while others sleep. */
static void ahead(MPI_Comm comm)
{
    check_where("ahead");
    enum { OPEN = 50 };
    MPI_Request requests[OPEN];
    int in[16], out[OPEN];
    for (int to = 0; to < size; to++) in[to] = to + 7;
    for (int at = 0; at < OPEN; at++) {
        if (rank == size - 1 && at % 20 == 5) usleep(30000);
        out[at] = -1;
        if (at % 2 == 0) CHECK_OK(MPI_Iscatter(in, 1, MPI_INT, &out[at], 1, MPI_INT, 0, comm, &requests[at]));
        else CHECK_OK(MPI_Iscan(&in[0], &out[at], 1, MPI_INT, MPI_SUM, comm, &requests[at]));
        if (rank == 0) CHECK_OK(MPI_Wait(&requests[at], MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Waitall(OPEN, requests, MPI_STATUSES_IGNORE));
    for (int at = 0; at < OPEN; at++) CHECK_EQ(out[at], at % 2 ? 7 * (rank + 1) : rank + 7);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    barriers(MPI_COMM_WORLD);
    late(MPI_COMM_WORLD);
    mixture(MPI_COMM_WORLD, scaled(120));
    gaps(MPI_COMM_WORLD);
    freed();
    in_place(MPI_COMM_WORLD);
    ahead(MPI_COMM_WORLD);
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &comm));
    barriers(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
