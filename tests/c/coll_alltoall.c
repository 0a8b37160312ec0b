// ranks: 1 2 3 4 7
// transports: all
/* Alltoall: every pair has its own block, also in place, with different types on both sides. */
#include "check.h"

static int value(int from, int to, int i) { return (from * 64 + to) * 20011 + i; }

static void alltoall(int n)
{
    size_t total = (size_t) n * size;
    int *out = allocate((total + 1) * sizeof *out), *in = allocate((total + 1) * sizeof *in);
    for (int in_place = 0; in_place < 2; in_place++) {
        check_where("%d ints a block%s", n, in_place ? ", in place" : "");
        for (size_t i = 0; i < total; i++) {
            out[i] = value(rank, (int) (i / n), (int) (i % n));
            in[i] = in_place ? out[i] : -1;
        }
        in[total] = -1;
        if (in_place)
            CHECK_OK(MPI_Alltoall(MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, in, n, MPI_INT, MPI_COMM_WORLD));
        else
            CHECK_OK(MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD));
        for (size_t i = 0; i < total; i++)
            if (!CHECK_EQ(in[i], value((int) (i / n), rank, (int) (i % n)))) break;
        CHECK_EQ(in[total], -1);
        for (size_t i = 0; i < total; i++)
            if (!CHECK_EQ(out[i], value(rank, (int) (i / n), (int) (i % n)))) break;
    }
    free(out);
    free(in);
}

/* The transpose of a matrix distributed by rows: blocks are sent as ints and received as
 * columns. */
static void columns(int n)
{
    int *out = allocate((size_t) n * size * sizeof *out), *in = allocate((size_t) n * size * sizeof *in);
    MPI_Datatype plain, column;
    check_where("columns of %d", n);
    CHECK_OK(MPI_Type_vector(n, 1, size, MPI_INT, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, 0, sizeof(int), &column));
    CHECK_OK(MPI_Type_commit(&column));
    CHECK_OK(MPI_Type_free(&plain));
    for (int i = 0; i < n * size; i++) out[i] = value(rank, i / n, i % n);
    CHECK_OK(MPI_Alltoall(out, n, MPI_INT, in, 1, column, MPI_COMM_WORLD));
    for (int i = 0; i < n * size; i++)
        if (!CHECK_EQ(in[i], value(i % size, rank, i / size))) break;
    CHECK_OK(MPI_Alltoall(in, 1, column, out, n, MPI_INT, MPI_COMM_WORLD)); /* and back */
    for (int i = 0; i < n * size; i++)
        if (!CHECK_EQ(out[i], value(rank, i / n, i % n))) break;
    CHECK_OK(MPI_Type_free(&column));
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 2, 7, 14, 15, 100, 1000, 4097, 20000};
    check_begin(&argc, &argv);
    for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++) alltoall(counts[k]);
    columns(1);
    columns(30);
    columns(5000);
    return check_end();
}
