// ranks: 1 2 4 7
// transports: all
/* Neighbourhood collectives of grids: borders leave their blocks unchanged, and in periodic
 * dimensions of one or two ranks, where both neighbours are one process, data to the left still
 * arrive from the right. All forms. */
#include "check.h"

enum { N = 3 };

static int value_of(int r, int k, int i) { return r * 1000 + k * 100 + i; }

static void finish(MPI_Request *request) { CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE)); }

static int neighbors_of(MPI_Comm grid, int ndims, int *ranks)
{
    for (int d = 0; d < ndims; d++) CHECK_OK(MPI_Cart_shift(grid, d, 1, &ranks[2 * d], &ranks[2 * d + 1]));
    return 2 * ndims;
}

/* Block k comes from neighbour k, which sent it in the opposite direction. */
static void check_blocks(const int *got, const int *counts, const int *displs, int degree, const int *ranks, int to_all)
{
    for (int k = 0; k < degree; k++)
        for (int i = 0; i < N; i++) {
            int there = ranks[k] != MPI_PROC_NULL && i < counts[k];
            CHECK_EQ(got[displs[k] + i], there ? value_of(ranks[k], to_all ? 0 : k ^ 1, i) : -1);
        }
}

static void all_forms(MPI_Comm grid, int ndims)
{
    int ranks[6], degree = neighbors_of(grid, ndims, ranks), me = -1;
    int send[6 * N], receive[6 * N + 6], even[6], places[6], counts[6], scounts[6], spread[6];
    MPI_Count wide[6], swide[6];
    MPI_Aint wide_spread[6], wide_places[6];
    MPI_Comm_rank(grid, &me);
    for (int k = 0; k < degree; k++) {
        even[k] = N;
        places[k] = k * N;
        /* Two ranks exchange equal lengths, from the ranks and the direction. */
        int d = k / 2, other = ranks[k] == MPI_PROC_NULL ? 0 : ranks[k];
        counts[k] = (me + other + d) % (N + 1);
        scounts[k] = counts[k];
        spread[k] = (degree - 1 - k) * (N + 1);
        wide[k] = counts[k];
        swide[k] = scounts[k];
        wide_places[k] = places[k];
        wide_spread[k] = spread[k];
        for (int i = 0; i < N; i++) send[k * N + i] = value_of(me, k, i);
    }
    for (int form = 0; form < 4; form++) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_where("alltoall, %d dimensions, form %d", ndims, form);
        memset(receive, 0xff, sizeof receive);
        switch (form) {
        case 0: CHECK_OK(MPI_Neighbor_alltoall(send, N, MPI_INT, receive, N, MPI_INT, grid)); break;
        case 1: CHECK_OK(MPI_Ineighbor_alltoall(send, N, MPI_INT, receive, N, MPI_INT, grid, &request)); break;
        case 2: CHECK_OK(MPI_Neighbor_alltoall_c(send, N, MPI_INT, receive, N, MPI_INT, grid)); break;
        default: CHECK_OK(MPI_Ineighbor_alltoall_c(send, N, MPI_INT, receive, N, MPI_INT, grid, &request));
        }
        finish(&request);
        check_blocks(receive, even, places, degree, ranks, 0);

        check_where("alltoallv, %d dimensions, form %d", ndims, form);
        memset(receive, 0xff, sizeof receive);
        switch (form) {
        case 0:
            CHECK_OK(MPI_Neighbor_alltoallv(send, scounts, places, MPI_INT, receive, counts, spread, MPI_INT, grid));
            break;
        case 1:
            CHECK_OK(MPI_Ineighbor_alltoallv(send, scounts, places, MPI_INT, receive, counts, spread, MPI_INT, grid, &request));
            break;
        case 2:
            CHECK_OK(MPI_Neighbor_alltoallv_c(send, swide, wide_places, MPI_INT, receive, wide, wide_spread, MPI_INT, grid));
            break;
        default:
            CHECK_OK(MPI_Ineighbor_alltoallv_c(send, swide, wide_places, MPI_INT, receive, wide, wide_spread, MPI_INT, grid,
                                               &request));
        }
        finish(&request);
        check_blocks(receive, counts, spread, degree, ranks, 0);

        check_where("allgather, %d dimensions, form %d", ndims, form);
        memset(receive, 0xff, sizeof receive);
        switch (form) {
        case 0: CHECK_OK(MPI_Neighbor_allgather(send, N, MPI_INT, receive, N, MPI_INT, grid)); break;
        case 1: CHECK_OK(MPI_Ineighbor_allgather(send, N, MPI_INT, receive, N, MPI_INT, grid, &request)); break;
        case 2: CHECK_OK(MPI_Neighbor_allgather_c(send, N, MPI_INT, receive, N, MPI_INT, grid)); break;
        default: CHECK_OK(MPI_Ineighbor_allgather_c(send, N, MPI_INT, receive, N, MPI_INT, grid, &request));
        }
        finish(&request);
        check_blocks(receive, even, places, degree, ranks, 1);
    }
}

