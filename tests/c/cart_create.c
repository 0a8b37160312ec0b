// ranks: 1 2 4 7
// transports: one
/* Cartesian topologies: creation, coordinates, shifts, inheritance by dup, grids without
 * dimensions and of fewer ranks. */
#include "check.h"

/* Coordinates by the definition: row-major, the last one fastest. */
static void coords_by_hand(int r, int ndims, const int *dims, int *coords)
{
    for (int d = ndims - 1; d >= 0; d--) {
        coords[d] = r % dims[d];
        r /= dims[d];
    }
}

static int rank_by_hand(int ndims, const int *dims, const int *coords)
{
    int r = 0;
    for (int d = 0; d < ndims; d++) r = r * dims[d] + coords[d];
    return r;
}

static void check_shifts(MPI_Comm grid, int ndims, const int *dims, const int *periods)
{
    int me = -1, coords[3], there[3];
    MPI_Comm_rank(grid, &me);
    coords_by_hand(me, ndims, dims, coords);
    for (int d = 0; d < ndims; d++)
        for (int disp = -4; disp <= 4; disp++) {
            int ends[2], want[2];
            CHECK_OK(MPI_Cart_shift(grid, d, disp, &ends[0], &ends[1]));
            for (int side = 0; side < 2; side++) {
                memcpy(there, coords, sizeof there);
                there[d] += side ? disp : -disp;
                int inside = there[d] >= 0 && there[d] < dims[d];
                there[d] = ((there[d] % dims[d]) + dims[d]) % dims[d];
                want[side] = inside || periods[d] ? rank_by_hand(ndims, dims, there) : MPI_PROC_NULL;
            }
            CHECK_EQ(ends[0], want[0]);
            CHECK_EQ(ends[1], want[1]);
        }
}

static void check_grid(MPI_Comm grid, int ndims, const int *dims, const int *periods)
{
    int kind = -1, n = -1, members = 1, size_of_grid = -1, me = -1, got_dims[3], got_periods[3], coords[3], want[3];
    CHECK_OK(MPI_Topo_test(grid, &kind));
    CHECK_EQ(kind, MPI_CART);
    CHECK_OK(MPI_Cartdim_get(grid, &n));
    CHECK_EQ(n, ndims);
    MPI_Comm_size(grid, &size_of_grid);
    MPI_Comm_rank(grid, &me);
    CHECK_EQ(me, rank);
    CHECK_OK(MPI_Cart_get(grid, ndims, got_dims, got_periods, coords));
    coords_by_hand(me, ndims, dims, want);
    for (int d = 0; d < ndims; d++) {
        members *= dims[d];
        CHECK_EQ(got_dims[d], dims[d]);
        CHECK_EQ(got_periods[d], periods[d] != 0);
        CHECK_EQ(coords[d], want[d]);
    }
    CHECK_EQ(size_of_grid, members);
    for (int r = 0; r < members; r++) {
        int back = -1;
        coords_by_hand(r, ndims, dims, want);
        CHECK_OK(MPI_Cart_coords(grid, r, ndims, coords));
        for (int d = 0; d < ndims; d++) {
            CHECK_EQ(coords[d], want[d]);
            if (periods[d]) want[d] += (r % 3 - 1) * dims[d];
        }
        CHECK_OK(MPI_Cart_rank(grid, want, &back));
        CHECK_EQ(back, r);
    }
    check_shifts(grid, ndims, dims, periods);
}

