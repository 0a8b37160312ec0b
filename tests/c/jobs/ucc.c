/* All collectives of UCC, blocking and nonblocking, with all its operations and elements, in
 * place and not, short and long, compared with the right results; on several communicators at
 * the same time, which are freed and made again. */
#include "../check.h"

#include <complex.h>

enum { LENGTHS = 4 };
static const int lengths[LENGTHS] = {1, 7, 600, 40000};

static MPI_Comm comm;
static int me, ranks, later;
static MPI_Request pending;

/* A blocking collective, or its nonblocking form and a wait. */
#define CALL(upper, lower, ...) \
    do { \
        if (later) { \
            CHECK_OK(MPI_I##lower(__VA_ARGS__, comm, &pending)); \
            CHECK_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE)); \
        } else CHECK_OK(MPI_##upper(__VA_ARGS__, comm)); \
    } while (0)

static int value(int from, int to, int i) { return from * 131 + to * 17 + i % 1009 + 1; }

static int *filled(int from, int to, int count, int *at)
{
    for (int i = 0; i < count; i++) at[i] = value(from, to, i);
    return at;
}

static void is(const int *at, int from, int to, int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++) wrong += at[i] != value(from, to, i);
    CHECK_EQ(wrong, 0);
}

static void moves(int n)
{
    int all = n * ranks, root = n % ranks;
    int *in = malloc(2 * (size_t) all * sizeof(int)), *out = malloc(2 * (size_t) all * sizeof(int));
    filled(root, 0, n, me == root ? out : memset(out, 0, (size_t) n * sizeof(int)));
    if (me != root) memset(out, 0, (size_t) n * sizeof(int));
    CALL(Bcast, bcast, out, n, MPI_INT, root);
    is(out, root, 0, n);
    for (int in_place = 0; in_place < 2; in_place++) {
        const void *own = in_place ? MPI_IN_PLACE : filled(me, 0, n, in);
        filled(me, 0, n, out + me * n);
        CALL(Gather, gather, me == root ? own : filled(me, 0, n, in), n, MPI_INT, out, n, MPI_INT, root);
        for (int r = 0; me == root && r < ranks; r++) is(out + r * n, r, 0, n);
        filled(me, 0, n, out + me * n);
        CALL(Allgather, allgather, own, n, MPI_INT, out, n, MPI_INT);
        for (int r = 0; r < ranks; r++) is(out + r * n, r, 0, n);
        for (int r = 0; r < ranks; r++) filled(root, r, n, in + r * n);
        void *mine = me == root && in_place ? MPI_IN_PLACE : out;
        CALL(Scatter, scatter, in, n, MPI_INT, mine, n, MPI_INT, root);
        is(mine == out ? out : in + me * n, root, me, n);
        for (int r = 0; r < ranks; r++) filled(me, r, n, (in_place ? out : in) + r * n);
        CALL(Alltoall, alltoall, in_place ? MPI_IN_PLACE : in, n, MPI_INT, out, n, MPI_INT);
        for (int r = 0; r < ranks; r++) is(out + r * n, r, me, n);
    }
    free(in);
    free(out);
}

static void uneven(int n)
{
    int counts[8], places[8], same[8], steps[8], root = n % ranks;
    for (int r = 0; r < ranks; r++) {
        counts[r] = r == 1 ? 0 : n + r;
        places[r] = (ranks - 1 - r) * (n + 9);
        steps[r] = r * (n + 9);
    }
    for (int r = 0; r < ranks; r++) same[r] = counts[me];
    size_t room = (size_t) ranks * (size_t) (n + 9) * sizeof(int);
    int *in = malloc(room), *out = malloc(room);
    for (int in_place = 0; in_place < 2; in_place++) {
        const void *own = in_place ? MPI_IN_PLACE : in;
        filled(me, 0, counts[me], in);
        filled(me, 0, counts[me], out + places[me]);
        CALL(Gatherv, gatherv, me == root ? own : in, counts[me], MPI_INT, out, counts, places, MPI_INT, root);
        for (int r = 0; me == root && r < ranks; r++) is(out + places[r], r, 0, counts[r]);
        filled(me, 0, counts[me], out + places[me]);
        CALL(Allgatherv, allgatherv, own, counts[me], MPI_INT, out, counts, places, MPI_INT);
        for (int r = 0; r < ranks; r++) is(out + places[r], r, 0, counts[r]);
        for (int r = 0; r < ranks; r++) filled(root, r, counts[r], in + places[r]);
        void *mine = me == root && in_place ? MPI_IN_PLACE : out;
        CALL(Scatterv, scatterv, in, counts, places, MPI_INT, mine, counts[me], MPI_INT, root);
        is(mine == out ? out : in + places[me], root, me, counts[me]);
    }
    for (int r = 0; r < ranks; r++) filled(me, r, counts[r], in + places[r]);
    CALL(Alltoallv, alltoallv, in, counts, places, MPI_INT, out, same, steps, MPI_INT);
    for (int r = 0; r < ranks; r++) is(out + steps[r], r, me, same[r]);
    free(in);
    free(out);
}

/* A reduction of small numbers, which every type has exactly, compared with MPI_Reduce_local in
 * rank order. */
