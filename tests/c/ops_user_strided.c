// ranks: 1 2 3 4 7
// transports: all
/* A user's operation on a strided type whose lower bound is not zero: the function sees each
 * element at the places of its type, never the bytes between; type and operation are freed
 * before the reduction is complete. */
#include "check.h"

/* An element: two ints, 8 and 24 bytes after its address; the next one is 40 bytes on. */
enum { FIRST = 8, SECOND = 24, EXTENT = 40, LB = 8 };

static MPI_Datatype expected;
static int wrong_type, calls;

/* Not commutative, and different for the two numbers: a matrix (a b; 0 1) by another, modulo a
 * prime. */
static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    calls++;
    if (expected != MPI_DATATYPE_NULL && *type != expected) wrong_type = 1;
    for (int i = 0; i < *count; i++) {
        const char *left = (const char *) in + (long) i * EXTENT;
        char *right = (char *) inout + (long) i * EXTENT;
        int a, b, c, d;
        memcpy(&a, left + FIRST, sizeof a);
        memcpy(&b, left + SECOND, sizeof b);
        memcpy(&c, right + FIRST, sizeof c);
        memcpy(&d, right + SECOND, sizeof d);
        d = (int) (((long) a * d + b) % 10007);
        c = (int) ((long) a * c % 10007);
        memcpy(right + FIRST, &c, sizeof c);
        memcpy(right + SECOND, &d, sizeof d);
    }
}

static int number(int who, int i, int which) { return (who * 31 + i * 17 + which * 5) % 101 + 1; }

static void fill(char *memory, int count, int who)
{
    memset(memory, 0x33, (size_t) count * EXTENT + LB);
    for (int i = 0; i < count && who >= 0; i++) {
        int a = number(who, i, 0), b = number(who, i, 1);
        memcpy(memory + i * EXTENT + FIRST, &a, sizeof a);
        memcpy(memory + i * EXTENT + SECOND, &b, sizeof b);
    }
}

static void must_be(const char *memory, int count, int from, int to)
{
    for (int i = 0; i < count; i++) {
        long a = number(to, i, 0), b = number(to, i, 1);
        for (int who = to - 1; who >= from; who--) {
            b = ((long) number(who, i, 0) * b + number(who, i, 1)) % 10007;
            a = (long) number(who, i, 0) * a % 10007;
        }
        int got[2];
        const char *element = memory + i * EXTENT;
        memcpy(&got[0], element + FIRST, sizeof(int));
        memcpy(&got[1], element + SECOND, sizeof(int));
        if (!CHECK_EQ(got[0], a) || !CHECK_EQ(got[1], b)) return;
        if (!CHECK_EQ(bytes_differ(element, FIRST + 4, SECOND, 0x33), -1)) return;
        if (!CHECK_EQ(bytes_differ(element, SECOND + 4, EXTENT + FIRST, 0x33), -1)) return;
    }
}

static MPI_Datatype make(void)
{
    MPI_Datatype plain, type;
    int places[2] = {0, 4};
    MPI_Aint bytes[2] = {FIRST, SECOND};
    (void) places;
    CHECK_OK(MPI_Type_create_hindexed_block(2, 1, bytes, MPI_INT, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, LB, EXTENT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_free(&plain));
    return type;
}

static void reductions(int count)
{
    char *mine = allocate((size_t) count * EXTENT + LB), *result = allocate((size_t) count * EXTENT + LB);
    for (int how = 0; how < 6; how++) {
        MPI_Datatype type = make();
        MPI_Op op;
        MPI_Request request;
        check_where("%d elements, way %d", count, how);
        CHECK_OK(MPI_Op_create(compose, 0, &op));
        fill(mine, count, rank);
        fill(result, count, -1);
        expected = type;
        int root = size - 1;
        if (how == 0) CHECK_OK(MPI_Allreduce(mine, result, count, type, op, MPI_COMM_WORLD));
        if (how == 1) CHECK_OK(MPI_Reduce(mine, result, count, type, op, root, MPI_COMM_WORLD));
        if (how == 2) CHECK_OK(MPI_Scan(mine, result, count, type, op, MPI_COMM_WORLD));
        if (how == 3) {
            memcpy(result, mine, (size_t) count * EXTENT + LB);
            CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, result, count, type, op, MPI_COMM_WORLD));
        }
        if (how == 4) CHECK_OK(MPI_Iallreduce(mine, result, count, type, op, MPI_COMM_WORLD, &request));
        if (how == 5) CHECK_OK(MPI_Ireduce(mine, result, count, type, op, 0, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Type_free(&type));
        CHECK_OK(MPI_Op_free(&op));
        if (how >= 4) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        int to = how == 2 ? rank : size - 1;
        if ((how != 1 || rank == root) && (how != 5 || rank == 0)) must_be(result, count, 0, to);
    }
    free(mine);
    free(result);
}

static void locally(void)
{
    enum { N = 5 };
    char left[N * EXTENT + LB], right[N * EXTENT + LB];
    MPI_Datatype type = make();
    MPI_Op op;
    check_where("locally");
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    fill(left, N, 0);
    fill(right, N, 1);
    expected = type;
    calls = 0;
    CHECK_OK(MPI_Reduce_local(left, right, N, type, op));
    CHECK_EQ(calls, 1);
    must_be(right, N, 0, 1);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Op_free(&op));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int count = 1; count < 30000; count = count * 11 + 2) reductions(count);
    locally();
    CHECK(!wrong_type);
    return check_end();
}
