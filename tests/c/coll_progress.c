// ranks: 2 4 7
// transports: all
/* A nonblocking collective makes progress in each call in which the process waits or tests: one
 * rank, which the others need, starts it and waits for something else, which happens only after
 * the collective is complete on all others. */
#include "places.h"

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif

enum { FEW = 1, MANY = 40000 };

/* In each kind the others need the target; except in the broadcast and the scatters the target
 * also needs them. */
enum kind {
    I_BARRIER, I_BCAST, I_REDUCE, I_ALLREDUCE, I_USER_ALLREDUCE, I_SCAN, I_GATHERV, I_SCATTERV, I_ALLGATHER, I_ALLGATHERV, I_ALLTOALL,
    I_ALLTOALLV, I_ALLTOALLW, I_REDUCE_SCATTER, I_REDUCE_SCATTER_BLOCK, I_NEIGHBOR_ALLTOALLV, I_NEIGHBOR_ALLGATHERV,
    P_ALLREDUCE, P_ALLTOALLV, P_NEIGHBOR_ALLTOALLW, COLLECTIVES
};

static int *give, *take, n;
static int *counts, *places, *in_bytes;
static MPI_Aint *far_places;
static MPI_Datatype *types;
static MPI_Comm ring, all_but_target;
static MPI_Op user;
static MPI_Request started;

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *length; i++) ((int *) inout)[i] += ((int *) in)[i];
}

static int element(int from, int to, int i) { return from * 1000 + to * 37 + i % 1013; }

static int total(int first, int last, int to, int i)
{
    int sum = 0;
    for (int r = first; r <= last; r++) sum += element(r, to, i);
    return sum;
}

static int gives_blocks(enum kind kind)
{
    switch (kind) {
    case I_ALLTOALL: case I_ALLTOALLV: case I_ALLTOALLW: case I_REDUCE_SCATTER: case I_REDUCE_SCATTER_BLOCK: case P_ALLTOALLV:
    case I_SCATTERV: return size;
    case I_NEIGHBOR_ALLTOALLV: case P_NEIGHBOR_ALLTOALLW: return 2;
    default: return 1;
    }
}

static void start(enum kind kind)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype t = MPI_INT;
    MPI_Request *r = &started;
    for (int b = 0; b < gives_blocks(kind); b++) {
        for (int i = 0; i < n; i++) give[b * n + i] = element(rank, b, i);
    }
    memset(take, -1, (size_t) size * MANY * sizeof *take);
    switch (kind) {
    case I_BARRIER: CHECK_OK(MPI_Ibarrier(world, r)); break;
    case I_BCAST:
        if (rank == target) memcpy(take, give, (size_t) n * sizeof *take);
        CHECK_OK(MPI_Ibcast(take, n, t, target, world, r));
        break;
    case I_REDUCE: CHECK_OK(MPI_Ireduce(give, take, n, t, MPI_SUM, 0, world, r)); break;
    case I_ALLREDUCE: CHECK_OK(MPI_Iallreduce(give, take, n, t, MPI_SUM, world, r)); break;
    case I_USER_ALLREDUCE: CHECK_OK(MPI_Iallreduce(give, take, n, t, user, world, r)); break;
    case I_SCAN: CHECK_OK(MPI_Iscan(give, take, n, t, MPI_SUM, world, r)); break;
    case I_GATHERV: CHECK_OK(MPI_Igatherv(give, n, t, take, counts, places, t, 0, world, r)); break;
    case I_SCATTERV: CHECK_OK(MPI_Iscatterv(give, counts, places, t, take, n, t, target, world, r)); break;
    case I_ALLGATHER: CHECK_OK(MPI_Iallgather(give, n, t, take, n, t, world, r)); break;
    case I_ALLGATHERV: CHECK_OK(MPI_Iallgatherv(give, n, t, take, counts, places, t, world, r)); break;
    case I_ALLTOALL: CHECK_OK(MPI_Ialltoall(give, n, t, take, n, t, world, r)); break;
    case I_ALLTOALLV: CHECK_OK(MPI_Ialltoallv(give, counts, places, t, take, counts, places, t, world, r)); break;
    case I_ALLTOALLW:
        CHECK_OK(MPI_Ialltoallw(give, counts, in_bytes, types, take, counts, in_bytes, types, world, r));
        break;
    case I_REDUCE_SCATTER: CHECK_OK(MPI_Ireduce_scatter(give, take, counts, t, MPI_SUM, world, r)); break;
    case I_REDUCE_SCATTER_BLOCK: CHECK_OK(MPI_Ireduce_scatter_block(give, take, n, t, MPI_SUM, world, r)); break;
    case I_NEIGHBOR_ALLTOALLV:
        CHECK_OK(MPI_Ineighbor_alltoallv(give, counts, places, t, take, counts, places, t, ring, r));
        break;
    case I_NEIGHBOR_ALLGATHERV: CHECK_OK(MPI_Ineighbor_allgatherv(give, n, t, take, counts, places, t, ring, r)); break;
    case P_ALLREDUCE: CHECK_OK(MPI_Allreduce_init(give, take, n, t, MPI_SUM, world, MPI_INFO_NULL, r)); break;
    case P_ALLTOALLV:
        CHECK_OK(MPI_Alltoallv_init(give, counts, places, t, take, counts, places, t, world, MPI_INFO_NULL, r));
        break;
    case P_NEIGHBOR_ALLTOALLW:
        CHECK_OK(MPI_Neighbor_alltoallw_init(give, counts, far_places, types, take, counts, far_places, types, ring, MPI_INFO_NULL,
                                             r));
        break;
    case COLLECTIVES: break;
    }
    if (kind >= P_ALLREDUCE) CHECK_OK(MPI_Start(r));
}