static void reduce(MPI_Op op, MPI_Datatype type, int n)
{
    int bytes, counts[8], before = 0, root = n % ranks;
    CHECK_OK(MPI_Type_size(type, &bytes));
    size_t all = (size_t) n * (size_t) ranks * (size_t) bytes;
    unsigned char *in = malloc(all), *out = malloc(all), *wanted = malloc(all), *one = malloc(all);
#define FILL(at, of, c) \
    for (int i_ = 0; i_ < n * ranks; i_++) ((c *) (void *) (at))[i_] = (c) ((i_ + (of)) % 3 != 0 ? 1 + (i_ & (of) & 1) : (of) % 2)
#define TYPED(m, c) if (type == m) FILL(at, r, c)
    for (int r = ranks - 1; r >= -1; r--) {
        unsigned char *at = r < 0 ? in : r == ranks - 1 ? wanted : one;
        int which = r;
        if (r < 0) r = me;
        TYPED(MPI_INT8_T, int8_t); TYPED(MPI_INT16_T, int16_t); TYPED(MPI_INT32_T, int32_t); TYPED(MPI_INT64_T, int64_t);
        TYPED(MPI_UINT8_T, uint8_t); TYPED(MPI_UINT16_T, uint16_t); TYPED(MPI_UINT32_T, uint32_t); TYPED(MPI_UINT64_T, uint64_t);
        TYPED(MPI_FLOAT, float); TYPED(MPI_DOUBLE, double); TYPED(MPI_BYTE, uint8_t); TYPED(MPI_C_BOOL, _Bool);
        TYPED(MPI_C_FLOAT_COMPLEX, float complex); TYPED(MPI_C_DOUBLE_COMPLEX, double complex);
        r = which;
        if (at == one) CHECK_OK(MPI_Reduce_local(one, wanted, n * ranks, type, op));
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        memcpy(out, in, all);
        const void *own = in_place ? MPI_IN_PLACE : in;
        CALL(Allreduce, allreduce, own, out, n, type, op);
        CHECK(!memcmp(out, wanted, (size_t) n * (size_t) bytes));
        memcpy(out, in, all);
        CALL(Reduce, reduce, me == root ? own : in, out, n, type, op, root);
        CHECK(me != root || !memcmp(out, wanted, (size_t) n * (size_t) bytes));
        memcpy(out, in, all);
        CALL(Reduce_scatter_block, reduce_scatter_block, own, out, n, type, op);
        CHECK(!memcmp(out, wanted + (size_t) me * (size_t) n * (size_t) bytes, (size_t) n * (size_t) bytes));
        for (int r = 0; r < ranks; r++) {
            counts[r] = r == 0 ? n / 2 : n;
            if (r < me) before += counts[r];
        }
        memcpy(out, in, all);
        CALL(Reduce_scatter, reduce_scatter, own, out, counts, type, op);
        CHECK(!memcmp(out, wanted + (size_t) before * (size_t) bytes, (size_t) counts[me] * (size_t) bytes));
        before = 0;
    }
    free(in);
    free(out);
    free(wanted);
    free(one);
}

static void reductions(int n)
{
    MPI_Datatype integers[] = {MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T,
                               MPI_UINT64_T};
    MPI_Datatype others[] = {MPI_FLOAT, MPI_DOUBLE, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX};
    MPI_Op all[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
    for (int t = 0; t < 8; t++)
        for (int o = 0; o < 10; o++) {
            check_where("operation %d on integers %d, %d elements, later %d", o, t, n, later);
            reduce(all[o], integers[t], n);
        }
    for (int t = 0; t < 4; t++)
        for (int o = 0; o < (t < 2 ? 4 : 2); o++) {
            check_where("operation %d on others %d, %d elements, later %d", o, t, n, later);
            reduce(all[o], others[t], n);
        }
    for (int o = 4; o < 7; o++) reduce(all[o], MPI_C_BOOL, n);
    for (int o = 7; o < 10; o++) reduce(all[o], MPI_BYTE, n);
}

/* The first collectives of new communicators, nonblocking and all at once, waited for in reverse
 * order. */
static void many(void)
{
    enum { COMMS = 5 };
    MPI_Comm comms[COMMS], half;
    MPI_Request requests[3 * COMMS];
    int sums[COMMS], barrier = 2 * COMMS, said[COMMS];
    for (int round = 0; round < 2; round++) {
        for (int c = 0; c < COMMS; c++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
        for (int c = 0; c < COMMS; c++) {
            said[c] = rank + c;
            CHECK_OK(MPI_Iallreduce(&said[c], &sums[c], 1, MPI_INT, MPI_SUM, comms[c], &requests[c]));
            CHECK_OK(MPI_Ibcast(&said[c], 0, MPI_INT, 0, comms[c], &requests[COMMS + c]));
            CHECK_OK(MPI_Ibarrier(comms[c], &requests[barrier + c]));
        }
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half));
        int one = 1, count = 0;
        CHECK_OK(MPI_Allreduce(&one, &count, 1, MPI_INT, MPI_SUM, half));
        CHECK_EQ(count, (size + 1 - rank % 2) / 2);
        for (int c = 3 * COMMS - 1; c >= 0; c--) CHECK_OK(MPI_Wait(&requests[c], MPI_STATUS_IGNORE));
        for (int c = 0; c < COMMS; c++) {
            CHECK_EQ(sums[c], size * (size - 1) / 2 + size * c);
            CHECK_OK(MPI_Comm_free(&comms[c]));
        }
        CHECK_OK(MPI_Comm_free(&half));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    comm = MPI_COMM_WORLD;
    me = rank;
    ranks = size;
    many();
    for (later = 0; later < 2; later++) {
        check_where("barrier");
        if (later) {
            CHECK_OK(MPI_Ibarrier(comm, &pending));
            CHECK_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
        } else CHECK_OK(MPI_Barrier(comm));
        for (int l = 0; l < LENGTHS; l++) {
            check_where("%d elements, later %d", lengths[l], later);
            moves(lengths[l]);
            uneven(lengths[l]);
        }
        reductions(5);
        reductions(3000);
    }
    return check_end();
}
