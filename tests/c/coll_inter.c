// ranks: 1 2 4 7
/* Collectives between two groups of unequal size, with the root on either side, blocking and nonblocking. */
#include "comms.h"

enum { N = 300 };
static MPI_Comm inter;
static int upper, mine, others, here; /* which group, its size, the other's, my rank */

/* What rank r of group g contributes at place i. */
static int value(int g, int r, int i) { return 100000 * g + 1000 * r + i % 997; }

static int root_for(int group, int root)
{
    if (upper != group) return root;
    return here == root ? MPI_ROOT : MPI_PROC_NULL;
}

static void finish(MPI_Request *request, int code, int nonblocking)
{
    CHECK_EQ(code, MPI_SUCCESS);
    if (nonblocking) CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
}

static void rooted(int group, int root, int nb)
{
    check_where("root %d of group %d, %s", root, group, nb ? "nonblocking" : "blocking");
    MPI_Request request;
    int at = root_for(group, root), sender = upper != group, is_root = at == MPI_ROOT, count = others;
    int *out = allocate(sizeof(int) * N * (size_t) (others + mine)), *in = allocate(sizeof(int) * N * (size_t) (others + mine));
    for (int i = 0; i < N; i++) out[i] = in[i] = is_root ? value(group, root, i) : -1;
    finish(&request, nb ? MPI_Ibcast(in, N, MPI_INT, at, inter, &request) : MPI_Bcast(in, N, MPI_INT, at, inter), nb);
    if (sender)
        for (int i = 0; i < N; i++)
            if (!CHECK_EQ(in[i], value(group, root, i))) break;

    for (int i = 0; i < N; i++) out[i] = value(upper, here, i);
    memset(in, 0xff, sizeof(int) * N * (size_t) count);
    finish(&request, nb ? MPI_Igather(out, N, MPI_INT, in, N, MPI_INT, at, inter, &request)
                        : MPI_Gather(out, N, MPI_INT, in, N, MPI_INT, at, inter), nb);
    if (is_root)
        for (int r = 0; r < others; r++)
            for (int i = 0; i < N; i++)
                if (!CHECK_EQ(in[r * N + i], value(1 - group, r, i))) break;

    for (int i = 0; i < N * count; i++) out[i] = value(group, root, i);
    memset(in, 0xff, sizeof(int) * N);
    finish(&request, nb ? MPI_Iscatter(out, N, MPI_INT, in, N, MPI_INT, at, inter, &request)
                        : MPI_Scatter(out, N, MPI_INT, in, N, MPI_INT, at, inter), nb);
    if (sender)
        for (int i = 0; i < N; i++)
            if (!CHECK_EQ(in[i], value(group, root, here * N + i))) break;

    for (int i = 0; i < N; i++) out[i] = value(upper, here, i);
    finish(&request, nb ? MPI_Ireduce(out, in, N, MPI_INT, MPI_SUM, at, inter, &request)
                        : MPI_Reduce(out, in, N, MPI_INT, MPI_SUM, at, inter), nb);
    if (is_root)
        for (int i = 0; i < N; i++) {
            int sum = 0;
            for (int r = 0; r < others; r++) sum += value(1 - group, r, i);
            if (!CHECK_EQ(in[i], sum)) break;
        }
    free(out);
    free(in);
}

static void from_all(int nb)
{
    check_where("from all, %s", nb ? "nonblocking" : "blocking");
    MPI_Request request;
    size_t bytes = sizeof(int) * N * (size_t) (others * mine + others + mine);
    int *out = allocate(bytes), *in = allocate(bytes), *counts = allocate(sizeof(int) * (size_t) (2 * others)),
        *places = counts + others;
    finish(&request, nb ? MPI_Ibarrier(inter, &request) : MPI_Barrier(inter), nb);

    for (int i = 0; i < N; i++) out[i] = value(upper, here, i);
    finish(&request, nb ? MPI_Iallgather(out, N, MPI_INT, in, N, MPI_INT, inter, &request)
                        : MPI_Allgather(out, N, MPI_INT, in, N, MPI_INT, inter), nb);
    for (int r = 0; r < others; r++)
        for (int i = 0; i < N; i++)
            if (!CHECK_EQ(in[r * N + i], value(1 - upper, r, i))) break;

    finish(&request, nb ? MPI_Iallreduce(out, in, N, MPI_INT, MPI_MAX, inter, &request)
                        : MPI_Allreduce(out, in, N, MPI_INT, MPI_MAX, inter), nb);
    for (int i = 0; i < N; i++)
        if (!CHECK_EQ(in[i], value(1 - upper, others - 1, i))) break;

    for (int r = 0; r < others; r++)
        for (int i = 0; i < N; i++) out[r * N + i] = value(upper, here, i) + 7 * r;
    finish(&request, nb ? MPI_Ialltoall(out, N, MPI_INT, in, N, MPI_INT, inter, &request)
                        : MPI_Alltoall(out, N, MPI_INT, in, N, MPI_INT, inter), nb);
    for (int r = 0; r < others; r++)
        for (int i = 0; i < N; i++)
            if (!CHECK_EQ(in[r * N + i], value(1 - upper, r, i) + 7 * here)) break;

    /* Rank r sends r + 1 numbers; they lie in reverse order here. */
    int at = 0;
    for (int r = others - 1; r >= 0; at += r + 1, r--) counts[r] = r + 1, places[r] = at;
    for (int i = 0; i <= here; i++) out[i] = value(upper, here, i);
    finish(&request, nb ? MPI_Iallgatherv(out, here + 1, MPI_INT, in, counts, places, MPI_INT, inter, &request)
                        : MPI_Allgatherv(out, here + 1, MPI_INT, in, counts, places, MPI_INT, inter), nb);
    for (int r = 0; r < others; r++)
        for (int i = 0; i <= r; i++)
            if (!CHECK_EQ(in[places[r] + i], value(1 - upper, r, i))) break;

    /* Each gets a block of the other group's sums; both groups sum as many numbers. */
    int block = N * others;
    for (int i = 0; i < block * mine; i++) out[i] = value(upper, here, i);
    finish(&request, nb ? MPI_Ireduce_scatter_block(out, in, block, MPI_INT, MPI_SUM, inter, &request)
                        : MPI_Reduce_scatter_block(out, in, block, MPI_INT, MPI_SUM, inter), nb);
    for (int i = 0; i < block; i++) {
        int sum = 0;
        for (int r = 0; r < others; r++) sum += value(1 - upper, r, here * block + i);
        if (!CHECK_EQ(in[i], sum)) break;
    }
    free(out);
    free(in);
    free(counts);
}

static void errors(void)
{
    check_where("errors");
    int in = 0, out = 0;
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Scan(&in, &out, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Exscan(&in, &out, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Bcast(&in, 1, MPI_INT, -77, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Bcast(&in, 1, MPI_INT, others, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Allreduce(MPI_IN_PLACE, &out, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_BUFFER);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    if (size > 1) {
        MPI_Comm half;
        upper = rank >= (size + 2) / 3;
        MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : (size + 2) / 3, 3, &inter);
        MPI_Comm_size(inter, &mine);
        MPI_Comm_remote_size(inter, &others);
        MPI_Comm_rank(inter, &here);
        for (int nb = 0; nb < 2; nb++) {
            from_all(nb);
            for (int group = 0; group < 2; group++)
                for (int root = 0; root < (group == upper ? mine : others); root += 2) rooted(group, root, nb);
        }
        errors();
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    return check_end();
}