static int expected(enum kind kind, int block, int i)
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, last = size - 1;
    switch (kind) {
    case I_BCAST: return block == 0 ? element(target, 0, i) : -1;
    case I_REDUCE: return rank == 0 && block == 0 ? total(0, last, 0, i) : -1;
    case I_ALLREDUCE: case I_USER_ALLREDUCE: case P_ALLREDUCE: return block == 0 ? total(0, last, 0, i) : -1;
    case I_SCAN: return block == 0 ? total(0, rank, 0, i) : -1;
    case I_GATHERV: return rank == 0 ? element(block, 0, i) : -1;
    case I_SCATTERV: return block == 0 ? element(target, rank, i) : -1;
    case I_ALLGATHER: case I_ALLGATHERV: return element(block, 0, i);
    case I_ALLTOALL: case I_ALLTOALLV: case I_ALLTOALLW: case P_ALLTOALLV: return element(block, rank, i);
    case I_REDUCE_SCATTER: case I_REDUCE_SCATTER_BLOCK: return block == 0 ? total(0, last, rank, i) : -1;
    /* The data of the left neighbour to its right, and of the right one to its left. */
    case I_NEIGHBOR_ALLTOALLV: case P_NEIGHBOR_ALLTOALLW:
        return block == 0 ? element(left, 1, i) : block == 1 ? element(right, 0, i) : -1;
    case I_NEIGHBOR_ALLGATHERV: return block == 0 ? element(left, 0, i) : block == 1 ? element(right, 0, i) : -1;
    default: return -1;
    }
}

static void finish(enum kind kind)
{
    CHECK_OK(MPI_Wait(&started, MPI_STATUS_IGNORE));
    if (kind >= P_ALLREDUCE) CHECK_OK(MPI_Request_free(&started));
    for (int block = 0; block < size; block++) {
        int wrong = 0;
        for (int i = 0; i < n; i++) wrong += take[block * n + i] != expected(kind, block, i);
        CHECK_EQ(wrong, 0);
    }
}

static enum kind now;

static void without_target(void)
{
    start(now);
    finish(now);
    CHECK_OK(MPI_Barrier(all_but_target));
}

int main(int argc, char **argv)
{
    int level = -1, periodic = 1;
    check_watch();
    CHECK_OK(MPI_Init_thread(&argc, &argv, LEVEL, &level));
    check_ranks();
    CHECK(level >= LEVEL);
    places_begin();
    give = allocate((size_t) size * MANY * sizeof *give);
    take = allocate((size_t) size * MANY * sizeof *take);
    counts = allocate((size_t) size * sizeof *counts + 8);
    places = allocate((size_t) size * sizeof *places + 8);
    in_bytes = allocate((size_t) size * sizeof *in_bytes + 8);
    far_places = allocate((size_t) size * sizeof *far_places);
    types = allocate((size_t) size * sizeof *types);
    MPI_Op_create(add, 1, &user);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    MPI_Comm_split(MPI_COMM_WORLD, rank == target ? MPI_UNDEFINED : 0, rank, &all_but_target);
    struct window w = make_window(ORDINARY, 4096, 4, MPI_COMM_WORLD);
    for (int place = 0; place < PLACES; place++) {
        for (now = 0; now < COLLECTIVES; now++) {
            /* Both lengths for each collective and each place; with many ranks at most half of
             * all cases. */
            for (int is_long = 0; is_long < 2; is_long++) {
                if (size > 2 && (place + now) % 2 != is_long) continue;
                n = is_long ? MANY : FEW;
                for (int r = 0; r < size; r++) {
                    counts[r] = n;
                    places[r] = r * n;
                    far_places[r] = in_bytes[r] = r * n * (int) sizeof *give;
                    types[r] = MPI_INT;
                }
                check_where("place %d, collective %d of %d elements", place, now, n);
                MPI_Barrier(MPI_COMM_WORLD);
                if (rank == target) start(now);
                if (is_epoch(place)) {
                    epochs(place, &w, without_target);
                } else {
                    if (rank != target) without_target();
                    if (rank == 0 || rank == target || is_for_all(place)) together(place);
                }
                if (rank == target) finish(now);
            }
        }
    }
    free_window(&w);
    MPI_Comm_free(&ring);
    if (all_but_target != MPI_COMM_NULL) MPI_Comm_free(&all_but_target);
    MPI_Op_free(&user);
    places_end();
    free(give); free(take); free(counts); free(places); free(in_bytes); free(far_places); free(types);
    return check_end();
}
