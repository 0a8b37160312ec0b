// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy
/* MPI_Alltoallw: a datatype for each partner, displacements in bytes, in place, all forms; a
 * transposition. */
#include "check.h"

#include <stddef.h>

enum { LENGTH = 5 };

static void alltoallw(int form, const void *send, const int *counts, const int *displs, const MPI_Datatype *types,
                      void *receive, const int *rcounts, const int *rdispls, const MPI_Datatype *rtypes)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Count c[64], rc[64];
    MPI_Aint d[64], rd[64];
    MPI_Comm world = MPI_COMM_WORLD;
    for (int r = 0; r < size; r++) {
        c[r] = counts ? counts[r] : 0;
        d[r] = displs ? displs[r] : 0;
        rc[r] = rcounts[r];
        rd[r] = rdispls[r];
    }
    switch (form) {
    case 0:
        CHECK_OK(MPI_Alltoallw(send, counts, displs, types, receive, rcounts, rdispls, rtypes, world));
        return;
    case 1:
        CHECK_OK(MPI_Ialltoallw(send, counts, displs, types, receive, rcounts, rdispls, rtypes, world, &request));
        break;
    case 2:
        CHECK_OK(MPI_Alltoallw_c(send, counts ? c : NULL, displs ? d : NULL, types, receive, rc, rd, rtypes, world));
        return;
    default:
        CHECK_OK(MPI_Ialltoallw_c(send, counts ? c : NULL, displs ? d : NULL, types, receive, rc, rd, rtypes, world, &request));
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Doubles between even ranks, else ints; each as one element of a contiguous type or as several. */
static void different_types(int form)
{
    check_where("different types, form %d", form);
    struct place {
        double doubles[LENGTH];
        int ints[LENGTH];
    } *out = allocate((size_t) size * sizeof *out), *in = allocate((size_t) size * sizeof *in);
    MPI_Datatype five_doubles, types[64], rtypes[64];
    CHECK_OK(MPI_Type_contiguous(LENGTH, MPI_DOUBLE, &five_doubles));
    CHECK_OK(MPI_Type_commit(&five_doubles));
    int counts[64], rcounts[64], displs[64], rdispls[64];
    memset(in, 0, (size_t) size * sizeof *in);
    for (int r = 0; r < size; r++) {
        int doubles = rank % 2 == 0 && r % 2 == 0;
        types[r] = doubles ? five_doubles : MPI_INT;
        counts[r] = doubles ? 1 : LENGTH;
        rtypes[r] = doubles ? MPI_DOUBLE : MPI_INT;
        rcounts[r] = LENGTH;
        displs[r] = rdispls[r] = (int) (((char *) &out[r]) - (char *) out) + (doubles ? 0 : (int) offsetof(struct place, ints));
        for (int i = 0; i < LENGTH; i++) {
            out[r].doubles[i] = rank + r * 10 + i * 0.5;
            out[r].ints[i] = rank + r * 10 + i * 1000;
        }
    }
    alltoallw(form, out, counts, displs, types, in, rcounts, rdispls, rtypes);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < LENGTH; i++) {
            int doubles = rank % 2 == 0 && r % 2 == 0;
            CHECK(in[r].doubles[i] == (doubles ? r + rank * 10 + i * 0.5 : 0));
            CHECK_EQ(in[r].ints[i], doubles ? 0 : r + rank * 10 + i * 1000);
        }
    CHECK_OK(MPI_Type_free(&five_doubles));
    free(out);
    free(in);
}

/* In place: the data for rank r are every second int, and are replaced there. The send arguments
 * are ignored. */
static void in_place(int form)
{
    check_where("in place, form %d", form);
    MPI_Datatype types[64], every_second;
    CHECK_OK(MPI_Type_vector(LENGTH, 1, 2, MPI_INT, &every_second));
    CHECK_OK(MPI_Type_commit(&every_second));
    int counts[64], displs[64], *all = allocate((size_t) (2 * LENGTH * size) * sizeof(int));
    for (int r = 0; r < size; r++) {
        counts[r] = (r + rank) % 4 != 3;
        types[r] = every_second;
        displs[r] = (int) sizeof(int) * 2 * LENGTH * r;
        for (int i = 0; i < 2 * LENGTH; i++) all[2 * LENGTH * r + i] = i % 2 ? -1 : rank * 1000 + r * 50 + i;
    }
    alltoallw(form, MPI_IN_PLACE, NULL, NULL, NULL, all, counts, displs, types);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < 2 * LENGTH; i++) {
            int kept = rank * 1000 + r * 50 + i, got = r * 1000 + rank * 50 + i;
            CHECK_EQ(all[2 * LENGTH * r + i], i % 2 ? -1 : counts[r] ? got : kept);
        }
    CHECK_OK(MPI_Type_free(&every_second));
    free(all);
}

static void transposition(int form)
{
    check_where("transposition, form %d", form);
    MPI_Datatype column, types[64], rtypes[64];
    int rows = 30, counts[64], rcounts[64], displs[64], rdispls[64];
    CHECK_OK(MPI_Type_vector(rows, 1, size, MPI_INT, &column));
    CHECK_OK(MPI_Type_commit(&column));
    int *mine = allocate((size_t) (rows * size) * sizeof(int)), *turned = allocate((size_t) (rows * size) * sizeof(int));
    for (int i = 0; i < rows * size; i++) mine[i] = rank * 100000 + i;
    for (int r = 0; r < size; r++) {
        counts[r] = 1;
        types[r] = column;
        displs[r] = r * (int) sizeof(int);
        rcounts[r] = rows;
        rtypes[r] = MPI_INT;
        rdispls[r] = r * rows * (int) sizeof(int);
    }
    alltoallw(form, mine, counts, displs, types, turned, rcounts, rdispls, rtypes);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < rows; i++) CHECK_EQ(turned[r * rows + i], r * 100000 + i * size + rank);
    CHECK_OK(MPI_Type_free(&column));
    free(mine);
    free(turned);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int form = 0; form < 4; form++) {
        different_types(form);
        in_place(form);
        transposition(form);
    }
    return check_end();
}
