// ranks: 1 2 4 7
// transports: all
// every day: shm-denied nodes
/* MPI_Allgatherv: short and long blocks, with gaps, out of order, with derived types, in place,
 * all forms. */
#include "check.h"

static int count_of(int r, int round, int most) { return (int) (drawn((unsigned) r, (unsigned) round, 3) % (unsigned) (most + 1)); }

static void allgatherv(int form, const void *send, int count, MPI_Datatype type, void *receive, const int *counts,
                       const int *displs, MPI_Datatype into)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Count c[64];
    MPI_Aint d[64];
    MPI_Comm world = MPI_COMM_WORLD;
    for (int r = 0; r < size; r++) {
        c[r] = counts[r];
        d[r] = displs[r];
    }
    switch (form) {
    case 0: CHECK_OK(MPI_Allgatherv(send, count, type, receive, counts, displs, into, world)); return;
    case 1: CHECK_OK(MPI_Iallgatherv(send, count, type, receive, counts, displs, into, world, &request)); break;
    case 2: CHECK_OK(MPI_Allgatherv_c(send, count, type, receive, c, d, into, world)); return;
    default: CHECK_OK(MPI_Iallgatherv_c(send, count, type, receive, c, d, into, world, &request));
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void bytes(int form, int most, int round, int in_place)
{
    check_where("form %d, up to %d bytes, round %d, in place %d", form, most, round, in_place);
    int counts[64], displs[64];
    size_t room = (size_t) (most + 1) * (size_t) size;
    unsigned char *all = allocate(room), *mine = allocate((size_t) most);
    memset(all, 0xee, room);
    for (int r = 0; r < size; r++) {
        counts[r] = count_of(r, round, most);
        displs[r] = (r + size / 2) % size * (most + 1);
    }
    pattern_fill(mine, (size_t) counts[rank], (unsigned) rank);
    if (in_place) memcpy(all + displs[rank], mine, (size_t) counts[rank]);
    allgatherv(form, in_place ? MPI_IN_PLACE : mine, in_place ? 0 : counts[rank], MPI_BYTE, all, counts, displs, MPI_BYTE);
    for (int r = 0; r < size; r++) {
        CHECK_EQ(pattern_differs(all + displs[r], (size_t) counts[r], (unsigned) r), -1);
        CHECK_EQ(bytes_differ(all + displs[r], (size_t) counts[r], (size_t) most + 1, 0xee), -1);
    }
    free(all);
    free(mine);
}

static void columns(int form, int rows)
{
    check_where("columns, form %d, %d rows", form, rows);
    MPI_Datatype column, narrow;
    CHECK_OK(MPI_Type_vector(rows, 1, size, MPI_INT, &column));
    CHECK_OK(MPI_Type_create_resized(column, 0, sizeof(int), &narrow));
    CHECK_OK(MPI_Type_commit(&narrow));
    int *matrix = allocate((size_t) (rows * size) * sizeof(int)), *mine = allocate((size_t) rows * sizeof(int));
    int counts[64], displs[64];
    for (int r = 0; r < size; r++) {
        counts[r] = r % 3 != 2;
        displs[r] = size - 1 - r;
    }
    for (int i = 0; i < rows; i++) mine[i] = rank * 100000 + i;
    for (int i = 0; i < rows * size; i++) matrix[i] = -1;
    allgatherv(form, mine, counts[rank] * rows, MPI_INT, matrix, counts, displs, narrow);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < rows; i++)
            if (!CHECK_EQ(matrix[i * size + displs[r]], counts[r] ? r * 100000 + i : -1)) i = rows;
    free(matrix);
    free(mine);
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Type_free(&narrow));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int form = 0; form < 4; form++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int round = 0; round < 3; round++) {
                bytes(form, 0, round, in_place);
                bytes(form, 9, round, in_place);
                bytes(form, 3000, round, in_place);
                bytes(form, 200000, round, in_place);
            }
    for (int form = 0; form < 4; form++) {
        columns(form, 1);
        columns(form, 40);
        columns(form, 5000);
    }
    return check_end();
}
