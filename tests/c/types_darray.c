// ranks: 1 2 4 6
// transports: one
/* Distributed arrays: the pieces of all ranks are the whole, each element once and at its place. */
#include "check.h"

static const int ways[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};

/* The owner of element `index` of a dimension, among the processes along it. */
static int owner(int index, int length, int way, int darg, int processes)
{
    if (way == MPI_DISTRIBUTE_NONE) return 0;
    if (darg == MPI_DISTRIBUTE_DFLT_DARG) darg = way == MPI_DISTRIBUTE_BLOCK ? (length + processes - 1) / processes : 1;
    return index / darg % processes;
}

static void whole(int ndims, const int *gsizes, const int *distribs, const int *dargs, const int *psizes, int order, int large)
{
    check_where("%d dimensions, %d long, ways %d %d, dargs %d %d, grid %d %d, order %d, large %d", ndims, gsizes[0],
                distribs[0], ndims > 1 ? distribs[1] : 0, dargs[0], ndims > 1 ? dargs[1] : 0, psizes[0],
                ndims > 1 ? psizes[1] : 0, order, large);
    int all = 1, processes = 1;
    for (int i = 0; i < ndims; i++) {
        all *= gsizes[i];
        processes *= psizes[i];
    }
    int *taken = allocate(all * sizeof *taken), *data = allocate(all * sizeof *data), *out = allocate(all * sizeof *out);
    for (int i = 0; i < all; i++) taken[i] = 0;
    for (int i = 0; i < all; i++) data[i] = i;
    int total = 0;
    for (int who = 0; who < processes; who++) {
        MPI_Datatype type;
        if (large) {
            MPI_Count counts[3] = {gsizes[0], ndims > 1 ? gsizes[1] : 0, ndims > 2 ? gsizes[2] : 0};
            CHECK_OK(MPI_Type_create_darray_c(processes, who, ndims, counts, distribs, dargs, psizes, order, MPI_INT, &type));
        } else {
            CHECK_OK(MPI_Type_create_darray(processes, who, ndims, gsizes, distribs, dargs, psizes, order, MPI_INT, &type));
        }
        CHECK_OK(MPI_Type_commit(&type));
        MPI_Aint lb, extent;
        CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
        CHECK_EQ(lb, 0);
        CHECK_EQ(extent, all * (MPI_Aint) sizeof(int));
        int bytes, position = 0, last = -1;
        CHECK_OK(MPI_Type_size(type, &bytes));
        CHECK_OK(MPI_Pack(data, 1, type, out, all * (int) sizeof(int), &position, MPI_COMM_SELF));
        CHECK_EQ(position, bytes);
        total += bytes / (int) sizeof(int);
        for (int i = 0; i < bytes / (int) sizeof(int); i++) {
            /* In memory order, and really of this process. */
            if (!CHECK(out[i] > last && out[i] < all)) break;
            last = out[i];
            taken[out[i]]++;
            int rest = out[i], at[3], grid = who, coordinate[3];
            for (int k = 0; k < ndims; k++) {
                int d = order == MPI_ORDER_C ? ndims - 1 - k : k;
                at[d] = rest % gsizes[d];
                rest /= gsizes[d];
            }
            for (int d = ndims - 1; d >= 0; d--) {
                coordinate[d] = grid % psizes[d];
                grid /= psizes[d];
            }
            for (int d = 0; d < ndims; d++)
                CHECK_EQ(owner(at[d], gsizes[d], distribs[d], dargs[d], psizes[d]), coordinate[d]);
        }
        CHECK_OK(MPI_Type_free(&type));
    }
    CHECK_EQ(total, all);
    for (int i = 0; i < all; i++)
        if (!CHECK_EQ(taken[i], 1)) break;
    free(taken);
    free(data);
    free(out);
}

/* Rank 0 sends a matrix by the types of the others, which receive plain numbers, and gets it
 * back. */
