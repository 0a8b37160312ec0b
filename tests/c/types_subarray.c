// ranks: 1 2 4
// transports: one
/* Boxes cut out of arrays, in both orders, sent to plain memory and back; bounds; refusals. */
#include "check.h"

enum { MOST = 4 };

static long place(int ndims, const int *sizes, const int *at, int order)
{
    long where = 0;
    for (int k = 0; k < ndims; k++) {
        int i = order == MPI_ORDER_C ? k : ndims - 1 - k;
        where = where * sizes[i] + at[i];
    }
    return where;
}

static int next(int ndims, const int *lengths, int *at, int order)
{
    for (int k = 0; k < ndims; k++) {
        int i = order == MPI_ORDER_C ? ndims - 1 - k : k;
        if (++at[i] < lengths[i]) return 1;
        at[i] = 0;
    }
    return 0;
}

static void box(int ndims, const int *sizes, const int *subsizes, const int *starts, int order, int large)
{
    MPI_Datatype type;
    long all = 1, part = 1;
    for (int i = 0; i < ndims; i++) {
        all *= sizes[i];
        part *= subsizes[i];
    }
    check_where("%d dimensions, first %d of %d from %d, order %d, large %d", ndims, subsizes[0], sizes[0], starts[0], order,
                large);
    if (large) {
        MPI_Count counts[3][MOST];
        for (int i = 0; i < ndims; i++) {
            counts[0][i] = sizes[i];
            counts[1][i] = subsizes[i];
            counts[2][i] = starts[i];
        }
        CHECK_OK(MPI_Type_create_subarray_c(ndims, counts[0], counts[1], counts[2], order, MPI_INT, &type));
    } else {
        CHECK_OK(MPI_Type_create_subarray(ndims, sizes, subsizes, starts, order, MPI_INT, &type));
    }
    CHECK_OK(MPI_Type_commit(&type));
    int bytes;
    MPI_Aint lb, extent, true_lb, true_extent;
    CHECK_OK(MPI_Type_size(type, &bytes));
    CHECK_EQ(bytes, part * (long) sizeof(int));
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK_EQ(lb, 0);
    CHECK_EQ(extent, all * (long) sizeof(int));
    CHECK_OK(MPI_Type_get_true_extent(type, &true_lb, &true_extent));
    CHECK_EQ(true_lb, place(ndims, sizes, starts, order) * (long) sizeof(int));

    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int *array = allocate(2 * all * sizeof *array), *plain = allocate(2 * part * sizeof *plain);
    for (long i = 0; i < 2 * all; i++) array[i] = (int) (rank * 1000003 + i);
    MPI_Status status;
    CHECK_OK(MPI_Sendrecv(array, 2, type, to, 3, plain, (int) (2 * part), MPI_INT, from, 3, MPI_COMM_WORLD, &status));
    int count;
    CHECK_OK(MPI_Get_count(&status, type, &count));
    CHECK_EQ(count, 2);
    long seen = 0;
    for (int copy = 0; copy < 2; copy++) {
        int at[MOST] = {0};
        do {
            int inside[MOST];
            for (int i = 0; i < ndims; i++) inside[i] = starts[i] + at[i];
            if (!CHECK_EQ(plain[seen], from * 1000003 + copy * all + place(ndims, sizes, inside, order))) break;
            seen++;
        } while (next(ndims, subsizes, at, order));
    }
    CHECK_EQ(seen, 2 * part);
    for (long i = 0; i < 2 * all; i++) array[i] = -1;
    CHECK_OK(MPI_Sendrecv(plain, (int) (2 * part), MPI_INT, to, 4, array, 2, type, from, 4, MPI_COMM_WORLD, &status));
    int before = (from + size - 1) % size, at[MOST] = {0};
    do {
        int inside = 1;
        for (int i = 0; i < ndims; i++) inside = inside && at[i] >= starts[i] && at[i] < starts[i] + subsizes[i];
        long where = place(ndims, sizes, at, order);
        if (!CHECK_EQ(array[where], inside ? before * 1000003 + where : -1)) break;
        if (!CHECK_EQ(array[all + where], inside ? before * 1000003 + all + where : -1)) break;
    } while (next(ndims, sizes, at, order));
    free(array);
    free(plain);
    CHECK_OK(MPI_Type_free(&type));
}

static void refused(void)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    int sizes[2] = {4, 5}, subsizes[2] = {2, 3}, starts[2] = {2, 2}, negative[2] = {-1, 0}, zero[2] = {0, 1}, far[2] = {3, 2};
    check_where("what is refused");
    CHECK_CLASS(MPI_Type_create_subarray(0, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(-2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, zero, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, sizes, zero, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, sizes, subsizes, negative, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, sizes, subsizes, far, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, sizes, sizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, sizes, subsizes, starts, 77, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, NULL, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, NULL), MPI_ERR_ARG);
    MPI_Count huge[2] = {1LL << 40, 1LL << 40}, one[2] = {1, 1}, none[2] = {0, 0};
    CHECK_CLASS(MPI_Type_create_subarray_c(2, huge, one, none, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_VALUE_TOO_LARGE);
    CHECK(type == MPI_DATATYPE_NULL);
    /* Large, but not too large. */
    huge[1] = 3;
    MPI_Count lb, extent;
    CHECK_OK(MPI_Type_create_subarray_c(2, huge, one, none, MPI_ORDER_C, MPI_INT, &type));
    CHECK_OK(MPI_Type_get_extent_c(type, &lb, &extent));
    CHECK_EQ(extent, 12LL << 40);
    CHECK_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    static const int cases[][3][MOST] = {
        {{7}, {3}, {2}},
        {{4, 5}, {2, 3}, {1, 2}},
        {{4, 5}, {4, 5}, {0, 0}},
        {{1, 6}, {1, 1}, {0, 5}},
        {{3, 4, 5}, {2, 1, 3}, {1, 3, 0}},
        {{3, 2, 4, 3}, {3, 2, 2, 1}, {0, 0, 1, 2}},
        {{60, 70}, {33, 44}, {20, 10}},
    };
    static const int dimensions[] = {1, 2, 2, 2, 3, 4, 2};
    for (unsigned k = 0; k < sizeof dimensions / sizeof *dimensions; k++)
        for (int way = 0; way < 4; way++)
            box(dimensions[k], cases[k][0], cases[k][1], cases[k][2], way & 1 ? MPI_ORDER_FORTRAN : MPI_ORDER_C, way >> 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    refused();
    return check_end();
}
