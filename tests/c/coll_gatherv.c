// ranks: 1 2 4 7
// transports: all
/* MPI_Gatherv: blocks of different lengths, types and places, all forms; root-only arguments are
 * invalid elsewhere. */
#include "check.h"

enum { MOST = 6, GAP = 3 };

static int count_of(int r, int round) { return (int) (drawn((unsigned) r, (unsigned) round, 1) % (MOST + 1)); }

static int value_of(int r, int round, int i) { return 1000 * round + 100 * r + i; }

enum form { BLOCKING, NONBLOCKING, LARGE, LARGE_NONBLOCKING };

static void gatherv(enum form form, const void *send, int count, MPI_Datatype type, void *receive, const int *counts,
                    const int *displs, MPI_Datatype into, int root)
{
    MPI_Request request = MPI_REQUEST_NULL;
    /* At other ranks these are invalid addresses, which the library must not read. */
    const MPI_Count *wide_counts = (const MPI_Count *) counts;
    const MPI_Aint *wide_displs = (const MPI_Aint *) displs;
    MPI_Count c[64];
    MPI_Aint d[64];
    if (rank == root && form >= LARGE) {
        for (int r = 0; r < size; r++) {
            c[r] = counts[r];
            d[r] = displs[r];
        }
        wide_counts = c;
        wide_displs = d;
    }
    switch (form) {
    case BLOCKING:
        CHECK_OK(MPI_Gatherv(send, count, type, receive, counts, displs, into, root, MPI_COMM_WORLD));
        return;
    case NONBLOCKING:
        CHECK_OK(MPI_Igatherv(send, count, type, receive, counts, displs, into, root, MPI_COMM_WORLD, &request));
        break;
    case LARGE:
        CHECK_OK(MPI_Gatherv_c(send, count, type, receive, wide_counts, wide_displs, into, root, MPI_COMM_WORLD));
        return;
    case LARGE_NONBLOCKING:
        CHECK_OK(MPI_Igatherv_c(send, count, type, receive, wide_counts, wide_displs, into, root, MPI_COMM_WORLD, &request));
        break;
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void round_trip(enum form form, int root, int round, int in_place)
{
    check_where("form %d, root %d, round %d, in place %d", (int) form, root, round, in_place);
    int mine[MOST], counts[64], displs[64], room = (MOST + GAP) * size;
    int *all = allocate((size_t) room * sizeof *all);
    for (int i = 0; i < room; i++) all[i] = -1;
    for (int r = 0; r < size; r++) {
        counts[r] = count_of(r, round);
        displs[r] = (size - 1 - r) * (MOST + GAP);
    }
    for (int i = 0; i < counts[rank]; i++) mine[i] = value_of(rank, round, i);
    if (rank != root) {
        gatherv(form, mine, counts[rank], MPI_INT, (void *) 8, (int *) 16, (int *) 24, (MPI_Datatype) 12345, root);
        free(all);
        return;
    }
    if (in_place) memcpy(all + displs[rank], mine, (size_t) counts[rank] * sizeof(int));
    gatherv(form, in_place ? MPI_IN_PLACE : mine, in_place ? -1 : counts[rank], in_place ? MPI_DATATYPE_NULL : MPI_INT, all,
            counts, displs, MPI_INT, root);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < MOST + GAP; i++)
            CHECK_EQ(all[displs[r] + i], i < counts[r] ? value_of(r, round, i) : -1);
    free(all);
}

/* The leaves send ints, the root receives every second int of a longer vector, in blocks of
 * whole vectors. */
static void strided(int root)
{
    check_where("strided, root %d", root);
    MPI_Datatype pairs;
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pairs));
    CHECK_OK(MPI_Type_commit(&pairs));
    int counts[64], displs[64], mine[2 * MOST], extent = 3, room = 3 * MOST * size;
    int *all = allocate((size_t) room * sizeof *all);
    for (int i = 0; i < room; i++) all[i] = -1;
    for (int r = 0; r < size; r++) {
        counts[r] = count_of(r, 9);
        displs[r] = r * MOST;
    }
    for (int i = 0; i < 2 * counts[rank]; i++) mine[i] = value_of(rank, 9, i);
    CHECK_OK(MPI_Gatherv(mine, 2 * counts[rank], MPI_INT, all, counts, displs, pairs, root, MPI_COMM_WORLD));
    if (rank == root)
        for (int r = 0; r < size; r++)
            for (int i = 0; i < 3 * MOST; i++) {
                int used = i < counts[r] * extent && i % extent != 1;
                int want = used ? value_of(r, 9, 2 * (i / extent) + (i % extent == 2)) : -1;
                CHECK_EQ(all[displs[r] * extent + i], want);
            }
    free(all);
    CHECK_OK(MPI_Type_free(&pairs));
}

static void long_blocks(int root)
{
    check_where("long, root %d", root);
    int counts[64], displs[64], total = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = r % 3 == 1 ? 0 : 50000 * (r + 1);
        displs[r] = total;
        total += counts[r];
    }
    char *mine = allocate((size_t) counts[rank]), *all = allocate((size_t) total);
    pattern_fill(mine, (size_t) counts[rank], (unsigned) rank);
    CHECK_OK(MPI_Gatherv(mine, counts[rank], MPI_CHAR, all, counts, displs, MPI_CHAR, root, MPI_COMM_WORLD));
    if (rank == root)
        for (int r = 0; r < size; r++)
            CHECK_EQ(pattern_differs(all + displs[r], (size_t) counts[r], (unsigned) r), -1);
    free(mine);
    free(all);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int root = 0; root < size; root++) {
        for (int round = 0; round < 3; round++)
            for (enum form form = BLOCKING; form <= LARGE_NONBLOCKING; form++)
                for (int in_place = 0; in_place < 2; in_place++) round_trip(form, root, round, in_place);
        strided(root);
    }
    long_blocks(0);
    long_blocks(size - 1);
    /* Without data no addresses are needed. */
    int zeros[64] = {0};
    CHECK_OK(MPI_Gatherv(NULL, 0, MPI_INT, NULL, zeros, zeros, MPI_INT, 0, MPI_COMM_WORLD));
    return check_end();
}
