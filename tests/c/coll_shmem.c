// ranks: 1 2 3 4 7 8
// transports: near
/* Blocking collectives of one node around the lengths at which their protocol in shared memory
 * changes: a line, a segment of the pool for one rank or for all, several segments. Each with
 * every root, in place, and with elements that have gaps. */
#include "check.h"

enum { GUARD = -77 };

/* Ints: 14 fill a line; 8192 are a piece, and 16384 one of which two ranks combine a half each. */
static const int counts[] = {0, 1, 2, 7, 13, 14, 15, 16, 17, 256, 683, 2047, 2049, 4095, 8191, 8192, 8193, 16383, 16384, 16385, 40000};
enum { COUNTS = sizeof counts / sizeof counts[0] };
static MPI_Datatype gapped; /* an int and a gap of the same length */

static int value(int from, int to, int i, int call) { return (from + 1) * 1009 + to * 31 + i * 7 + call * 3; }

static int *room(int count)
{
    int *buffer = allocate(((size_t) count + 1) * sizeof *buffer);
    for (int i = 0; i <= count; i++) buffer[i] = GUARD;
    return buffer;
}

/* A block of `count` values of `from` for `to`, every `step` ints from `at` on. */
static void fill(int *at, int step, int count, int from, int to, int call)
{
    for (int i = 0; i < count; i++) at[i * step] = value(from, to, i, call);
}

static void expect(const int *at, int step, int count, int from, int to, int call)
{
    for (int i = 0; i < count; i++) {
        if (!CHECK_EQ(at[i * step], value(from, to, i, call))) break;
        if (step == 2 && !CHECK_EQ(at[i * step + 1], GUARD)) break;
    }
}

static void moves(int count, int step, MPI_Comm comm)
{
    MPI_Datatype type = step == 2 ? gapped : MPI_INT;
    int block = count * step, all = block * size, call = 0;
    int *out = room(all), *in = room(all);
    for (int root = 0; root < size; root++) {
        call++;
        check_where("Bcast of %d from %d, step %d", count, root, step);
        if (rank == root) fill(out, step, count, root, 0, call);
        CHECK_OK(MPI_Bcast(out, count, type, root, comm));
        expect(out, step, count, root, 0, call);
        CHECK_EQ(out[block], GUARD);

        for (int in_place = 0; in_place < 2; in_place++) {
            call++;
            check_where("Gather of %d to %d, step %d, in place %d", count, root, step, in_place);
            int here = in_place && rank == root;
            int *mine = here ? in + rank * block : out;
            fill(mine, step, count, rank, root, call);
            CHECK_OK(MPI_Gather(here ? MPI_IN_PLACE : (void *) mine, count, type, in, count, type, root, comm));
            for (int r = 0; rank == root && r < size; r++) expect(in + r * block, step, count, r, root, call);
            CHECK_EQ(in[all], GUARD);

            check_where("Scatter of %d from %d, step %d, in place %d", count, root, step, in_place);
            for (int r = 0; rank == root && r < size; r++) fill(in + r * block, step, count, root, r, call);
            CHECK_OK(MPI_Scatter(in, count, type, here ? MPI_IN_PLACE : (void *) out, count, type, root, comm));
            expect(here ? in + rank * block : out, step, count, root, rank, call);
        }
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        call++;
        check_where("Allgather of %d, step %d, in place %d", count, step, in_place);
        int *mine = in_place ? in + rank * block : out;
        fill(mine, step, count, rank, 0, call);
        CHECK_OK(MPI_Allgather(in_place ? MPI_IN_PLACE : (void *) mine, count, type, in, count, type, comm));
        for (int r = 0; r < size; r++) expect(in + r * block, step, count, r, 0, call);
        CHECK_EQ(in[all], GUARD);

        check_where("Alltoall of %d, step %d, in place %d", count, step, in_place);
        mine = in_place ? in : out;
        for (int r = 0; r < size; r++) fill(mine + r * block, step, count, rank, r, call);
        CHECK_OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : (void *) mine, count, type, in, count, type, comm));
        for (int r = 0; r < size; r++) expect(in + r * block, step, count, r, rank, call);
        CHECK_EQ(in[all], GUARD);
    }
    CHECK_OK(MPI_Barrier(comm));
    free(out);
    free(in);
}

