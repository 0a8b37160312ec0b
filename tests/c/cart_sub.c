// ranks: 1 2 4 7
// transports: one
/* MPI_Cart_sub: rows, columns, the whole and single ranks of a grid; each part is a grid of its
 * own. */
#include "check.h"

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int dims[2] = {0, 0}, periods[2] = {0, 1}, coords[2] = {-1, -1};
    int used = size == 7 ? 6 : size;
    MPI_Comm grid, part;
    CHECK_OK(MPI_Dims_create(used, 2, dims));
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    if (grid == MPI_COMM_NULL) return check_end();
    CHECK_OK(MPI_Cart_coords(grid, rank, 2, coords));
    for (int mask = 0; mask < 4; mask++) {
        int remain[2] = {mask & 1, mask & 2 ? 7 : 0}, n = -1, members = -1, me = -1, want = 1, place = 0, sum = 0;
        check_where("remain %d %d", remain[0], remain[1]);
        CHECK_OK(MPI_Cart_sub(grid, remain, &part));
        CHECK_OK(MPI_Cartdim_get(part, &n));
        CHECK_EQ(n, (remain[0] != 0) + (remain[1] != 0));
        MPI_Comm_size(part, &members);
        MPI_Comm_rank(part, &me);
        int got_dims[2], got_periods[2], got_coords[2], at = 0;
        CHECK_OK(MPI_Cart_get(part, 2, got_dims, got_periods, got_coords));
        for (int d = 0; d < 2; d++)
            if (remain[d]) {
                want *= dims[d];
                place = place * dims[d] + coords[d];
                CHECK_EQ(got_dims[at], dims[d]);
                CHECK_EQ(got_periods[at], periods[d]);
                CHECK_EQ(got_coords[at], coords[d]);
                at++;
            }
        CHECK_EQ(members, want);
        CHECK_EQ(me, place);
        int other = (remain[0] ? 0 : coords[0] + 1) * 100 + (remain[1] ? 0 : coords[1] + 1);
        CHECK_OK(MPI_Allreduce(&other, &sum, 1, MPI_INT, MPI_SUM, part));
        CHECK_EQ(sum, other * members);
        MPI_Comm point;
        int none[2] = {0, 0}, alone = -1;
        CHECK_OK(MPI_Cart_sub(part, none, &point));
        MPI_Comm_size(point, &alone);
        CHECK_EQ(alone, 1);
        CHECK_OK(MPI_Comm_free(&point));
        CHECK_OK(MPI_Comm_free(&part));
    }
    CHECK_OK(MPI_Comm_free(&grid));
    return check_end();
}
