// ranks: 1 2 3 4 7
// transports: all
/* Collectives of a few bytes, in a line of shared memory or its pool. Some ranks have a datatype
 * with a gap and so leave the fast path; on communicators of the program, with many operations
 * one after another, and with wrong arguments in between. */
#include "check.h"

enum { MOST = 257, RANKS = 8 };

static const int counts[] = {1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 16, 31, 42, 43, 64, 127, 128, 255, 256, MOST};

static MPI_Datatype gapped; /* an int and a gap of the same length */
static int mine[2 * MOST * RANKS], got[2 * MOST * RANKS];

static int value(int from, int to, int i) { return 1 + from * 1009 + to * 101 + i; }

static int step_of(int me, int round) { return round % 3 == me % 3 ? 2 : 1; }

static void fill(int *at, int step, int blocks, int count, int me)
{
    for (int i = 0; i < blocks * count; i++) at[i * step] = value(me, i / count, i % count);
}

static void moves(MPI_Comm comm, int count, int round)
{
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    int root = round % n, step = step_of(me, round);
    MPI_Datatype type = step == 2 ? gapped : MPI_INT;
    check_where("%d elements, round %d, root %d of %d, step %d", count, round, root, n, step);

    fill(got, step, 1, count, me);
    CHECK_OK(MPI_Bcast(got, count, type, root, comm));
    for (int i = 0; i < count; i++) CHECK_EQ(got[i * step], value(root, 0, i));

    fill(mine, 1, 1, count, me);
    CHECK_OK(MPI_Gather(mine, count, MPI_INT, got, count, type, root, comm));
    for (int i = 0; me == root && i < n * count; i++) CHECK_EQ(got[i * step], value(i / count, 0, i % count));
    CHECK_OK(MPI_Allgather(mine, count, MPI_INT, got, count, type, comm));
    for (int i = 0; i < n * count; i++) CHECK_EQ(got[i * step], value(i / count, 0, i % count));

    fill(mine, step, n, count, me);
    CHECK_OK(MPI_Scatter(mine, count, type, got, count, MPI_INT, root, comm));
    for (int i = 0; i < count; i++) CHECK_EQ(got[i], value(root, me, i));
    CHECK_OK(MPI_Alltoall(mine, count, type, got, count, MPI_INT, comm));
    for (int i = 0; i < n * count; i++) CHECK_EQ(got[i], value(i / count, me, i % count));
    memcpy(got, mine, sizeof got);
    CHECK_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, count, type, comm));
    for (int i = 0; i < n * count; i++) CHECK_EQ(got[i * step], value(i / count, me, i % count));
}

static int sum(int from, int until, int to, int i)
{
    int total = 0;
    for (int r = from; r < until; r++) total += value(r, to, i);
    return total;
}

static void sums(MPI_Comm comm, int count, int round)
{
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    int root = round % n, in_place = round / 2 % 2;
    check_where("sums of %d elements, root %d of %d, in place %d", count, root, n, in_place);
    fill(mine, 1, n, count, me);

    memcpy(got, mine, sizeof got);
    const void *given = in_place && me == root ? MPI_IN_PLACE : mine;
    CHECK_OK(MPI_Reduce(given, got, count, MPI_INT, MPI_SUM, root, comm));
    for (int i = 0; i < count; i++) CHECK_EQ(got[i], me == root ? sum(0, n, 0, i) : mine[i]);

    given = in_place ? MPI_IN_PLACE : mine;
    memcpy(got, mine, sizeof got);
    CHECK_OK(MPI_Allreduce(given, got, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, n, 0, i));
    memcpy(got, mine, sizeof got);
    CHECK_OK(MPI_Scan(given, got, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, me + 1, 0, i));
    memcpy(got, mine, sizeof got);
    CHECK_OK(MPI_Exscan(given, got, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++) CHECK_EQ(got[i], me == 0 ? mine[i] : sum(0, me, 0, i));
    memcpy(got, mine, sizeof got);
    CHECK_OK(MPI_Reduce_scatter_block(given, got, count, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, n, me, i));
}

/* More pairs of an operation and a datatype than are cached at a time. */
static void operations(void)
{
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BOR, MPI_BAND, MPI_BXOR};
    const MPI_Datatype types[] = {MPI_INT8_T, MPI_UINT16_T, MPI_INT32_T, MPI_UINT64_T};
    for (int round = 0; round < 3; round++)
        for (unsigned o = 0; o < sizeof ops / sizeof *ops; o++)
            for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
                uint64_t one = 3, result = 0, expected = 3;
                if (ops[o] == MPI_SUM) expected = 3 * (uint64_t) size;
                if (ops[o] == MPI_BXOR) expected = size % 2 ? 3 : 0;
                check_where("operation %u on datatype %u", o, t);
                CHECK_OK(MPI_Allreduce(&one, &result, 1, types[t], ops[o], MPI_COMM_WORLD));
                CHECK_EQ(result, expected);
            }
    double real = 1.5, most = 0;
    CHECK_CLASS(MPI_Allreduce(&real, &most, 1, MPI_DOUBLE, MPI_BOR, MPI_COMM_WORLD), MPI_ERR_OP);
    CHECK_OK(MPI_Allreduce(&real, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    CHECK(most == 1.5);
}

static void wrong(MPI_Comm comm)
{
    int word = 1, words[RANKS];
    check_where("wrong arguments");
    CHECK_CLASS(MPI_Bcast(&word, 1, MPI_INT, size, comm), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Bcast(&word, 1, MPI_INT, -5, comm), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Bcast(&word, -1, MPI_INT, 0, comm), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Bcast(NULL, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce(&word, words, 1, MPI_INT, MPI_OP_NULL, 0, comm), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce(&word, words, 1, MPI_INT, MPI_SUM, size, comm), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Allreduce(&word, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Allgather(&word, 1, MPI_SHORT, words, 1, MPI_INT, comm), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Alltoall(words, 2, MPI_INT, words, 1, MPI_INT, comm), MPI_ERR_TRUNCATE);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[3] = {MPI_COMM_WORLD};
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[2]));
    for (int round = 0; round < 30; round++)
        for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
            moves(comms[round % 3], counts[c], round);
            sums(comms[round % 3], counts[c], round);
            if (round % 7 == 0) CHECK_OK(MPI_Barrier(comms[round % 3]));
        }
    operations();
    wrong(MPI_COMM_WORLD);
    wrong(comms[1]);
    for (int c = 1; c < 3; c++) CHECK_OK(MPI_Comm_free(&comms[c]));
    CHECK_OK(MPI_Type_free(&gapped));
    return check_end();
}
