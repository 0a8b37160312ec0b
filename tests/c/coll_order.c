// ranks: 1 2 3 4 5 7
// transports: all
// every day: nodes lamd ofi
/* User operations: an associative, non-commutative one (the product of 2 by 2 matrices) must be
 * applied in rank order, to every root, in place or not, blocking or not; on types with gaps and
 * a lower bound that is not zero. */
#include "check.h"

enum { MODULUS = 1000003, LARGEST = 3000 };

struct matrix { int a, b, c, d; };

static long long calls, empty_calls, wrong_extents;
static MPI_Aint extent_wanted;

static struct matrix times(struct matrix x, struct matrix y)
{
    struct matrix z = {
        (int) (((long long) x.a * y.a + (long long) x.b * y.c) % MODULUS),
        (int) (((long long) x.a * y.b + (long long) x.b * y.d) % MODULUS),
        (int) (((long long) x.c * y.a + (long long) x.d * y.c) % MODULUS),
        (int) (((long long) x.c * y.b + (long long) x.d * y.d) % MODULUS)};
    return z;
}

static int same(struct matrix x, struct matrix y) { return memcmp(&x, &y, sizeof x) == 0; }

static struct matrix matrix_of(int whose, int i)
{
    struct matrix m = {whose + 2, (i * 3 + 1) % 1000, (whose * 5 + i) % 700, 1 + i % 11};
    return m;
}

static struct matrix product(int i)
{
    struct matrix m = matrix_of(0, i);
    for (int r = 1; r < size; r++) m = times(m, matrix_of(r, i));
    return m;
}

static void note_call(const int *length, MPI_Datatype *type)
{
    MPI_Aint lb, extent;
    calls++;
    if (*length <= 0) empty_calls++;
    MPI_Type_get_extent(*type, &lb, &extent);
    if (extent != extent_wanted) wrong_extents++;
}

/* The left operand is `in`: in[i] comes from lower ranks than inout[i]. */
static void multiply(void *in, void *inout, int *length, MPI_Datatype *type)
{
    struct matrix *x = in, *y = inout;
    note_call(length, type);
    for (int i = 0; i < *length; i++) y[i] = times(x[i], y[i]);
}

/* The same matrix with gaps: an element begins 24 bytes before its origin, its numbers are at
 * -16, 0, 4 and 20. */
enum { SPREAD_LB = -24, SPREAD_EXTENT = 56 };
static const int spread_places[4] = {-16, 0, 4, 20};

static struct matrix spread_load(const char *origin)
{
    int v[4];
    for (int k = 0; k < 4; k++) memcpy(&v[k], origin + spread_places[k], sizeof(int));
    struct matrix m = {v[0], v[1], v[2], v[3]};
    return m;
}

static void spread_store(char *origin, struct matrix m)
{
    const int v[4] = {m.a, m.b, m.c, m.d};
    for (int k = 0; k < 4; k++) memcpy(origin + spread_places[k], &v[k], sizeof(int));
}

static void multiply_spread(void *in, void *inout, int *length, MPI_Datatype *type)
{
    char *x = in, *y = inout;
    note_call(length, type);
    for (int i = 0; i < *length; i++, x += SPREAD_EXTENT, y += SPREAD_EXTENT)
        spread_store(y, times(spread_load(x), spread_load(y)));
}

