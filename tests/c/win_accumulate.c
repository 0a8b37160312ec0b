// ranks: 1 2 4 7
// transports: all
// every day: shm-denied tcp-encrypted nodes lamd ofi
/* Accumulates of all ranks to the same elements: none is lost, with every datatype and memory;
 * order is kept. */
#include "win.h"

#include <complex.h>

enum { TURNS = 50, ELEMENTS = 33 };

static void sums(enum memory kind)
{
    struct window w = make_window(kind, 4096, 1, MPI_COMM_WORLD);
    int turns = scaled(TURNS);
#define SUM(type, datatype)                                                                                        \
    do {                                                                                                           \
        check_where("sum of %s, %s", #datatype, memory_names[kind]);                                               \
        memset(w.base, 0, 4096);                                                                                   \
        MPI_Barrier(MPI_COMM_WORLD);                                                                               \
        CHECK_OK(MPI_Win_lock_all(0, w.win));                                                                      \
        type ones[ELEMENTS], old = 0;                                                                              \
        for (int i = 0; i < ELEMENTS; i++) ones[i] = 1;                                                            \
        for (int turn = 0; turn < turns; turn++) {                                                                 \
            if (turn % 2 == rank % 2)                                                                              \
                CHECK_OK(MPI_Accumulate(ones, ELEMENTS, datatype, 0, 0, ELEMENTS, datatype, MPI_SUM, w.win));      \
            else                                                                                                   \
                for (int i = 0; i < ELEMENTS; i++)                                                                 \
                    CHECK_OK(MPI_Fetch_and_op(ones, &old, datatype, 0, i * (MPI_Aint) sizeof(type), MPI_SUM, w.win)); \
        }                                                                                                          \
        CHECK_OK(MPI_Win_unlock_all(w.win));                                                                       \
        MPI_Barrier(MPI_COMM_WORLD);                                                                               \
        type *here = w.base;                                                                                       \
        for (int i = 0; i < ELEMENTS; i++)                                                                         \
            CHECK(here[i] == (type) (rank == 0 ? (type) (size * turns) : 0));                                      \
        MPI_Barrier(MPI_COMM_WORLD);                                                                               \
    } while (0)
    SUM(char, MPI_CHAR);
    SUM(int8_t, MPI_INT8_T);
    SUM(short, MPI_SHORT);
    SUM(int, MPI_INT);
    SUM(long, MPI_LONG);
    SUM(uint64_t, MPI_UINT64_T);
    SUM(float, MPI_FLOAT);
    SUM(double, MPI_DOUBLE);
    SUM(long double, MPI_LONG_DOUBLE);
    SUM(double _Complex, MPI_C_DOUBLE_COMPLEX);
    free_window(&w);
}

/* Elements at odd addresses have no atomic instruction. */
static void unaligned(enum memory kind)
{
    check_where("unaligned, %s", memory_names[kind]);
    struct window w = make_window(kind, 64, 1, MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, w.win));
    long one = 1;
    for (int turn = 0; turn < TURNS; turn++)
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, size - 1, 3, 1, MPI_LONG, MPI_SUM, w.win));
    CHECK_OK(MPI_Win_unlock_all(w.win));
    MPI_Barrier(MPI_COMM_WORLD);
    long sum;
    memcpy(&sum, (char *) w.base + 3, sizeof sum);
    CHECK_EQ(sum, rank == size - 1 ? TURNS * size : 0);
    free_window(&w);
}

static void pairs(enum memory kind)
{
    struct pair { short value; int index; } *here, mine = {(short) (rank / 2), rank};
    struct wide { long double value; int index; } *there, other = {(long double) (100 - rank / 2), rank};
    check_where("pairs, %s", memory_names[kind]);
    struct window w = make_window(kind, 4096, 1, MPI_COMM_WORLD);
    here = w.base;
    there = (struct wide *) ((char *) w.base + 1024);
    for (int i = 0; i < 3; i++) here[i] = (struct pair) {-1, 1000}, there[i] = (struct wide) {1000, 1000};
    memset((char *) here + 2, 0x55, 2);
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int to = 0; to < size; to++) {
        CHECK_OK(MPI_Accumulate(&mine, 1, MPI_SHORT_INT, to, 8, 1, MPI_SHORT_INT, MPI_MAXLOC, w.win));
        CHECK_OK(MPI_Accumulate(&mine, 1, MPI_SHORT_INT, to, 0, 1, MPI_SHORT_INT, MPI_MAXLOC, w.win));
        CHECK_OK(MPI_Accumulate(&other, 1, MPI_LONG_DOUBLE_INT, to, 1024, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC, w.win));
    }
    CHECK_OK(MPI_Win_fence(0, w.win));
    int best = (size - 1) / 2 * 2;
    for (int i = 0; i < 2; i++) CHECK(here[i].value == best / 2 && here[i].index == best);
    CHECK(there[0].value == 100 - best / 2 && there[0].index == best && there[1].index == 1000);
    CHECK_EQ(((unsigned char *) here)[2], 0x55);
    free_window(&w);
}