static void allgatherv(MPI_Comm grid, int ndims)
{
    int ranks[6], degree = neighbors_of(grid, ndims, ranks), me = -1, send[N], receive[6 * (N + 1)], counts[6], displs[6];
    MPI_Count wide[6];
    MPI_Aint wide_displs[6];
    MPI_Comm_rank(grid, &me);
    for (int i = 0; i < N; i++) send[i] = value_of(me, 0, i);
    for (int k = 0; k < degree; k++) {
        wide[k] = counts[k] = ranks[k] == MPI_PROC_NULL ? -7 : ranks[k] % (N + 1);
        wide_displs[k] = displs[k] = (degree - 1 - k) * (N + 1);
    }
    for (int form = 0; form < 4; form++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int mine = me % (N + 1);
        check_where("allgatherv, %d dimensions, form %d", ndims, form);
        memset(receive, 0xff, sizeof receive);
        switch (form) {
        case 0: CHECK_OK(MPI_Neighbor_allgatherv(send, mine, MPI_INT, receive, counts, displs, MPI_INT, grid)); break;
        case 1:
            CHECK_OK(MPI_Ineighbor_allgatherv(send, mine, MPI_INT, receive, counts, displs, MPI_INT, grid, &request));
            break;
        case 2: CHECK_OK(MPI_Neighbor_allgatherv_c(send, mine, MPI_INT, receive, wide, wide_displs, MPI_INT, grid)); break;
        default:
            CHECK_OK(MPI_Ineighbor_allgatherv_c(send, mine, MPI_INT, receive, wide, wide_displs, MPI_INT, grid, &request));
        }
        finish(&request);
        check_blocks(receive, counts, displs, degree, ranks, 1);
    }
}

static void one_grid(int ndims, const int *dims, const int *periods)
{
    MPI_Comm grid;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &grid));
    if (grid == MPI_COMM_NULL) return;
    all_forms(grid, ndims);
    allgatherv(grid, ndims);
    CHECK_OK(MPI_Comm_free(&grid));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    int n = size > 6 ? 6 : size;
    for (int mask = 0; mask < 8; mask++) {
        int periods[3] = {mask & 1, mask & 2, mask & 4};
        int line[1] = {n}, plane[2] = {n / 2 ? n / 2 : 1, n > 1 ? 2 : 1}, thin[3] = {1, n > 1 ? 2 : 1, n / 2 ? n / 2 : 1};
        one_grid(1, line, periods);
        one_grid(2, plane, periods);
        one_grid(3, thin, periods);
    }
    one_grid(0, NULL, NULL);
    int x[8] = {0};
    check_where("no topology");
    CHECK_CLASS(MPI_Neighbor_alltoall(x, 1, MPI_INT, x, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY);
    return check_end();
}