static int sum(int from, int to, int block, int i, int call)
{
    int sum = 0;
    for (int r = from; r < to; r++) sum += value(r, block, i, call);
    return sum;
}

static void expect_sum(const int *at, int count, int from, int to, int block, int call)
{
    for (int i = 0; i < count; i++)
        if (!CHECK_EQ(at[i], sum(from, to, block, i, call))) break;
}

static void reductions(int count, MPI_Comm comm)
{
    int call = 0;
    int *out = room(count * size), *in = room(count * size);
    for (int root = 0; root < size; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            call++;
            check_where("Reduce of %d to %d, in place %d", count, root, in_place);
            int here = in_place && rank == root;
            int *mine = here ? in : out;
            fill(mine, 1, count, rank, 0, call);
            CHECK_OK(MPI_Reduce(here ? MPI_IN_PLACE : (void *) mine, in, count, MPI_INT, MPI_SUM, root, comm));
            if (rank == root) expect_sum(in, count, 0, size, 0, call);
        }
    for (int in_place = 0; in_place < 2; in_place++) {
        call++;
        int *mine = in_place ? in : out;
        const void *from = in_place ? MPI_IN_PLACE : (void *) mine;
        check_where("Allreduce of %d, in place %d", count, in_place);
        fill(mine, 1, count, rank, 0, call);
        CHECK_OK(MPI_Allreduce(from, in, count, MPI_INT, MPI_SUM, comm));
        expect_sum(in, count, 0, size, 0, call);

        check_where("Scan of %d, in place %d", count, in_place);
        fill(mine, 1, count, rank, 0, call);
        CHECK_OK(MPI_Scan(from, in, count, MPI_INT, MPI_SUM, comm));
        expect_sum(in, count, 0, rank + 1, 0, call);

        check_where("Exscan of %d, in place %d", count, in_place);
        fill(mine, 1, count, rank, 0, call);
        CHECK_OK(MPI_Exscan(from, in, count, MPI_INT, MPI_SUM, comm));
        if (rank > 0) expect_sum(in, count, 0, rank, 0, call);

        check_where("Reduce_scatter_block of %d, in place %d", count, in_place);
        for (int r = 0; r < size; r++) fill(mine + r * count, 1, count, rank, r, call);
        CHECK_OK(MPI_Reduce_scatter_block(from, in, count, MPI_INT, MPI_SUM, comm));
        expect_sum(in, count, 0, size, rank, call);
        CHECK_EQ(in[count * size], GUARD);
    }
    free(out);
    free(in);
}

