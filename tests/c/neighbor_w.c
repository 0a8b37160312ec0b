// ranks: 1 2 4 7
// transports: all
// every day: lamd ofi
/* MPI_Neighbor_alltoallw: the halo of a matrix without copies, with faces as derived types and
 * places in bytes; data beyond the border are unchanged for all arguments. All forms. */
#include "check.h"

enum { ROWS = 4, COLUMNS = 5, WIDTH = COLUMNS + 2 };

static int cell(int r, int i, int j) { return r * 10000 + i * 100 + j; }

static void exchange(MPI_Comm grid, int form)
{
    int me = -1, ranks[4], field[ROWS + 2][WIDTH];
    MPI_Datatype row, column;
    MPI_Comm_rank(grid, &me);
    CHECK_OK(MPI_Type_contiguous(COLUMNS, MPI_INT, &row));
    CHECK_OK(MPI_Type_vector(ROWS, 1, WIDTH, MPI_INT, &column));
    CHECK_OK(MPI_Type_commit(&row));
    CHECK_OK(MPI_Type_commit(&column));
    for (int i = 0; i < ROWS + 2; i++)
        for (int j = 0; j < WIDTH; j++)
            field[i][j] = i >= 1 && i <= ROWS && j >= 1 && j <= COLUMNS ? cell(me, i, j) : -1;
    CHECK_OK(MPI_Cart_shift(grid, 0, 1, &ranks[0], &ranks[1]));
    CHECK_OK(MPI_Cart_shift(grid, 1, 1, &ranks[2], &ranks[3]));
    MPI_Datatype types[4] = {row, row, column, column};
    int *inner[4] = {&field[1][1], &field[ROWS][1], &field[1][1], &field[1][COLUMNS]};
    int *halo[4] = {&field[0][1], &field[ROWS + 1][1], &field[1][0], &field[1][COLUMNS + 1]};
    MPI_Aint sdispls[4], rdispls[4];
    int counts[4];
    MPI_Count wide[4];
    for (int k = 0; k < 4; k++) {
        sdispls[k] = (char *) inner[k] - (char *) field;
        rdispls[k] = (char *) halo[k] - (char *) field;
        wide[k] = counts[k] = 1;
        if (ranks[k] == MPI_PROC_NULL) {
            wide[k] = counts[k] = -3;
            types[k] = MPI_DATATYPE_NULL;
        }
    }
    MPI_Request request = MPI_REQUEST_NULL;
    switch (form) {
    case 0: CHECK_OK(MPI_Neighbor_alltoallw(field, counts, sdispls, types, field, counts, rdispls, types, grid)); break;
    case 1:
        CHECK_OK(MPI_Ineighbor_alltoallw(field, counts, sdispls, types, field, counts, rdispls, types, grid, &request));
        break;
    case 2: CHECK_OK(MPI_Neighbor_alltoallw_c(field, wide, sdispls, types, field, wide, rdispls, types, grid)); break;
    default:
        CHECK_OK(MPI_Ineighbor_alltoallw_c(field, wide, sdispls, types, field, wide, rdispls, types, grid, &request));
    }
    CHECK_OK(MPI_Type_free(&row));
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < ROWS + 2; i++)
        for (int j = 0; j < WIDTH; j++) {
            int want = -1, inside_i = i >= 1 && i <= ROWS, inside_j = j >= 1 && j <= COLUMNS;
            if (inside_i && inside_j) want = cell(me, i, j);
            if (i == 0 && inside_j && ranks[0] >= 0) want = cell(ranks[0], ROWS, j);
            if (i == ROWS + 1 && inside_j && ranks[1] >= 0) want = cell(ranks[1], 1, j);
            if (j == 0 && inside_i && ranks[2] >= 0) want = cell(ranks[2], i, COLUMNS);
            if (j == COLUMNS + 1 && inside_i && ranks[3] >= 0) want = cell(ranks[3], i, 1);
            CHECK_EQ(field[i][j], want);
        }
}

/* From MPI_BOTTOM displacements in bytes are addresses. */
static void from_bottom(void)
{
    check_where("from MPI_BOTTOM");
    int sources[1] = {(rank + size - 1) % size}, destinations[1] = {(rank + 1) % size};
    int out[4] = {rank, rank + 1, rank + 2, rank + 3}, in[4] = {-1, -1, -1, -1}, count = 4;
    MPI_Datatype type = MPI_INT;
    MPI_Aint from, to;
    MPI_Comm ring;
    MPI_Get_address(out, &from);
    MPI_Get_address(in, &to);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &ring);
    CHECK_OK(MPI_Neighbor_alltoallw(MPI_BOTTOM, &count, &from, &type, MPI_BOTTOM, &count, &to, &type, ring));
    for (int i = 0; i < 4; i++) CHECK_EQ(in[i], sources[0] + i);
    MPI_Aint nowhere = 16;
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Neighbor_alltoallw(MPI_BOTTOM, &count, &nowhere, &type, MPI_BOTTOM, &count, &to, &type, ring),
                MPI_ERR_BUFFER);
    MPI_Comm_free(&ring);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int mask = 0; mask < 4; mask++) {
        int dims[2] = {0, 0}, periods[2] = {mask & 1, mask & 2};
        MPI_Comm grid;
        check_where("periods %d %d", periods[0], periods[1]);
        CHECK_OK(MPI_Dims_create(size, 2, dims));
        CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
        for (int form = 0; form < 4; form++) exchange(grid, form);
        CHECK_OK(MPI_Comm_free(&grid));
    }
    from_bottom();
    return check_end();
}