static void fetching(enum memory kind)
{
    struct window w = make_window(kind, 1024, 8, MPI_COMM_WORLD);
    long *here = w.base, out[4], in[4];
    check_where("fetch, %s", memory_names[kind]);
    CHECK_OK(MPI_Win_lock_all(0, w.win));
    for (int turn = 0; turn < TURNS / 10; turn++) {
        out[0] = 1;
        CHECK_OK(MPI_Get_accumulate(out, 1, MPI_LONG, in, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, w.win));
        CHECK_OK(MPI_Win_flush(0, w.win));
        CHECK(in[0] >= 0 && in[0] < size * (TURNS / 10));
        CHECK_OK(MPI_Accumulate(out, 1, MPI_LONG, size - 1, 1 + in[0], 1, MPI_LONG, MPI_SUM, w.win));
    }
    CHECK_OK(MPI_Win_unlock_all(w.win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1)
        for (int i = 0; i < size * (TURNS / 10); i++) CHECK_EQ(here[1 + i], 1);
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 4; i++) here[100 + i] = 12;
    CHECK_OK(MPI_Win_fence(0, w.win));
    static const struct { MPI_Op op; long result; } ops[] = {
        {MPI_SUM, 22}, {MPI_PROD, 220}, {MPI_MIN, 10}, {MPI_MAX, 22}, {MPI_BAND, 2}, {MPI_BOR, 10}, {MPI_BXOR, 0},
        {MPI_LAND, 0}, {MPI_LOR, 1}, {MPI_LXOR, 0}, {MPI_REPLACE, 10}, {MPI_NO_OP, 10}};
    long before = 12;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        check_where("operation %zu, %s", i, memory_names[kind]);
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
        for (int k = 0; k < 4; k++) out[k] = 10, in[k] = -1;
        CHECK_OK(MPI_Get_accumulate(out, 4, MPI_LONG, in, 4, MPI_LONG, rank, 100, 4, MPI_LONG, ops[i].op, w.win));
        CHECK_OK(MPI_Win_unlock(rank, w.win));
        for (int k = 0; k < 4; k++) CHECK_EQ(in[k], before);
        static const long expected[] = {22, 220, 10, 10, 10, 10, 0, 0, 1, 0, 10, 10};
        for (int k = 0; k < 4; k++) CHECK_EQ(here[100 + k], expected[i]);
        before = expected[i];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
    in[0] = -1;
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, in, 1, MPI_LONG, 0, 100, 1, MPI_LONG, MPI_NO_OP, w.win));
    CHECK_OK(MPI_Fetch_and_op(NULL, &in[1], MPI_LONG, 0, 100, MPI_NO_OP, w.win));
    CHECK_OK(MPI_Win_unlock(0, w.win));
    CHECK(in[0] == 10 && in[1] == 10);
    free_window(&w);
}

static void order(enum memory kind)
{
    enum { LONG = 1 << 15 };
    check_where("order, %s", memory_names[kind]);
    struct window w = make_window(kind, LONG * 8 * size, 8, MPI_COMM_WORLD);
    long *many = allocate(LONG * 8), *old = allocate(LONG * 8), value;
    CHECK_OK(MPI_Win_lock_all(0, w.win));
    int to = (rank + 1) % size;
    for (int turn = 1; turn <= scaled(10); turn++) {
        for (int i = 0; i < LONG; i++) many[i] = turn;
        value = -turn;
        CHECK_OK(MPI_Accumulate(many, LONG, MPI_LONG, to, rank * LONG, LONG, MPI_LONG, MPI_REPLACE, w.win));
        CHECK_OK(MPI_Accumulate(&value, 1, MPI_LONG, to, rank * LONG + 5, 1, MPI_LONG, MPI_REPLACE, w.win));
        CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, old, LONG, MPI_LONG, to, rank * LONG, LONG, MPI_LONG, MPI_NO_OP, w.win));
        CHECK_OK(MPI_Win_flush(to, w.win));
        for (int i = 0; i < LONG; i++)
            if (!CHECK_EQ(old[i], i == 5 ? -turn : turn)) break;
    }
    CHECK_OK(MPI_Win_unlock_all(w.win));
    free(many);
    free(old);
    free_window(&w);
}

