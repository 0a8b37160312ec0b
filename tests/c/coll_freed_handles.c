// ranks: 1 2 4 7
// transports: all
/* Types, operations and communicators freed while nonblocking collectives use them: the
 * collectives complete. */
#include "check.h"

enum { N = 20000 };

struct pair {
    int low, gap, high;
};

/* The extent of the type in the function's call; not every rank calls it. */
static int extent_seen = sizeof(struct pair);

static void widen(void *in, void *inout, int *n, MPI_Datatype *type)
{
    struct pair *a = in, *b = inout;
    MPI_Aint lower, extent;
    if (MPI_Type_get_extent(*type, &lower, &extent) == MPI_SUCCESS) extent_seen = (int) extent;
    for (int i = 0; i < *n; i++) {
        if (a[i].low < b[i].low) b[i].low = a[i].low;
        if (a[i].high > b[i].high) b[i].high = a[i].high;
    }
}

static MPI_Datatype pair_type(void)
{
    MPI_Datatype ends, type;
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &ends));
    CHECK_OK(MPI_Type_create_resized(ends, 0, sizeof(struct pair), &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_free(&ends));
    return type;
}

static void reductions(void)
{
    struct pair *mine = allocate(N * sizeof *mine), *all = allocate(N * sizeof *all), *to_root = allocate(N * sizeof *all);
    struct pair *part = allocate(N * sizeof *part);
    int counts[64], first = 0;
    for (int i = 0; i < N; i++) {
        mine[i] = (struct pair){-rank - i, 7, rank + i};
        all[i] = to_root[i] = part[i] = (struct pair){0, -9, 0};
    }
    for (int r = 0; r < size; r++) {
        counts[r] = r + 1 < size ? N / size : N - N / size * (size - 1);
        if (r < rank) first += counts[r];
    }
    MPI_Datatype type = pair_type();
    MPI_Op op;
    MPI_Comm comm;
    MPI_Request requests[3];
    CHECK_OK(MPI_Op_create(widen, 1, &op));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Iallreduce(mine, all, N, type, op, comm, &requests[0]));
    CHECK_OK(MPI_Ireduce(mine, to_root, N, type, op, size - 1, comm, &requests[1]));
    CHECK_OK(MPI_Ireduce_scatter(mine, part, counts, type, op, comm, &requests[2]));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Comm_free(&comm));
    /* New objects may have the places of the freed ones. */
    MPI_Datatype other;
    MPI_Op maximum;
    CHECK_OK(MPI_Type_contiguous(5, MPI_DOUBLE, &other));
    CHECK_OK(MPI_Op_create(widen, 0, &maximum));
    CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(extent_seen, sizeof(struct pair));
    for (int i = 0; i < N; i++) {
        if (!CHECK_EQ(all[i].low, -(size - 1) - i) || !CHECK_EQ(all[i].high, size - 1 + i) || !CHECK_EQ(all[i].gap, -9)) break;
        if (rank == size - 1 && (!CHECK_EQ(to_root[i].low, -(size - 1) - i) || !CHECK_EQ(to_root[i].gap, -9))) break;
    }
    for (int i = 0; i < counts[rank]; i++)
        if (!CHECK_EQ(part[i].high, size - 1 + first + i) || !CHECK_EQ(part[i].gap, -9)) break;
    CHECK_OK(MPI_Type_free(&other));
    CHECK_OK(MPI_Op_free(&maximum));
    free(mine);
    free(all);
    free(to_root);
    free(part);
}

static void movements(void)
{
    MPI_Datatype type = pair_type(), types[64], column;
    CHECK_OK(MPI_Type_vector(N, 1, size, MPI_INT, &column));
    CHECK_OK(MPI_Type_commit(&column));
    int counts[64], displs[64], bytes[64], numbers[64], row_bytes[64];
    MPI_Datatype ints[64];
    struct pair *mine = allocate(N * sizeof *mine), *all = allocate((size_t) (N * size) * sizeof *all);
    int *matrix = allocate((size_t) (N * size) * sizeof(int)), *turned = allocate((size_t) (N * size) * sizeof(int));
    for (int i = 0; i < N; i++) mine[i] = (struct pair){rank * N + i, 5, -i};
    for (int i = 0; i < N * size; i++) {
        all[i].gap = -9;
        matrix[i] = rank * 1000000 + i;
    }
    for (int r = 0; r < size; r++) {
        counts[r] = N - r;
        displs[r] = r * N;
        bytes[r] = r * (int) sizeof(int);
        row_bytes[r] = r * N * (int) sizeof(int);
        types[r] = column;
        ints[r] = MPI_INT;
        numbers[r] = N;
    }
    int ones[64];
    for (int r = 0; r < size; r++) ones[r] = 1;
    MPI_Request requests[2];
    CHECK_OK(MPI_Iallgatherv(mine, counts[rank], type, all, counts, displs, type, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Ialltoallw(matrix, ones, bytes, types, turned, numbers, row_bytes, ints, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < N; i++) {
            if (i < counts[r] && (!CHECK_EQ(all[r * N + i].low, r * N + i) || !CHECK_EQ(all[r * N + i].high, -i))) return;
            if (!CHECK_EQ(all[r * N + i].gap, -9)) return;
            if (!CHECK_EQ(turned[r * N + i], r * 1000000 + i * size + rank)) return;
        }
    free(mine);
    free(all);
    free(matrix);
    free(turned);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int round = 0; round < scaled(5); round++) {
        check_where("reductions, round %d", round);
        reductions();
        check_where("movements, round %d", round);
        movements();
    }
    return check_end();
}
