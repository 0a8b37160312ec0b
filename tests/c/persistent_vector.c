// ranks: 1 2 4 7
// transports: all
/* Persistent v and w forms and neighbourhood collectives: after the call the program may change
 * the arrays and free the types; and those of intercommunicators. */
#include "inter.h"

enum { ROUNDS = 4, MOST = 64 };

static int count_of(int a, int b) { return (a * 3 + b * 5) % 11; }
static int value(int a, int b, int round, int i) { return a * 100000 + b * 1000 + round * 100 + i; }

static int out[MOST * 16], in[MOST * 16];
static int sends[16], places[16], receives[16], others[16], bytes_out[16], bytes_in[16];
static MPI_Aint far_out[16], far_in[16];
static MPI_Datatype types[16], types_in[16];

/* volatile: MPI_UNWEIGHTED is no address, and a compiler that sees it as an array complains. */
static int *volatile unweighted = MPI_UNWEIGHTED;

static void describe(int ranks)
{
    for (int r = 0; r < ranks; r++) {
        sends[r] = count_of(rank, r);
        receives[r] = count_of(r, rank);
        places[r] = r * MOST;
        others[r] = (ranks - 1 - r) * MOST;
        far_out[r] = bytes_out[r] = places[r] * (int) sizeof(int);
        far_in[r] = bytes_in[r] = others[r] * (int) sizeof(int);
    }
}

/* The program may do this after the call has returned. */
static void forget(void)
{
    for (int r = 0; r < 16; r++) sends[r] = receives[r] = places[r] = others[r] = bytes_out[r] = bytes_in[r] = -77777;
    for (int r = 0; r < 16; r++) far_out[r] = far_in[r] = 77777;
}

static void exchange(MPI_Request *request, int ranks, const char *what)
{
    check_where("%s", what);
    forget();
    for (int round = 0; round < ROUNDS; round++) {
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < MOST; i++) {
                out[r * MOST + i] = value(rank, r, round, i);
                in[r * MOST + i] = -1;
            }
        CHECK_OK(MPI_Start(request));
        CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < MOST; i++) {
                int wanted = i < count_of(r, rank) ? value(r, rank, round, i) : -1;
                if (!CHECK_EQ(in[(ranks - 1 - r) * MOST + i], wanted)) return;
            }
    }
    CHECK_OK(MPI_Request_free(request));
}

static void of_one_group(void)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;
    describe(size);
    CHECK_OK(MPI_Alltoallv_init(out, sends, places, MPI_INT, in, receives, others, MPI_INT, world, MPI_INFO_NULL, &request));
    exchange(&request, size, "alltoallv");

    describe(size);
    for (int r = 0; r < size; r++) {
        CHECK_OK(MPI_Type_contiguous(1, MPI_INT, &types[r]));
        CHECK_OK(MPI_Type_commit(&types[r]));
        types_in[r] = MPI_INT;
    }
    CHECK_OK(MPI_Alltoallw_init(out, sends, bytes_out, types, in, receives, bytes_in, types_in, world, MPI_INFO_NULL, &request));
    for (int r = 0; r < size; r++) CHECK_OK(MPI_Type_free(&types[r]));
    exchange(&request, size, "alltoallw");

    MPI_Comm graph;
    int everybody[16];
    for (int r = 0; r < size; r++) everybody[r] = r;
    CHECK_OK(MPI_Dist_graph_create_adjacent(world, size, everybody, unweighted, size, everybody, unweighted,
                                            MPI_INFO_NULL, 0, &graph));
    describe(size);
    CHECK_OK(MPI_Neighbor_alltoallv_init(out, sends, places, MPI_INT, in, receives, others, MPI_INT, graph, MPI_INFO_NULL, &request));
    exchange(&request, size, "neighbor_alltoallv");
    describe(size);
    for (int r = 0; r < size; r++) types[r] = types_in[r] = MPI_INT;
    CHECK_OK(MPI_Neighbor_alltoallw_init(out, sends, far_out, types, in, receives, far_in, types_in, graph, MPI_INFO_NULL, &request));
    CHECK_OK(MPI_Comm_free(&graph));
    exchange(&request, size, "neighbor_alltoallw of a freed graph");

    int root = size - 1, mine[16], back[16];
    MPI_Request two[2];
    for (int r = 0; r < size; r++) {
        receives[r] = count_of(r, root);
        others[r] = (size - 1 - r) * MOST;
    }
    int length = count_of(rank, root);
    CHECK_OK(MPI_Gatherv_init(mine, length, MPI_INT, in, receives, others, MPI_INT, root, world, MPI_INFO_NULL, &two[0]));
    CHECK_OK(MPI_Scatterv_init_c(in, (MPI_Count[16]){receives[0], receives[1], receives[2], receives[3], receives[4], receives[5], receives[6]},
                                 (MPI_Aint[16]){others[0], others[1], others[2], others[3], others[4], others[5], others[6]},
                                 MPI_INT, back, length, MPI_INT, root, world, MPI_INFO_NULL, &two[1]));
    forget();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 16; i++) mine[i] = value(rank, 0, round, i), back[i] = -1;
        for (int k = 0; k < 2; k++) {
            CHECK_OK(MPI_Start(&two[k]));
            CHECK_OK(MPI_Wait(&two[k], MPI_STATUS_IGNORE));
        }
        for (int i = 0; i < 16; i++) CHECK_EQ(back[i], i < length ? mine[i] : -1);
    }
    for (int k = 0; k < 2; k++) CHECK_OK(MPI_Request_free(&two[k]));

    for (int r = 0; r < size; r++) receives[r] = count_of(r, 0), others[r] = (size - 1 - r) * MOST;
    CHECK_OK(MPI_Allgatherv_init(mine, count_of(rank, 0), MPI_INT, in, receives, others, MPI_INT, world, MPI_INFO_NULL, &request));
    forget();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 16; i++) mine[i] = value(rank, 0, round, i);
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int r = 0; r < size; r++)
            for (int i = 0; i < count_of(r, 0); i++) CHECK_EQ(in[(size - 1 - r) * MOST + i], value(r, 0, round, i));
    }
    CHECK_OK(MPI_Request_free(&request));
}

