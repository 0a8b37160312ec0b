// ranks: 1 2 3 4 7
// transports: all
/* Collectives whose blocks have different lengths, some with room in shared memory and some
 * without: all data arrive, in place or not, while calls of all kinds follow each other. */
#include "check.h"

enum { LONGEST = 200000, ROUNDS = 12 };

static int counts[16], places[16], others[16], other_places[16];
static unsigned char *out, *in;

/* The length of the block from one rank to another in a round: 0, few bytes, some KiB, or more
 * than a segment. */
static int length(int from, int to, int round)
{
    static const int lengths[] = {0, 1, 8, 57, 700, 5000, 66000, LONGEST};
    return lengths[(from * 3 + to * 5 + round) % 8];
}

static unsigned char content(int from, int to, int at) { return (unsigned char) (from * 31 + to * 17 + at * 7 + at / 256); }

static int is_whole(const unsigned char *block, int from, int to, int bytes)
{
    for (int i = 0; i < bytes; i++)
        if (block[i] != content(from, to, i)) return 0;
    return 1;
}

static void fill(unsigned char *block, int from, int to, int bytes)
{
    for (int i = 0; i < bytes; i++) block[i] = content(from, to, i);
}

static void lay_out(int round)
{
    int at = 0, other = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = length(rank, r, round);
        places[r] = at;
        at += counts[r] + 3;
    }
    for (int r = size - 1; r >= 0; r--) {
        others[r] = length(r, rank, round);
        other_places[r] = other;
        other += others[r] + 5;
    }
    for (int r = 0; r < size; r++) fill(out + places[r], rank, r, counts[r]);
}

static void alltoallv(int round)
{
    lay_out(round);
    check_where("Alltoallv, round %d", round);
    CHECK_OK(MPI_Alltoallv(out, counts, places, MPI_BYTE, in, others, other_places, MPI_BYTE, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) CHECK(is_whole(in + other_places[r], r, rank, others[r]));
    /* In place the two have blocks of one length for each other. */
    for (int r = 0, at = 0; r < size; r++) {
        counts[r] = length(rank < r ? rank : r, rank < r ? r : rank, round);
        places[r] = at;
        at += counts[r];
        fill(in + places[r], rank, r, counts[r]);
    }
    check_where("Alltoallv in place, round %d", round);
    CHECK_OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_BYTE, in, counts, places, MPI_BYTE, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) CHECK(is_whole(in + places[r], r, rank, counts[r]));
}

static void alltoallw(int round)
{
    MPI_Datatype types[16], vector;
    int ones[16], *from = (int *) out, *to = (int *) in;
    int most = 0;
    CHECK_OK(MPI_Type_vector(1, 1, 2, MPI_INT, &vector));
    CHECK_OK(MPI_Type_create_resized(vector, 0, 2 * sizeof(int), &vector));
    CHECK_OK(MPI_Type_commit(&vector));
    for (int r = 0; r < size; r++) {
        int bytes = length(rank, r, round) + length(r, rank, round);
        ones[r] = bytes / 8;
        if (ones[r] > most) most = ones[r];
        types[r] = vector;
    }
    for (int r = 0; r < size; r++) {
        places[r] = r * 8 * (most + 1);
        for (int i = 0; i < ones[r]; i++) from[places[r] / 4 + 2 * i] = rank * 1000 + r + i;
        for (int i = 0; i <= 2 * ones[r]; i++) to[places[r] / 4 + i] = -1;
    }
    check_where("Alltoallw, round %d", round);
    CHECK_OK(MPI_Alltoallw(from, ones, places, types, to, ones, places, types, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) {
        int wrong = 0;
        for (int i = 0; i < ones[r]; i++)
            wrong += to[places[r] / 4 + 2 * i] != r * 1000 + rank + i || to[places[r] / 4 + 2 * i + 1] != -1;
        CHECK_EQ(wrong, 0);
    }
    CHECK_OK(MPI_Type_free(&vector));
}

static void rooted(int round)
{
    int root = round % size, mine = length(rank, root, round);
    for (int r = 0, at = 0; r < size; r++) {
        counts[r] = length(r, root, round);
        places[r] = at;
        at += counts[r] + 1;
    }
    fill(out, rank, root, mine);
    check_where("Gatherv, round %d", round);
    CHECK_OK(MPI_Gatherv(out, mine, MPI_BYTE, in, rank == root ? counts : NULL, rank == root ? places : NULL, MPI_BYTE, root, MPI_COMM_WORLD));
    for (int r = 0; rank == root && r < size; r++) CHECK(is_whole(in + places[r], r, root, counts[r]));
    check_where("Scatterv, round %d", round);
    CHECK_OK(MPI_Scatterv(in, rank == root ? counts : NULL, rank == root ? places : NULL, MPI_BYTE, out, mine, MPI_BYTE, root, MPI_COMM_WORLD));
    CHECK(is_whole(out, rank, root, mine));
    check_where("Allgatherv, round %d", round);
    CHECK_OK(MPI_Allgatherv(out, mine, MPI_BYTE, in, counts, places, MPI_BYTE, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) CHECK(is_whole(in + places[r], r, root, counts[r]));
}

/* A graph in which each rank has two edges to the next one, and one to itself. */
static void neighbours(int round)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int to[] = {next, rank, next}, from[] = {before, before, rank};
    int sent[] = {length(rank, next, round), 9, length(next, rank, round)};
    int received[] = {length(before, rank, round), length(rank, before, round), 9};
    int at[] = {0, LONGEST, 2 * LONGEST};
    MPI_Comm graph;
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, from, MPI_UNWEIGHTED, 3, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
    for (int k = 0; k < 3; k++) fill(out + at[k], rank, k, sent[k]);
    check_where("Neighbor_alltoallv, round %d", round);
    /* With one rank all three edges are its own. */
    if (size > 1) {
        CHECK_OK(MPI_Neighbor_alltoallv(out, sent, at, MPI_BYTE, in, received, at, MPI_BYTE, graph));
        CHECK(is_whole(in + at[0], before, 0, received[0]));
        CHECK(is_whole(in + at[1], before, 2, received[1]));
        CHECK(is_whole(in + at[2], rank, 1, 9));
    }
    CHECK_OK(MPI_Neighbor_allgather(out + at[1], 9, MPI_BYTE, in, 9, MPI_BYTE, graph));
    CHECK(is_whole(in, before, 1, 9) && is_whole(in + 9, before, 1, 9) && is_whole(in + 18, rank, 1, 9));
    CHECK_OK(MPI_Comm_free(&graph));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    out = malloc(16 * (LONGEST + 16));
    in = malloc(16 * (LONGEST + 16));
    for (int round = 0; round < ROUNDS; round++) {
        int sum = 0;
        alltoallv(round);
        rooted(round);
        CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, size * (size - 1) / 2);
        alltoallw(round);
        neighbours(round);
    }
    free(out);
    free(in);
    return check_end();
}
