// ranks: 1 2 3 4 5 7
// transports: all
// every day: nodes
/* Reduce_scatter_block: rank r gets block r of the reduction, in rank order for operations that
 * do not commute. */
#include "check.h"
#include "maps.h"

static int value(int whose, int i) { return (whose + 3) * 17 + i; }

static void sums(int n)
{
    size_t total = (size_t) n * size;
    int *out = allocate((total + 1) * sizeof *out), *in = allocate((total + 1) * sizeof *in);
    for (int in_place = 0; in_place < 2; in_place++) {
        check_where("blocks of %d ints%s", n, in_place ? ", in place" : "");
        for (size_t i = 0; i <= total; i++) {
            out[i] = value(rank, (int) i);
            in[i] = in_place ? out[i] : -1;
        }
        CHECK_OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : (void *) out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < n; i++) {
            int sum = 0;
            for (int r = 0; r < size; r++) sum += value(r, rank * n + i);
            if (!CHECK_EQ(in[i], sum)) break;
        }
        for (size_t i = n; i <= total && !in_place; i++)
            if (!CHECK_EQ(in[i], -1)) break;
        for (size_t i = 0; i <= total; i++)
            if (!CHECK_EQ(out[i], value(rank, (int) i))) break;
    }
    free(out);
    free(in);
}

static void in_rank_order(int n)
{
    struct map *out = allocate((size_t) (n + 1) * size * sizeof *out), *in = allocate((n + 1) * sizeof *in);
    MPI_Datatype type;
    MPI_Op op;
    check_where("blocks of %d maps", n);
    CHECK_OK(MPI_Type_contiguous(2, MPI_UINT32_T, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    memset(in, 0x55, (n + 1) * sizeof *in);
    for (int i = 0; i < n * size; i++) out[i] = map_of(rank, i);
    CHECK_OK(MPI_Reduce_scatter_block(out, in, n, type, op, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++) {
        struct map want = map_of(0, rank * n + i);
        for (int r = 1; r < size; r++) want = then(want, map_of(r, rank * n + i));
        if (!CHECK(in[i].a == want.a && in[i].b == want.b)) break;
    }
    CHECK_EQ(bytes_differ(in + n, 0, sizeof *in, 0x55), -1);
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&type));
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 2, 7, 14, 15, 100, 1000, 4097, 20000};
    check_begin(&argc, &argv);
    for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        sums(counts[k]);
        in_rank_order(counts[k]);
    }
    return check_end();
}