static void deal(int order)
{
    enum { ROWS = 13, COLUMNS = 11 };
    int gsizes[2] = {ROWS, COLUMNS}, distribs[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    int dargs[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, psizes[2] = {size % 2 ? size : size / 2, size % 2 ? 1 : 2};
    double matrix[ROWS * COLUMNS], mine[ROWS * COLUMNS];
    MPI_Datatype types[8];
    MPI_Request requests[8];
    check_where("a matrix dealt out, order %d", order);
    for (int i = 0; i < ROWS * COLUMNS; i++) matrix[i] = rank == 0 ? i : -1;
    for (int who = 0; who < size; who++) {
        CHECK_OK(MPI_Type_create_darray(size, who, 2, gsizes, distribs, dargs, psizes, order, MPI_DOUBLE, &types[who]));
        CHECK_OK(MPI_Type_commit(&types[who]));
        if (rank == 0) CHECK_OK(MPI_Isend(matrix, 1, types[who], who, 0, MPI_COMM_WORLD, &requests[who]));
    }
    MPI_Status status;
    int count, bytes;
    CHECK_OK(MPI_Recv(mine, ROWS * COLUMNS, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK_OK(MPI_Type_size(types[rank], &bytes));
    CHECK_EQ(count * (int) sizeof(double), bytes);
    if (rank == 0) CHECK_OK(MPI_Waitall(size, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < count; i++) mine[i] += 1000;
    MPI_Request back;
    CHECK_OK(MPI_Isend(mine, count, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &back));
    for (int who = 0; who < size && rank == 0; who++)
        CHECK_OK(MPI_Recv(matrix, 1, types[who], who, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&back, MPI_STATUS_IGNORE));
    for (int i = 0; i < ROWS * COLUMNS && rank == 0; i++)
        if (!CHECK_EQ(matrix[i], i + 1000)) break;
    for (int who = 0; who < size; who++) CHECK_OK(MPI_Type_free(&types[who]));
}

static void refused(void)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int gsizes[2] = {8, 9}, psizes[2] = {2, 3}, bad_grid[2] = {2, 2}, dargs[2] = {4, 1}, small[2] = {3, 1}, none[2] = {0, 1};
    int ways2[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, undistributed[2] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC};
    int zero[2] = {0, 9}, unknown[2] = {99, 17}, zero_grid[2] = {0, 3};
    check_where("what is refused");
#define REFUSED(n, who, ndims, g, w, d, p, order) \
    CHECK_CLASS(MPI_Type_create_darray(n, who, ndims, g, w, d, p, order, MPI_INT, &type), MPI_ERR_ARG)
    REFUSED(6, 6, 2, gsizes, ways2, dargs, psizes, MPI_ORDER_C);
    REFUSED(6, -1, 2, gsizes, ways2, dargs, psizes, MPI_ORDER_C);
    REFUSED(6, 0, 0, gsizes, ways2, dargs, psizes, MPI_ORDER_C);
    REFUSED(6, 0, 2, gsizes, ways2, dargs, bad_grid, MPI_ORDER_C);
    REFUSED(6, 0, 2, gsizes, ways2, dargs, zero_grid, MPI_ORDER_C);
    REFUSED(6, 0, 2, gsizes, ways2, small, psizes, MPI_ORDER_C);
    REFUSED(6, 0, 2, gsizes, ways2, none, psizes, MPI_ORDER_C);
    REFUSED(6, 0, 2, gsizes, undistributed, dargs, psizes, MPI_ORDER_C);
    REFUSED(6, 0, 2, gsizes, unknown, dargs, psizes, MPI_ORDER_C);
    REFUSED(6, 0, 2, zero, ways2, dargs, psizes, MPI_ORDER_C);
    REFUSED(6, 0, 2, gsizes, ways2, dargs, psizes, 1);
    CHECK(type == MPI_DATATYPE_NULL);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int lengths[] = {1, 5, 12};
    for (int a = 0; a < 3; a++)
        for (int processes = 1; processes <= 5; processes++)
            for (int darg = 0; darg <= 4; darg++) {
                int length = 7 + 3 * a, d = darg ? darg : MPI_DISTRIBUTE_DFLT_DARG;
                if (processes == 1) whole(1, &length, &ways[0], &d, &processes, MPI_ORDER_C, a & 1);
                if (darg == 0 || darg * processes >= length) whole(1, &length, &ways[1], &d, &processes, MPI_ORDER_C, a & 1);
                whole(1, &length, &ways[2], &d, &processes, MPI_ORDER_FORTRAN, a & 1);
            }
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 9; k++)
            for (int order = 0; order < 2; order++) {
                int gsizes[2] = {lengths[i % 3], lengths[k % 3] + 1};
                int distribs[2] = {ways[i / 3], ways[k / 3]}, psizes[2] = {i / 3 ? 3 : 1, k / 3 ? 2 : 1};
                int dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
                if (i / 3 == 2) dargs[0] = 2;
                whole(2, gsizes, distribs, dargs, psizes, order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, k & 1);
            }
    int gsizes[3] = {5, 6, 7}, distribs[3] = {ways[2], ways[1], ways[2]}, dargs[3] = {2, 5, 3}, psizes[3] = {2, 2, 3};
    whole(3, gsizes, distribs, dargs, psizes, MPI_ORDER_C, 0);
    whole(3, gsizes, distribs, dargs, psizes, MPI_ORDER_FORTRAN, 1);
    deal(MPI_ORDER_C);
    deal(MPI_ORDER_FORTRAN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    refused();
    return check_end();
}