/* Rounded sums are the same on all ranks, in each repetition, whatever the order of arrival. */
static void same_bits(int count)
{
    double *out = allocate((size_t) count * sizeof *out), *first = allocate((size_t) count * sizeof *out),
           *again = allocate((size_t) count * sizeof *out), *root = allocate((size_t) count * sizeof *out);
    for (int i = 0; i < count; i++) out[i] = 1.0 / (3 + rank * 7 + i);
    for (int round = 0; round < 6; round++) {
        check_where("sums of %d doubles, round %d", count, round);
        if (rank == round % size) pause_ms(2);
        CHECK_OK(MPI_Allreduce(out, again, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        if (round == 0) memcpy(first, again, (size_t) count * sizeof *out);
        CHECK(!memcmp(first, again, (size_t) count * sizeof *out));
        memcpy(root, again, (size_t) count * sizeof *out);
        CHECK_OK(MPI_Bcast(root, count, MPI_DOUBLE, round % size, MPI_COMM_WORLD));
        CHECK(!memcmp(root, again, (size_t) count * sizeof *out));
    }
    free(out), free(first), free(again), free(root);
}

/* The root has another type and count than the leaves, with the same signature. */
static void other_counts(void)
{
    MPI_Datatype seven;
    CHECK_OK(MPI_Type_contiguous(7, MPI_INT, &seven));
    CHECK_OK(MPI_Type_commit(&seven));
    for (int n = 1; n < 3000; n *= 5)
        for (int root = 0; root < size; root++) {
            check_where("7 x %d from %d", n, root);
            int *data = room(7 * n), *all = room(7 * n * size);
            if (rank == root) fill(data, 1, 7 * n, root, 0, n);
            CHECK_OK(MPI_Bcast(data, rank == root ? n : 7 * n, rank == root ? seven : MPI_INT, root, MPI_COMM_WORLD));
            expect(data, 1, 7 * n, root, 0, n);
            fill(data, 1, 7 * n, rank, 0, n);
            CHECK_OK(MPI_Gather(data, 7 * n, MPI_INT, all, n, seven, root, MPI_COMM_WORLD));
            for (int r = 0; rank == root && r < size; r++) expect(all + r * 7 * n, 1, 7 * n, r, 0, n);
            CHECK_OK(MPI_Scatter(all, n, seven, data, 7 * n, MPI_INT, root, MPI_COMM_WORLD));
            expect(data, 1, 7 * n, rank, 0, n);
            free(data), free(all);
        }
    MPI_Type_free(&seven);
}

/* Among messages and nonblocking collectives, each rank waits only for the ranks that it needs. */
static void mixed(void)
{
    for (int round = 0; round < scaled(200); round++) {
        check_where("mixed, round %d", round);
        int word = rank == 0 ? round : -1, next = -1, sum = -1, right = (rank + 1) % size, left = (rank + size - 1) % size;
        MPI_Request requests[3];
        CHECK_OK(MPI_Irecv(&next, 1, MPI_INT, left, round, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Iallreduce(&round, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
        CHECK_OK(MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD));
        CHECK_OK(MPI_Isend(&word, 1, MPI_INT, right, round, MPI_COMM_WORLD, &requests[2]));
        int all[64];
        CHECK_OK(MPI_Gather(&word, 1, MPI_INT, all, 1, MPI_INT, round % size, MPI_COMM_WORLD));
        for (int r = 0; rank == round % size && r < size; r++) CHECK_EQ(all[r], round);
        CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        CHECK_EQ(next, round);
        CHECK_EQ(sum, round * size);
        if (rank == round % size && round % 16 == 0) pause_ms(3);
    }
}

/* The root goes on and frees the communicator long before the others read. */
static void freed(void)
{
    for (int round = 0; round < 12; round++) {
        check_where("freed, round %d", round);
        MPI_Comm comm;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        int words[40];
        for (int i = 0; i < 40; i++) words[i] = rank == round % size ? i + round : -1;
        if (rank != round % size) pause_ms(2);
        CHECK_OK(MPI_Bcast(words, 40, MPI_INT, round % size, comm));
        for (int i = 0; i < 40; i++) CHECK_EQ(words[i], i + round);
        CHECK_OK(MPI_Comm_free(&comm));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    MPI_Comm turned;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &turned));
    for (int c = 0; c < COUNTS; c++)
        for (int step = 1; step <= 2; step++) moves(counts[c], step, c % 2 ? MPI_COMM_WORLD : turned);
    for (int c = 0; c < COUNTS; c++) reductions(counts[c], c % 2 ? turned : MPI_COMM_WORLD);
    same_bits(3);
    same_bits(1500);
    same_bits(30000);
    other_counts();
    mixed();
    freed();
    MPI_Comm_free(&turned);
    MPI_Type_free(&gapped);
    return check_end();
}
