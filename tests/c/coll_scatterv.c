// ranks: 1 2 4 7
// transports: all
/* MPI_Scatterv: blocks of different lengths, all forms; root-only arguments are invalid
 * elsewhere. */
#include "check.h"

enum { MOST = 7, GAP = 2 };

static int count_of(int r, int round) { return (int) (drawn((unsigned) r, (unsigned) round, 2) % (MOST + 1)); }

static short value_of(int r, int round, int i) { return (short) (1000 * round + 100 * r + i); }

static void scatterv(int form, const void *send, const int *counts, const int *displs, MPI_Datatype type, void *receive,
                     int count, MPI_Datatype into, int root)
{
    MPI_Request request = MPI_REQUEST_NULL;
    const MPI_Count *wide_counts = (const MPI_Count *) counts;
    const MPI_Aint *wide_displs = (const MPI_Aint *) displs;
    MPI_Count c[64];
    MPI_Aint d[64];
    if (rank == root) {
        for (int r = 0; r < size; r++) {
            c[r] = counts[r];
            d[r] = displs[r];
        }
        wide_counts = c;
        wide_displs = d;
    }
    MPI_Comm world = MPI_COMM_WORLD;
    switch (form) {
    case 0: CHECK_OK(MPI_Scatterv(send, counts, displs, type, receive, count, into, root, world)); return;
    case 1: CHECK_OK(MPI_Iscatterv(send, counts, displs, type, receive, count, into, root, world, &request)); break;
    case 2: CHECK_OK(MPI_Scatterv_c(send, wide_counts, wide_displs, type, receive, count, into, root, world)); return;
    default:
        CHECK_OK(MPI_Iscatterv_c(send, wide_counts, wide_displs, type, receive, count, into, root, world, &request));
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void round_trip(int form, int root, int round, int in_place)
{
    check_where("form %d, root %d, round %d, in place %d", form, root, round, in_place);
    short mine[MOST + 1];
    int counts[64], displs[64], room = (MOST + GAP) * size;
    short *all = allocate((size_t) room * sizeof *all);
    for (int r = 0; r < size; r++) {
        counts[r] = count_of(r, round);
        /* Backwards from the end: displacements may be negative. */
        displs[r] = -(r + 1) * (MOST + GAP);
        for (int i = 0; i < MOST; i++) all[room + displs[r] + i] = value_of(r, round, i);
    }
    for (int i = 0; i <= MOST; i++) mine[i] = -1;
    int own = counts[rank];
    if (rank != root)
        scatterv(form, (void *) 8, (int *) 16, (int *) 24, (MPI_Datatype) 12345, mine, own, MPI_SHORT, root);
    else if (in_place)
        scatterv(form, all + room, counts, displs, MPI_SHORT, MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, root);
    else
        scatterv(form, all + room, counts, displs, MPI_SHORT, mine, own, MPI_SHORT, root);
    int received = rank != root || !in_place;
    for (int i = 0; i <= MOST; i++) CHECK_EQ(mine[i], received && i < own ? value_of(rank, round, i) : -1);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < MOST; i++) CHECK_EQ(all[room + displs[r] + i], value_of(r, round, i));
    free(all);
}

static void overlapping(int root)
{
    check_where("overlapping, root %d", root);
    double all[4] = {1.5, 2.5, 3.5, 4.5}, mine[4] = {0, 0, 0, 0};
    int counts[64], displs[64], own = 1 + rank % 3;
    for (int r = 0; r < size; r++) {
        counts[r] = 1 + r % 3;
        displs[r] = r % 2;
    }
    CHECK_OK(MPI_Scatterv(all, counts, displs, MPI_DOUBLE, mine, own, MPI_DOUBLE, root, MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) CHECK(mine[i] == (i < own ? all[rank % 2 + i] : 0));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int root = 0; root < size; root++) {
        for (int round = 0; round < 3; round++)
            for (int form = 0; form < 4; form++)
                for (int in_place = 0; in_place < 2; in_place++) round_trip(form, root, round, in_place);
        overlapping(root);
    }
    int zeros[64] = {0};
    CHECK_OK(MPI_Scatterv(NULL, zeros, zeros, MPI_INT, NULL, 0, MPI_INT, 0, MPI_COMM_WORLD));
    return check_end();
}
