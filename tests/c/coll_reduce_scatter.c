// ranks: 1 2 4 7
// transports: all
// every day: nodes
/* MPI_Reduce_scatter: uneven counts with zeros, in place, an operation that does not commute,
 * all forms. */
#include "check.h"

static int count_of(int r, int most) { return most == 0 ? 0 : (int) (drawn((unsigned) r, (unsigned) most, 5) % (unsigned) (most + 1)); }

static void reduce_scatter(int form, const void *send, void *receive, const int *counts, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Count c[64];
    for (int r = 0; r < size; r++) c[r] = counts[r];
    switch (form) {
    case 0: CHECK_OK(MPI_Reduce_scatter(send, receive, counts, type, op, MPI_COMM_WORLD)); return;
    case 1: CHECK_OK(MPI_Ireduce_scatter(send, receive, counts, type, op, MPI_COMM_WORLD, &request)); break;
    case 2: CHECK_OK(MPI_Reduce_scatter_c(send, receive, c, type, op, MPI_COMM_WORLD)); return;
    default: CHECK_OK(MPI_Ireduce_scatter_c(send, receive, c, type, op, MPI_COMM_WORLD, &request));
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void sums(int form, int most, int in_place)
{
    check_where("sums, form %d, up to %d, in place %d", form, most, in_place);
    int counts[64], total = 0, first = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = count_of(r, most);
        if (r < rank) first += counts[r];
        total += counts[r];
    }
    long *send = allocate((size_t) total * sizeof *send), *receive = allocate((size_t) (total + 1) * sizeof *receive);
    for (int i = 0; i < total; i++) send[i] = (long) i * (rank + 1);
    for (int i = 0; i <= total; i++) receive[i] = -1;
    if (in_place) memcpy(receive, send, (size_t) total * sizeof *send);
    reduce_scatter(form, in_place ? MPI_IN_PLACE : send, receive, counts, MPI_LONG, MPI_SUM);
    for (int i = 0; i < counts[rank]; i++)
        if (!CHECK_EQ(receive[i], (long) (first + i) * size * (size + 1) / 2)) break;
    CHECK_EQ(receive[in_place ? total : counts[rank]], -1);
    free(send);
    free(receive);
}

struct affine {
    unsigned a, b;
};

static void compose(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void) type;
    struct affine *first = in, *then = inout;
    for (int i = 0; i < *n; i++) {
        then[i].b = then[i].a * first[i].b + then[i].b;
        then[i].a *= first[i].a;
    }
}

static struct affine map_of(int r, int i)
{
    struct affine map = {2u * (unsigned) (r + i) + 3, (unsigned) (r * 7 + i)};
    return map;
}

static void in_order(int form, int most, int in_place)
{
    check_where("in order, form %d, up to %d, in place %d", form, most, in_place);
    int counts[64], total = 0, first = 0;
    MPI_Op op;
    MPI_Datatype pair;
    CHECK_OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    for (int r = 0; r < size; r++) {
        counts[r] = count_of(r, most);
        if (r < rank) first += counts[r];
        total += counts[r];
    }
    struct affine *send = allocate((size_t) total * sizeof *send), *receive = allocate((size_t) total * sizeof *receive);
    for (int i = 0; i < total; i++) send[i] = receive[i] = map_of(rank, i);
    reduce_scatter(form, in_place ? MPI_IN_PLACE : send, receive, counts, pair, op);
    for (int i = 0; i < counts[rank]; i++) {
        struct affine want = map_of(0, first + i);
        for (int r = 1; r < size; r++) {
            struct affine next = map_of(r, first + i);
            compose(&want, &next, &(int){1}, NULL);
            want = next;
        }
        CHECK_EQ(receive[i].a, want.a);
        CHECK_EQ(receive[i].b, want.b);
    }
    free(send);
    free(receive);
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&pair));
}

static void all_for_one(int owner)
{
    check_where("all for rank %d", owner);
    int counts[64] = {0}, send[3] = {rank, 1, -rank}, receive[3] = {-1, -1, -1};
    counts[owner] = 3;
    CHECK_OK(MPI_Reduce_scatter(send, receive, counts, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    CHECK_EQ(receive[0], rank == owner ? size - 1 : -1);
    CHECK_EQ(receive[1], rank == owner ? 1 : -1);
    CHECK_EQ(receive[2], rank == owner ? 0 : -1);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int most[] = {0, 1, 6, 2000};
    for (int form = 0; form < 4; form++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int m = 0; m < 4; m++) {
                sums(form, most[m], in_place);
                in_order(form, most[m], in_place);
            }
    for (int owner = 0; owner < size; owner++) all_for_one(owner);
    return check_end();
}