static void one_grid(int ndims, const int *dims, const int *periods)
{
    MPI_Comm grid = MPI_COMM_NULL, copy;
    int members = 1, map = -1, sum = -1, one = 1;
    for (int d = 0; d < ndims; d++) members *= dims[d];
    check_where("%d dimensions, %d ranks", ndims, members);
    CHECK_OK(MPI_Cart_map(MPI_COMM_WORLD, ndims, dims, periods, &map));
    CHECK_EQ(map, rank < members ? rank : MPI_UNDEFINED);
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 1, &grid));
    CHECK_EQ(grid == MPI_COMM_NULL, rank >= members);
    if (grid == MPI_COMM_NULL) return;
    check_grid(grid, ndims, dims, periods);
    CHECK_OK(MPI_Comm_dup(grid, &copy));
    CHECK_OK(MPI_Comm_free(&grid));
    check_grid(copy, ndims, dims, periods);
    MPI_Comm later;
    MPI_Request request;
    CHECK_OK(MPI_Comm_idup(copy, &later, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_grid(later, ndims, dims, periods);
    CHECK_OK(MPI_Comm_free(&later));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy));
    CHECK_EQ(sum, members);
    CHECK_OK(MPI_Comm_free(&copy));
}

static void no_dimensions(void)
{
    MPI_Comm point;
    check_where("no dimensions");
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &point));
    CHECK_EQ(point == MPI_COMM_NULL, rank != 0);
    if (rank != 0) return;
    int n = -1, untouched = 77, r = -1, members = -1;
    CHECK_OK(MPI_Cartdim_get(point, &n));
    CHECK_EQ(n, 0);
    CHECK_OK(MPI_Cart_get(point, 1, &untouched, &untouched, &untouched));
    CHECK_OK(MPI_Cart_coords(point, 0, 1, &untouched));
    CHECK_EQ(untouched, 77);
    CHECK_OK(MPI_Cart_rank(point, NULL, &r));
    CHECK_EQ(r, 0);
    MPI_Comm_size(point, &members);
    CHECK_EQ(members, 1);
    CHECK_OK(MPI_Comm_free(&point));
}

static void errors(void)
{
    MPI_Comm grid = MPI_COMM_NULL;
    int dims[2] = {1, size}, periods[2] = {0, 1}, zero[2] = {size, 0}, many[2] = {size, 2}, r, coords[2] = {1, 0};
    check_where("errors");
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, many, periods, 0, &grid), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, zero, periods, 0, &grid), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 0, &grid), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, NULL, periods, 0, &grid), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_map(MPI_COMM_WORLD, 2, many, periods, &r), MPI_ERR_DIMS);
    r = -9;
    CHECK_OK(MPI_Cart_map(MPI_COMM_WORLD, 2, zero, periods, &r)); /* a grid without places */
    CHECK_EQ(r, MPI_UNDEFINED);
    zero[0] = -1;
    CHECK_CLASS(MPI_Cart_map(MPI_COMM_WORLD, 2, zero, periods, &r), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cartdim_get(MPI_COMM_WORLD, &r), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_rank(MPI_COMM_WORLD, coords, &r), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &r, &r), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_sub(MPI_COMM_WORLD, periods, &grid), MPI_ERR_TOPOLOGY);
    CHECK_OK(MPI_Topo_test(MPI_COMM_WORLD, &r));
    CHECK_EQ(r, MPI_UNDEFINED);
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    CHECK_CLASS(MPI_Cart_rank(grid, coords, &r), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_coords(grid, size, 2, coords), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Cart_coords(grid, 0, 1, coords), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_shift(grid, 2, 1, &r, &r), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Graphdims_get(grid, &r, &r), MPI_ERR_TOPOLOGY);
    CHECK_OK(MPI_Comm_free(&grid));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    int line[] = {size}, ring[] = {1}, open_ends[] = {0};
    one_grid(1, line, ring);
    one_grid(1, line, open_ends);
    int plane[] = {(size + 1) / 2, size > 1 ? 2 : 1}, mixed[] = {0, 5};
    if (plane[0] * plane[1] > size) plane[0]--;
    one_grid(2, plane, mixed);
    int cube[] = {1, size / 2 > 0 ? size / 2 : 1, 1}, all[] = {1, 1, 0};
    one_grid(3, cube, all);
    no_dimensions();
    errors();
    return check_end();
}
