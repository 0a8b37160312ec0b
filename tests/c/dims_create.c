// ranks: 1 2
// transports: one
/* MPI_Dims_create: balanced, in order, with given dimensions; its errors. */
#include "check.h"

static void expect(int nodes, int ndims, int a, int b, int c, int wa, int wb, int wc)
{
    int dims[3] = {a, b, c}, want[3] = {wa, wb, wc};
    check_where("%d nodes, %d dimensions: %d %d %d", nodes, ndims, a, b, c);
    CHECK_OK(MPI_Dims_create(nodes, ndims, dims));
    for (int d = 0; d < ndims; d++) CHECK_EQ(dims[d], want[d]);
}

static void refuse(int nodes, int ndims, int a, int b, int class)
{
    int dims[2] = {a, b};
    check_where("%d nodes, %d dimensions: %d %d", nodes, ndims, a, b);
    CHECK_CLASS(MPI_Dims_create(nodes, ndims, dims), class);
    CHECK_EQ(dims[0], a);
    CHECK_EQ(dims[1], b);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    /* There is no communicator: errors are those of MPI_COMM_SELF. */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    expect(6, 2, 0, 0, 0, 3, 2, 0);
    expect(7, 2, 0, 0, 0, 7, 1, 0);
    expect(6, 3, 0, 3, 0, 2, 3, 1);
    expect(12, 3, 0, 0, 0, 3, 2, 2);
    expect(64, 3, 0, 0, 0, 4, 4, 4);
    expect(36, 2, 0, 0, 0, 6, 6, 0);
    expect(30, 3, 0, 0, 2, 5, 3, 2);
    expect(1, 3, 0, 0, 0, 1, 1, 1);
    expect(24, 3, 2, 3, 4, 2, 3, 4);
    expect(2147483647, 2, 0, 0, 0, 2147483647, 1, 0);
    expect(1073741824, 3, 0, 0, 0, 1024, 1024, 1024);
    /* The difference between the largest and the smallest is minimal, not the largest. */
    expect(7800, 3, 0, 0, 0, 26, 20, 15);
    refuse(4, 2, 2, 3, MPI_ERR_DIMS);
    refuse(4, 2, -1, 0, MPI_ERR_DIMS);
    refuse(0, 2, 0, 0, MPI_ERR_ARG);
    refuse(4, -1, 0, 0, MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dims_create(4, 2, NULL), MPI_ERR_ARG);
    for (int nodes = 1; nodes <= 2000; nodes++)
        for (int ndims = 1; ndims <= 4; ndims++) {
            int dims[4] = {0, 0, 0, 0};
            long product = 1;
            check_where("%d nodes in %d dimensions", nodes, ndims);
            CHECK_OK(MPI_Dims_create(nodes, ndims, dims));
            for (int d = 0; d < ndims; d++) {
                product *= dims[d];
                CHECK(d == 0 || dims[d] <= dims[d - 1]);
            }
            CHECK_EQ(product, nodes);
        }
    return check_end();
}
