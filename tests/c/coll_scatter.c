// ranks: 1 2 3 4 7
// transports: all
/* Scatter: every root, in place, root-only arguments ignored elsewhere, different types on both
 * sides. */
#include "check.h"

static int value(int whose, int i) { return whose * 100003 + i; }

static void scatter(int n)
{
    int *out = allocate((size_t) (n + 1) * size * sizeof *out), *in = allocate((n + 1) * sizeof *in);
    for (int root = 0; root < size; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            check_where("%d ints from %d%s", n, root, in_place ? ", in place" : "");
            for (int i = 0; i < n * size; i++) out[i] = value(root, i);
            for (int i = 0; i <= n; i++) in[i] = -1;
            if (rank == root) {
                CHECK_OK(MPI_Scatter(out, n, MPI_INT, in_place ? MPI_IN_PLACE : (void *) in, n, MPI_INT, root,
                                     MPI_COMM_WORLD));
            } else { /* other ranks may give anything in root-only arguments */
                CHECK_OK(MPI_Scatter(NULL, -5, MPI_DATATYPE_NULL, in, n, MPI_INT, root, MPI_COMM_WORLD));
            }
            int kept = in_place && rank == root;
            for (int i = 0; i < n; i++)
                if (!CHECK_EQ(in[i], kept ? -1 : value(root, rank * n + i))) break;
            CHECK_EQ(in[n], -1);
            for (int i = 0; i < n * size && rank == root; i++)
                if (!CHECK_EQ(out[i], value(root, i))) break;
        }
    free(out);
    free(in);
}

static void columns(int n)
{
    int *matrix = allocate((size_t) n * size * sizeof *matrix), *in = allocate(2 * (size_t) n * sizeof *in);
    MPI_Datatype plain, column, other;
    CHECK_OK(MPI_Type_vector(n, 1, size, MPI_INT, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, 0, sizeof(int), &column));
    CHECK_OK(MPI_Type_commit(&column));
    CHECK_OK(MPI_Type_free(&plain));
    CHECK_OK(MPI_Type_vector(n, 1, 2, MPI_INT, &other));
    CHECK_OK(MPI_Type_commit(&other));
    for (int root = 0; root < size; root++) {
        check_where("columns of %d from %d", n, root);
        for (int i = 0; i < n * size; i++) matrix[i] = value(root, i);
        for (int i = 0; i < 2 * n; i++) in[i] = -1;
        int odd = rank % 2;
        CHECK_OK(MPI_Scatter(matrix, 1, column, in, odd ? 1 : n, odd ? other : MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < n; i++)
            if (!CHECK_EQ(in[odd ? 2 * i : i], value(root, i * size + rank))) break;
        for (int i = 0; i < n; i++)
            if (!CHECK_EQ(in[odd ? 2 * i + 1 : n + i], -1)) break;
    }
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Type_free(&other));
    free(matrix);
    free(in);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 2, 7, 14, 15, 100, 1000, 4097, 20000};
    check_begin(&argc, &argv);
    for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++) scatter(counts[k]);
    columns(1);
    columns(30);
    columns(9000);
    return check_end();
}