static void derived(enum memory kind)
{
    enum { N = 100 };
    check_where("derived, %s", memory_names[kind]);
    struct window w = make_window(kind, 8 * 2 * N, 8, MPI_COMM_WORLD);
    double *here = w.base, out[3 * N];
    MPI_Datatype two, three;
    MPI_Type_vector(N, 1, 2, MPI_DOUBLE, &two);
    MPI_Type_commit(&two);
    MPI_Type_vector(N, 1, 3, MPI_DOUBLE, &three);
    MPI_Type_commit(&three);
    for (int i = 0; i < 3 * N; i++) out[i] = i % 3 == 0 ? i / 3 + 1 : 1e9;
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int to = 0; to < size; to++) CHECK_OK(MPI_Accumulate(out, 1, three, to, 1, 1, two, MPI_SUM, w.win));
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 2 * N; i++) CHECK(here[i] == (i % 2 ? (double) size * (i / 2 + 1) : 0));
    MPI_Type_free(&two);
    MPI_Type_free(&three);
    free_window(&w);
}

/* Nested datatypes of MPI_CHAR, which is in no table of the standard for accumulates, as C's
 * char. */
static void chars(enum memory kind)
{
    enum { N = 20 };
    check_where("chars, %s", memory_names[kind]);
    struct window w = make_window(kind, 4 * N, 1, MPI_COMM_WORLD);
    char *here = w.base, out[2 * N], old[2 * N], one = 1, before = 77;
    MPI_Datatype pair, row, rows;
    MPI_Type_contiguous(2, MPI_CHAR, &pair);
    MPI_Type_create_resized(pair, 0, 4, &row);
    MPI_Type_contiguous(N, row, &rows);
    MPI_Type_commit(&rows);
    for (int i = 0; i < 2 * N; i++) out[i] = (char) (i % 7 - 3), old[i] = 99;
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int to = 0; to < size; to++) CHECK_OK(MPI_Accumulate(out, 2 * N, MPI_CHAR, to, 0, 1, rows, MPI_SUM, w.win));
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 4 * N; i++) {
        int k = i / 4 * 2 + i % 4;
        CHECK_EQ(here[i], i % 4 < 2 ? size * (k % 7 - 3) : 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
    CHECK_OK(MPI_Get_accumulate(out, 2 * N, MPI_CHAR, old, 2 * N, MPI_CHAR, rank, 0, 1, rows, MPI_MIN, w.win));
    CHECK_OK(MPI_Fetch_and_op(&one, &before, MPI_CHAR, rank, 1, MPI_LXOR, w.win));
    CHECK_OK(MPI_Win_unlock(rank, w.win));
    for (int i = 0; i < 2 * N; i++) CHECK_EQ(old[i], size * (i % 7 - 3));
    CHECK(here[1] == (before == 0) && before == 1 % 7 - 3 - (size - 1) * 2);
    MPI_Type_free(&pair);
    MPI_Type_free(&row);
    MPI_Type_free(&rows);
    free_window(&w);
}

static void nothing(enum memory kind)
{
    check_where("nothing, %s", memory_names[kind]);
    struct window w = make_window(kind, 64, 1, MPI_COMM_WORLD);
    int to = (rank + 1) % size, ones[4] = {1, 1, 1, 1};
    double result = 7;
    MPI_Datatype empty;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK_OK(MPI_Accumulate(NULL, 1, empty, to, 0, 0, MPI_DOUBLE, MPI_SUM, w.win));
    CHECK_OK(MPI_Accumulate(ones, 0, MPI_INT, to, 0, 2, empty, MPI_PROD, w.win));
    CHECK_OK(MPI_Get_accumulate(NULL, 2, empty, NULL, 1, empty, to, 0, 1, empty, MPI_SUM, w.win));
    CHECK_OK(MPI_Get_accumulate(ones, 0, MPI_INT, &result, 0, MPI_DOUBLE, to, 0, 1, empty, MPI_MAX, w.win));
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, NULL, 1, empty, to, 0, 1, empty, MPI_NO_OP, w.win));
    CHECK_CLASS(MPI_Accumulate(NULL, 1, empty, size, 0, 1, empty, MPI_SUM, w.win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Accumulate(NULL, -1, empty, to, 0, 1, empty, MPI_SUM, w.win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Accumulate(ones, 2, MPI_INT, to, 0, 1, MPI_DOUBLE, MPI_SUM, w.win), MPI_ERR_TYPE);
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < 64; i++) CHECK_EQ(((char *) w.base)[i], 0);
    CHECK(result == 7);
    MPI_Type_free(&empty);
    free_window(&w);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) {
        sums((enum memory) kind);
        unaligned((enum memory) kind);
        pairs((enum memory) kind);
        fetching((enum memory) kind);
        order((enum memory) kind);
        derived((enum memory) kind);
        chars((enum memory) kind);
        nothing((enum memory) kind);
    }
    return check_end();
}