static MPI_Datatype matrix_type(void)
{
    MPI_Datatype type;
    CHECK_OK(MPI_Type_contiguous(4, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

static MPI_Datatype spread_type(void)
{
    int lengths[4] = {1, 1, 1, 1};
    MPI_Aint places[4];
    MPI_Datatype types[4] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT}, plain, type;
    for (int k = 0; k < 4; k++) places[k] = spread_places[k];
    CHECK_OK(MPI_Type_create_struct(4, lengths, places, types, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, SPREAD_LB, SPREAD_EXTENT, &type));
    CHECK_OK(MPI_Type_free(&plain));
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

static void verify(const struct matrix *got, int count)
{
    for (int i = 0; i < count; i++)
        if (!CHECK(same(got[i], product(i)))) return;
}

static void matrices(int count)
{
    struct matrix *out = allocate((count + 1) * sizeof *out), *in = allocate((count + 1) * sizeof *in);
    MPI_Op op;
    MPI_Request request;
    MPI_Datatype type = matrix_type();
    extent_wanted = sizeof(struct matrix);
    CHECK_OK(MPI_Op_create(multiply, 0, &op));
    for (int i = 0; i < count; i++) out[i] = matrix_of(rank, i);
    calls = 0;
    for (int root = 0; root < size; root++)
        for (int how = 0; how < 4; how++) {
            int in_place = how % 2, blocking = how < 2;
            check_where("%s of %d matrices to %d%s", blocking ? "Reduce" : "Ireduce", count, root,
                        in_place ? ", in place" : "");
            memset(in, 0xee, (count + 1) * sizeof *in);
            if (in_place) memcpy(in, out, count * sizeof *in);
            const void *from = in_place && rank == root ? MPI_IN_PLACE : (void *) out;
            if (blocking) {
                CHECK_OK(MPI_Reduce(from, in, count, type, op, root, MPI_COMM_WORLD));
            } else {
                CHECK_OK(MPI_Ireduce(from, in, count, type, op, root, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
            if (rank == root) verify(in, count);
            CHECK_EQ(bytes_differ(in + count, 0, sizeof *in, 0xee), -1);
            for (int i = 0; i < count; i++)
                if (!CHECK(same(out[i], matrix_of(rank, i)))) break;
        }
    for (int how = 0; how < 4; how++) {
        int in_place = how % 2, blocking = how < 2;
        check_where("%s of %d matrices%s", blocking ? "Allreduce" : "Iallreduce", count, in_place ? ", in place" : "");
        memset(in, 0xee, (count + 1) * sizeof *in);
        if (in_place) memcpy(in, out, count * sizeof *in);
        const void *from = in_place ? MPI_IN_PLACE : (void *) out;
        if (blocking) {
            CHECK_OK(MPI_Allreduce(from, in, count, type, op, MPI_COMM_WORLD));
        } else {
            CHECK_OK(MPI_Iallreduce(from, in, count, type, op, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        verify(in, count);
        CHECK_EQ(bytes_differ(in + count, 0, sizeof *in, 0xee), -1);
    }
    if (count == 0 || size == 1) CHECK_EQ(calls, 0);
    CHECK_OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
    CHECK_OK(MPI_Type_free(&type));
    free(out);
    free(in);
}

static void freed_before_wait(int count)
{
    struct matrix *out = allocate((count + 1) * sizeof *out), *in = allocate((count + 1) * sizeof *in);
    struct matrix *all = allocate((count + 1) * sizeof *all);
    MPI_Op op;
    MPI_Request requests[2];
    MPI_Datatype type = matrix_type();
    check_where("%d matrices, freed before Wait", count);
    extent_wanted = sizeof(struct matrix);
    CHECK_OK(MPI_Op_create(multiply, 0, &op));
    for (int i = 0; i < count; i++) out[i] = matrix_of(rank, i);
    CHECK_OK(MPI_Ireduce(out, in, count, type, op, size - 1, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Iallreduce(out, all, count, type, op, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&type));
    /* Operations that are made and freed meanwhile must not take their places. */
    MPI_Op other;
    MPI_Datatype other_type;
    CHECK_OK(MPI_Op_create(multiply_spread, 1, &other));
    CHECK_OK(MPI_Type_contiguous(3, MPI_DOUBLE, &other_type));
    CHECK_OK(MPI_Type_commit(&other_type));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    if (rank == size - 1) verify(in, count);
    verify(all, count);
    CHECK_OK(MPI_Op_free(&other));
    CHECK_OK(MPI_Type_free(&other_type));
    free(out);
    free(in);
    free(all);
}

/* With gaps and a negative lower bound: the numbers are right and the gaps of the result
 * unchanged. */
static void spread(int count)
{
    size_t bytes = (size_t) count * SPREAD_EXTENT + 64;
    char *out = allocate(bytes), *in = allocate(bytes);
    MPI_Op op;
    MPI_Datatype type = spread_type();
    extent_wanted = SPREAD_EXTENT;
    CHECK_OK(MPI_Op_create(multiply_spread, 0, &op));
    for (int how = 0; how < 2 + size; how++) {
        int root = how - 2;
        check_where("%d spread matrices, %s %d", count, how < 2 ? "Allreduce" : "Reduce to", root);
        memset(out, 0x33, bytes);
        memset(in, 0x44, bytes);
        for (int i = 0; i < count; i++)
            spread_store((how == 1 ? in : out) + i * SPREAD_EXTENT - SPREAD_LB, matrix_of(rank, i));
        if (how == 0) CHECK_OK(MPI_Allreduce(out - SPREAD_LB, in - SPREAD_LB, count, type, op, MPI_COMM_WORLD));
        else if (how == 1) CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, in - SPREAD_LB, count, type, op, MPI_COMM_WORLD));
        else CHECK_OK(MPI_Reduce(out - SPREAD_LB, in - SPREAD_LB, count, type, op, root, MPI_COMM_WORLD));
        if (how >= 2 && rank != root) {
            CHECK_EQ(bytes_differ(in, 0, bytes, 0x44), -1);
            continue;
        }
        for (int i = 0; i < count; i++) {
            const char *element = in + (size_t) i * SPREAD_EXTENT;
            if (!CHECK(same(spread_load(element - SPREAD_LB), product(i)))) break;
            /* The numbers occupy bytes 8-12, 24-32 and 44-48 of the element. */
            if (!CHECK_EQ(bytes_differ(element, 0, 8, 0x44), -1)) break;
            if (!CHECK_EQ(bytes_differ(element, 12, 24, 0x44), -1)) break;
            if (!CHECK_EQ(bytes_differ(element, 32, 44, 0x44), -1)) break;
            if (!CHECK_EQ(bytes_differ(element, 48, SPREAD_EXTENT, 0x44), -1)) break;
        }
        CHECK_EQ(bytes_differ(in, (size_t) count * SPREAD_EXTENT, bytes, 0x44), -1);
    }
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&type));
    free(out);
    free(in);
}

static void largest_distance(void *in, void *inout, int *length, MPI_Datatype *type)
{
    int *x = in, *y = inout;
    note_call(length, type);
    CHECK(*type == MPI_INT);
    for (int i = 0; i < *length; i++)
        if (abs(x[i]) > abs(y[i])) y[i] = x[i];
}

static void commutative(int count)
{
    int *out = allocate(count * sizeof *out), *in = allocate(count * sizeof *in);
    MPI_Op op;
    check_where("commutative, %d", count);
    extent_wanted = sizeof(int);
    CHECK_OK(MPI_Op_create(largest_distance, 1, &op));
    for (int i = 0; i < count; i++) out[i] = (i + rank) % size == 0 ? -1000 - i : (i + rank) % size;
    CHECK_OK(MPI_Allreduce(out, in, count, MPI_INT, op, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++)
        if (!CHECK_EQ(in[i], -1000 - i)) break;
    CHECK_OK(MPI_Op_free(&op));
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 2, 3, 7, 16, 33, 100, 513, 1024, LARGEST};
    check_begin(&argc, &argv);
    for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        matrices(counts[k]);
        freed_before_wait(counts[k]);
        if (counts[k] <= 1024) spread(counts[k]);
        commutative(counts[k]);
    }
    check_where("calls of the user functions");
    CHECK_EQ(empty_calls, 0);
    CHECK_EQ(wrong_extents, 0);
    return check_end();
}
