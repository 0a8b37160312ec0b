// ranks: 1 2 3 4 7
// transports: one
/* Every predefined operation on every C type for which it is defined. */
#include "check.h"

#include <complex.h>
#include <stdbool.h>

enum { N = 37 };

/* The values of rank r: small, so that sums and products of 8 ranks stay exact where they must. */
static int small_value(int whose, int i) { return 1 + (whose * 5 + i * 3) % 3; }

static unsigned bits_value(int whose, int i) { return drawn(5, whose, i) | 1u << (i % 7); }

static int truth_value(int whose, int i) { return (int) (drawn(6, whose, i) % 3); /* 0 is false, 1 and 2 are true */ }

/* Reduces `out` by all three calls and compares each result with `want`, byte by byte of each
 * element. */
static void reduce_all(const void *out, const void *want, size_t element, MPI_Datatype type, MPI_Op op, const char *name)
{
    char in[N * 32];
    check_where("%s", name);
    int root = (int) (strlen(name) % (size_t) size);
    for (int how = 0; how < 4; how++) {
        memset(in, 0x77, sizeof in);
        if (how == 0) CHECK_OK(MPI_Allreduce(out, in, N, type, op, MPI_COMM_WORLD));
        if (how == 1) CHECK_OK(MPI_Reduce(out, in, N, type, op, root, MPI_COMM_WORLD));
        if (how == 2) {
            memcpy(in, out, N * element);
            CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, in, N, type, op, MPI_COMM_WORLD));
        }
        if (how == 3) {
            MPI_Request request;
            CHECK_OK(MPI_Iallreduce(out, in, N, type, op, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        if (how == 1 && rank != root) continue;
        for (int i = 0; i < N; i++)
            if (!check_report(memcmp(in + i * element, (const char *) want + i * element, element) == 0, __FILE__, __LINE__,
                              "element %d is wrong (call %d)", i, how))
                break;
        CHECK_EQ(bytes_differ(in, N * element, N * element + 16, 0x77), -1);
    }
}

#define REDUCE(c_type, type, op, source, expression) \
    do { \
        c_type out[N], want[N]; \
        memset(out, 0, sizeof out); \
        memset(want, 0, sizeof want); \
        for (int i = 0; i < N; i++) { \
            out[i] = (c_type) source(rank, i); \
            c_type a = (c_type) source(0, i); \
            for (int r = 1; r < size; r++) { \
                c_type b = (c_type) source(r, i); \
                a = (c_type) (expression); \
            } \
            want[i] = a; \
        } \
        reduce_all(out, want, sizeof(c_type), type, op, #op " on " #type); \
    } while (0)

#define ORDERED(c_type, type, source) \
    do { \
        REDUCE(c_type, type, MPI_MAX, source, a > b ? a : b); \
        REDUCE(c_type, type, MPI_MIN, source, a < b ? a : b); \
    } while (0)

#define ARITHMETIC(c_type, type) \
    do { \
        REDUCE(c_type, type, MPI_SUM, small_value, a + b); \
        REDUCE(c_type, type, MPI_PROD, small_value, a * b); \
    } while (0)

#define BITWISE(c_type, type) \
    do { \
        REDUCE(c_type, type, MPI_BAND, bits_value, a & b); \
        REDUCE(c_type, type, MPI_BOR, bits_value, a | b); \
        REDUCE(c_type, type, MPI_BXOR, bits_value, a ^ b); \
    } while (0)

/* With one rank the result is the value itself, which need not be 0 or 1: logical results are
 * compared as truth. */
#define LOGICAL_ONE(c_type, type, op, expression) \
    do { \
        c_type out[N], in[N]; \
        check_where("%s", #op " on " #type); \
        for (int i = 0; i < N; i++) out[i] = (c_type) truth_value(rank, i); \
        CHECK_OK(MPI_Allreduce(out, in, N, type, op, MPI_COMM_WORLD)); \
        for (int i = 0; i < N; i++) { \
            int a = truth_value(0, i) != 0; \
            for (int r = 1; r < size; r++) { \
                int b = truth_value(r, i) != 0; \
                a = (expression); \
            } \
            if (!CHECK_EQ(in[i] != 0, a)) break; \
            if (size > 1 && !CHECK(in[i] == 0 || in[i] == 1)) break; \
        } \
    } while (0)

#define LOGICAL(c_type, type) \
    do { \
        LOGICAL_ONE(c_type, type, MPI_LAND, a && b); \
        LOGICAL_ONE(c_type, type, MPI_LOR, a || b); \
        LOGICAL_ONE(c_type, type, MPI_LXOR, a != b); \
    } while (0)

#define INTEGER(c_type, type) \
    do { \
        ORDERED(c_type, type, bits_value); \
        ARITHMETIC(c_type, type); \
        LOGICAL(c_type, type); \
        BITWISE(c_type, type); \
    } while (0)

static double signed_value(int whose, int i) { return ((int) (drawn(7, whose, i) % 2001) - 1000) / 8.0; }

static void integers(void)
{
    INTEGER(char, MPI_CHAR); /* beyond the standard's table, as with other libraries */
    INTEGER(signed char, MPI_SIGNED_CHAR);
    INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(short, MPI_SHORT);
    INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT);
    INTEGER(unsigned, MPI_UNSIGNED);
    INTEGER(long, MPI_LONG);
    INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG);
    INTEGER(long long, MPI_LONG_LONG_INT);
    INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(int8_t, MPI_INT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    INTEGER(int64_t, MPI_INT64_T);
    INTEGER(uint8_t, MPI_UINT8_T);
    INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(uint32_t, MPI_UINT32_T);
    INTEGER(uint64_t, MPI_UINT64_T);
}

static void shared_types(void)
{
    ORDERED(MPI_Aint, MPI_AINT, bits_value);
    ARITHMETIC(MPI_Aint, MPI_AINT);
    BITWISE(MPI_Aint, MPI_AINT);
    LOGICAL(MPI_Aint, MPI_AINT);
    ORDERED(MPI_Offset, MPI_OFFSET, bits_value);
    ARITHMETIC(MPI_Offset, MPI_OFFSET);
    BITWISE(MPI_Offset, MPI_OFFSET);
    LOGICAL(MPI_Offset, MPI_OFFSET);
    ORDERED(MPI_Count, MPI_COUNT, bits_value);
    ARITHMETIC(MPI_Count, MPI_COUNT);
    BITWISE(MPI_Count, MPI_COUNT);
    LOGICAL(MPI_Count, MPI_COUNT);
    BITWISE(unsigned char, MPI_BYTE);
    LOGICAL(bool, MPI_C_BOOL);
}

static void floating(void)
{
    ORDERED(float, MPI_FLOAT, signed_value);
    ARITHMETIC(float, MPI_FLOAT);
    ORDERED(double, MPI_DOUBLE, signed_value);
    ARITHMETIC(double, MPI_DOUBLE);
}

static void long_doubles(void)
{
    MPI_Op ops[4] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN};
    for (int k = 0; k < 4; k++) {
        long double out[N], in[N];
        check_where("operation %d on MPI_LONG_DOUBLE", k);
        for (int i = 0; i < N; i++) out[i] = small_value(rank, i) + 0.5L;
        CHECK_OK(MPI_Allreduce(out, in, N, MPI_LONG_DOUBLE, ops[k], MPI_COMM_WORLD));
        for (int i = 0; i < N; i++) {
            long double a = small_value(0, i) + 0.5L;
            for (int r = 1; r < size; r++) {
                long double b = small_value(r, i) + 0.5L;
                a = k == 0 ? a + b : k == 1 ? a * b : k == 2 ? (a > b ? a : b) : a < b ? a : b;
            }
            if (!CHECK(in[i] == a)) break;
        }
    }
}

#define COMPLEX(c_type, type) \
    do { \
        c_type out[N], sum[N], product[N]; \
        check_where("%s", #type); \
        for (int i = 0; i < N; i++) out[i] = (rank + i) % 3 - 1 + ((rank * i) % 2 + 1) * I; \
        CHECK_OK(MPI_Allreduce(out, sum, N, type, MPI_SUM, MPI_COMM_WORLD)); \
        CHECK_OK(MPI_Allreduce(out, product, N, type, MPI_PROD, MPI_COMM_WORLD)); \
        for (int i = 0; i < N; i++) { \
            double complex s = 0, p = 1; \
            for (int r = 0; r < size; r++) { \
                double complex v = (r + i) % 3 - 1 + ((r * i) % 2 + 1) * I; \
                s += v; \
                p *= v; \
            } \
            if (!CHECK(sum[i] == s && product[i] == p)) break; \
        } \
    } while (0)

static void complexes(void)
{
    COMPLEX(float complex, MPI_C_FLOAT_COMPLEX);
    COMPLEX(float complex, MPI_C_COMPLEX);
    COMPLEX(double complex, MPI_C_DOUBLE_COMPLEX);
    COMPLEX(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
}

#define PAIR(c_type, type) \
    do { \
        struct pair { c_type value; int index; } out[N], in[N]; \
        const size_t padding = sizeof(c_type) < sizeof(int) ? sizeof(int) - sizeof(c_type) : 0; \
        const size_t index_end = (sizeof(c_type) < sizeof(int) ? sizeof(int) : sizeof(c_type)) + sizeof(int); \
        for (int largest = 0; largest < 2; largest++) { \
            check_where("%s on %s", largest ? "MPI_MAXLOC" : "MPI_MINLOC", #type); \
            memset(out, 0x33, sizeof out); \
            memset(in, 0x44, sizeof in); \
            for (int i = 0; i < N; i++) { \
                out[i].value = (c_type) ((int) (drawn(8, rank, i) % 5) - 2); /* few values: many ties */ \
                out[i].index = (rank * 7 + i) % 10; \
            } \
            CHECK_OK(MPI_Allreduce(out, in, N, type, largest ? MPI_MAXLOC : MPI_MINLOC, MPI_COMM_WORLD)); \
            for (int i = 0; i < N; i++) { \
                int best = (int) (drawn(8, 0, i) % 5) - 2, index = i % 10; \
                for (int r = 1; r < size; r++) { \
                    int v = (int) (drawn(8, r, i) % 5) - 2, at = (r * 7 + i) % 10; \
                    if (v == best ? at < index : largest ? v > best : v < best) { \
                        best = v; \
                        index = at; \
                    } \
                } \
                if (!CHECK(in[i].value == (c_type) best)) break; \
                if (!CHECK_EQ(in[i].index, index)) break; \
                if (!CHECK_EQ(bytes_differ(&in[i], sizeof(c_type), sizeof(c_type) + padding, 0x44), -1)) break; \
                if (!CHECK_EQ(bytes_differ(&in[i], index_end, sizeof in[i], 0x44), -1)) break; \
            } \
        } \
        int bytes = -1; \
        MPI_Aint lb, extent; \
        CHECK_OK(MPI_Type_size(type, &bytes)); \
        CHECK_OK(MPI_Type_get_extent(type, &lb, &extent)); \
        CHECK_EQ(bytes, sizeof(c_type) + sizeof(int)); \
        CHECK_EQ(extent, sizeof(struct pair)); \
    } while (0)

static void pairs(void)
{
    PAIR(int, MPI_2INT);
    PAIR(short, MPI_SHORT_INT);
    PAIR(long, MPI_LONG_INT);
    PAIR(float, MPI_FLOAT_INT);
    PAIR(double, MPI_DOUBLE_INT);
    PAIR(long double, MPI_LONG_DOUBLE_INT);
}

static void long_vectors(void)
{
    enum { LENGTH = 70000 };
    float *out = allocate(LENGTH * sizeof *out), *in = allocate(LENGTH * sizeof *in);
    struct { double value; int index; } *pair = allocate(LENGTH * sizeof *pair), *best = allocate(LENGTH * sizeof *best);
    check_where("long vectors");
    for (int i = 0; i < LENGTH; i++) {
        out[i] = (float) ((i + rank) % 1000);
        pair[i].value = (i + rank) % size;
        pair[i].index = rank;
    }
    CHECK_OK(MPI_Allreduce(out, in, LENGTH, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD));
    CHECK_OK(MPI_Allreduce(pair, best, LENGTH, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
    for (int i = 0; i < LENGTH; i++) {
        int largest = 0;
        for (int r = 0; r < size; r++)
            if ((i + r) % 1000 > largest) largest = (i + r) % 1000;
        if (!CHECK_EQ(in[i], largest)) break;
        if (!CHECK(best[i].value == 0 && best[i].index == (size - i % size) % size)) break;
    }
    free(out);
    free(in);
    free(pair);
    free(best);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    integers();
    shared_types();
    floating();
    long_doubles();
    complexes();
    pairs();
    long_vectors();
    return check_end();
}
