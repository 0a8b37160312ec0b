/* The test of MPI_Scan and MPI_Exscan. The including file defines PREFIX_REDUCTION, the
 * function, and INCLUSIVE, 1 if the result of a rank includes its own value. */
#include "check.h"
#include "maps.h"

/* The result of this rank has the values of the ranks 0 to taken() - 1. */
static int taken(void) { return rank + INCLUSIVE; }

static int value(int whose, int i) { return (whose + 3) * 17 + i; }

static void sums(int n)
{
    int *out = allocate((n + 1) * sizeof *out), *in = allocate((n + 1) * sizeof *in);
    for (int in_place = 0; in_place < 2; in_place++) {
        check_where("sums of %d ints%s", n, in_place ? ", in place" : "");
        for (int i = 0; i <= n; i++) {
            out[i] = value(rank, i);
            in[i] = in_place ? out[i] : -1;
        }
        CHECK_OK(PREFIX_REDUCTION(in_place ? MPI_IN_PLACE : (void *) out, in, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < n; i++) {
            int sum = 0;
            for (int r = 0; r < taken(); r++) sum += value(r, i);
            if (taken() == 0) sum = in_place ? value(rank, i) : -1;
            if (!CHECK_EQ(in[i], sum)) break;
            if (!CHECK_EQ(out[i], value(rank, i))) break;
        }
        CHECK_EQ(in[n], in_place ? value(rank, n) : -1);
    }
    free(out);
    free(in);
}

static void in_rank_order(int n)
{
    struct map *out = allocate((n + 1) * sizeof *out), *in = allocate((n + 1) * sizeof *in);
    MPI_Datatype type;
    MPI_Op op;
    CHECK_OK(MPI_Type_contiguous(2, MPI_UINT32_T, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    for (int in_place = 0; in_place < 2; in_place++) {
        check_where("%d maps%s", n, in_place ? ", in place" : "");
        memset(in, 0x55, (n + 1) * sizeof *in);
        for (int i = 0; i < n; i++) {
            out[i] = map_of(rank, i);
            if (in_place) in[i] = out[i];
        }
        CHECK_OK(PREFIX_REDUCTION(in_place ? MPI_IN_PLACE : (void *) out, in, n, type, op, MPI_COMM_WORLD));
        for (int i = 0; i < n; i++) {
            struct map want = map_of(0, i);
            for (int r = 1; r < taken(); r++) want = then(want, map_of(r, i));
            if (taken() == 0 && !in_place) want = (struct map){0x55555555, 0x55555555};
            if (!CHECK(in[i].a == want.a && in[i].b == want.b)) break;
        }
        CHECK_EQ(bytes_differ(in + n, 0, sizeof *in, 0x55), -1);
    }
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