static void of_a_torus(void)
{
    int dims[1] = {size}, periodic[1] = {1}, word = -1, got[2] = {-1, -1};
    MPI_Comm ring;
    MPI_Request request;
    check_where("ring");
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periodic, 0, &ring));
    CHECK_OK(MPI_Neighbor_allgather_init(&word, 1, MPI_INT, got, 1, MPI_INT, ring, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        word = rank * 10 + round;
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(got[0], (rank + size - 1) % size * 10 + round);
        CHECK_EQ(got[1], (rank + 1) % size * 10 + round);
    }
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Comm_free(&ring));

    periodic[0] = 0;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periodic, 0, &ring));
    int to[2];
    CHECK_OK(MPI_Neighbor_alltoall_init(to, 1, MPI_INT, got, 1, MPI_INT, ring, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        to[0] = value(rank, 0, round, 0), to[1] = value(rank, 1, round, 0);
        got[0] = got[1] = -9;
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(got[0], rank > 0 ? value(rank - 1, 1, round, 0) : -9);
        CHECK_EQ(got[1], rank + 1 < size ? value(rank + 1, 0, round, 0) : -9);
    }
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Comm_free(&ring));
}

static void between_groups(int at)
{
    MPI_Request requests[4];
    int word, own, sum, all[16], root;
    make_groups(at);
    check_where("%d and %d ranks", cut, size - cut);
    root = root_argument(1, 0);
    CHECK_OK(MPI_Bcast_init(&word, 1, MPI_INT, root, inter, MPI_INFO_NULL, &requests[0]));
    CHECK_OK(MPI_Allreduce_init(&own, &sum, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &requests[1]));
    CHECK_OK(MPI_Allgather_init(&own, 1, MPI_INT, all, 1, MPI_INT, inter, MPI_INFO_NULL, &requests[2]));
    CHECK_OK(MPI_Barrier_init(inter, MPI_INFO_NULL, &requests[3]));
    free_groups();
    for (int round = 0; round < ROUNDS; round++) {
        own = rank * 100 + round;
        word = root == MPI_ROOT ? round + 1 : -1;
        sum = -1;
        for (int i = 0; i < 4; i++) CHECK_OK(MPI_Start(&requests[(i + rank) % 4]));
        CHECK_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
        int wanted = 0;
        for (int r = 0; r < theirs; r++) {
            wanted += there(r) * 100 + round;
            CHECK_EQ(all[r], there(r) * 100 + round);
        }
        CHECK_EQ(sum, wanted);
        CHECK_EQ(word, lower && root != MPI_ROOT ? -1 : round + 1);
    }
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Request_free(&requests[i]));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    of_one_group();
    of_a_torus();
    for (int at = 1; at < size; at++) between_groups(at);
    return check_end();
}
