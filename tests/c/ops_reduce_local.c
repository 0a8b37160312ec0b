// ranks: 1
// transports: one
/* MPI_Reduce_local: every operation on every predefined type is either right or MPI_ERR_OP; user
 * functions; refusals. */
#include "check.h"

#include <complex.h>
#include <stdbool.h>

enum { INTEGER = 1, FORTRAN = 2, FLOAT = 4, LOGICAL = 8, COMPLEX = 16, BYTES = 32, MULTI = 64, PAIR = 128, OTHER = 256 };

/* The groups of types of each operation (MPI-5.0 section 6.9.2), with two that other libraries
 * also permit: MPI_CHAR like C's integers, and logical ones on MULTI. */
static const struct { MPI_Op op; int groups; const char *name; } ops[] = {
    {MPI_MAX, INTEGER | FORTRAN | FLOAT | MULTI, "MPI_MAX"},
    {MPI_MIN, INTEGER | FORTRAN | FLOAT | MULTI, "MPI_MIN"},
    {MPI_SUM, INTEGER | FORTRAN | FLOAT | COMPLEX | MULTI, "MPI_SUM"},
    {MPI_PROD, INTEGER | FORTRAN | FLOAT | COMPLEX | MULTI, "MPI_PROD"},
    {MPI_LAND, INTEGER | LOGICAL | MULTI, "MPI_LAND"},
    {MPI_LOR, INTEGER | LOGICAL | MULTI, "MPI_LOR"},
    {MPI_LXOR, INTEGER | LOGICAL | MULTI, "MPI_LXOR"},
    {MPI_BAND, INTEGER | FORTRAN | BYTES | MULTI, "MPI_BAND"},
    {MPI_BOR, INTEGER | FORTRAN | BYTES | MULTI, "MPI_BOR"},
    {MPI_BXOR, INTEGER | FORTRAN | BYTES | MULTI, "MPI_BXOR"},
    {MPI_MINLOC, PAIR, "MPI_MINLOC"},
    {MPI_MAXLOC, PAIR, "MPI_MAXLOC"},
    {MPI_REPLACE, 0, "MPI_REPLACE"},
    {MPI_NO_OP, 0, "MPI_NO_OP"},
};
enum { OPS = sizeof ops / sizeof *ops };

#define TYPE(type, group) {type, group, #type}
static const struct { MPI_Datatype type; int group; const char *name; } types[] = {
    TYPE(MPI_SHORT, INTEGER), TYPE(MPI_INT, INTEGER), TYPE(MPI_LONG, INTEGER), TYPE(MPI_LONG_LONG, INTEGER),
    TYPE(MPI_UNSIGNED_SHORT, INTEGER), TYPE(MPI_UNSIGNED, INTEGER), TYPE(MPI_UNSIGNED_LONG, INTEGER),
    TYPE(MPI_UNSIGNED_LONG_LONG, INTEGER), TYPE(MPI_INT8_T, INTEGER), TYPE(MPI_INT16_T, INTEGER), TYPE(MPI_INT32_T, INTEGER),
    TYPE(MPI_INT64_T, INTEGER), TYPE(MPI_UINT8_T, INTEGER), TYPE(MPI_UINT16_T, INTEGER), TYPE(MPI_UINT32_T, INTEGER),
    TYPE(MPI_UINT64_T, INTEGER), TYPE(MPI_SIGNED_CHAR, INTEGER), TYPE(MPI_UNSIGNED_CHAR, INTEGER),
    TYPE(MPI_INTEGER, FORTRAN), TYPE(MPI_INTEGER1, FORTRAN), TYPE(MPI_INTEGER2, FORTRAN), TYPE(MPI_INTEGER4, FORTRAN),
    TYPE(MPI_INTEGER8, FORTRAN), TYPE(MPI_INTEGER16, FORTRAN), TYPE(MPI_FLOAT, FLOAT), TYPE(MPI_DOUBLE, FLOAT),
    TYPE(MPI_LONG_DOUBLE, FLOAT), TYPE(MPI_REAL, FLOAT), TYPE(MPI_DOUBLE_PRECISION, FLOAT), TYPE(MPI_REAL2, FLOAT),
    TYPE(MPI_REAL4, FLOAT), TYPE(MPI_REAL8, FLOAT), TYPE(MPI_REAL16, FLOAT), TYPE(MPI_LOGICAL, LOGICAL),
    TYPE(MPI_C_BOOL, LOGICAL), TYPE(MPI_CXX_BOOL, LOGICAL), TYPE(MPI_LOGICAL1, LOGICAL), TYPE(MPI_LOGICAL2, LOGICAL),
    TYPE(MPI_LOGICAL4, LOGICAL), TYPE(MPI_LOGICAL8, LOGICAL), TYPE(MPI_LOGICAL16, LOGICAL), TYPE(MPI_COMPLEX, COMPLEX),
    TYPE(MPI_DOUBLE_COMPLEX, COMPLEX), TYPE(MPI_C_FLOAT_COMPLEX, COMPLEX), TYPE(MPI_C_DOUBLE_COMPLEX, COMPLEX),
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX), TYPE(MPI_CXX_FLOAT_COMPLEX, COMPLEX), TYPE(MPI_CXX_DOUBLE_COMPLEX, COMPLEX),
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX), TYPE(MPI_COMPLEX4, COMPLEX), TYPE(MPI_COMPLEX8, COMPLEX),
    TYPE(MPI_COMPLEX16, COMPLEX), TYPE(MPI_COMPLEX32, COMPLEX), TYPE(MPI_BYTE, BYTES), TYPE(MPI_AINT, MULTI),
    TYPE(MPI_OFFSET, MULTI), TYPE(MPI_COUNT, MULTI), TYPE(MPI_FLOAT_INT, PAIR), TYPE(MPI_DOUBLE_INT, PAIR),
    TYPE(MPI_LONG_INT, PAIR), TYPE(MPI_2INT, PAIR), TYPE(MPI_SHORT_INT, PAIR), TYPE(MPI_LONG_DOUBLE_INT, PAIR),
    TYPE(MPI_2REAL, PAIR), TYPE(MPI_2DOUBLE_PRECISION, PAIR), TYPE(MPI_2INTEGER, PAIR), TYPE(MPI_CHAR, INTEGER),
    TYPE(MPI_WCHAR, OTHER), TYPE(MPI_CHARACTER, OTHER), TYPE(MPI_PACKED, OTHER),
};

static void legality(void)
{
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++)
        for (int o = 0; o < OPS; o++) {
            unsigned char left[128] = {0}, right[128] = {0}, before[128];
            check_where("%s on %s", ops[o].name, types[t].name);
            int legal = (ops[o].groups & types[t].group) != 0;
            if (!legal) memset(right, 0x44, sizeof right);
            memcpy(before, right, sizeof right);
            if (legal) {
                CHECK_OK(MPI_Reduce_local(left, right, 3, types[t].type, ops[o].op));
            } else {
                CHECK_CLASS(MPI_Reduce_local(left, right, 3, types[t].type, ops[o].op), MPI_ERR_OP);
                CHECK_CLASS(MPI_Reduce_local_c(left, right, 3, types[t].type, ops[o].op), MPI_ERR_OP);
                CHECK_CLASS(MPI_Allreduce(left, right, 3, types[t].type, ops[o].op, MPI_COMM_WORLD), MPI_ERR_OP);
            }
            CHECK(memcmp(right, before, sizeof right) == 0); /* 0 and 0 give 0 in all operations */
        }
}

#define NUMBERS(name, c_type, mpi_type, integer) \
    static void name(void) \
    { \
        enum { N = 37 }; \
        c_type left[N], right[N], out[N]; \
        check_where("numbers of %s", #mpi_type); \
        for (int i = 0; i < N; i++) { \
            left[i] = (c_type) (i * 7 % 11); \
            right[i] = (c_type) (i * 5 % 7); \
        } \
        static const MPI_Op arithmetic[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX}; \
        for (int o = 0; o < 4; o++) { \
            memcpy(out, right, sizeof out); \
            CHECK_OK(MPI_Reduce_local(left, out, N, mpi_type, arithmetic[o])); \
            for (int i = 0; i < N; i++) { \
                c_type a = left[i], b = right[i]; \
                c_type want = o == 0 ? a + b : o == 1 ? a * b : o == 2 ? (a < b ? a : b) : (a > b ? a : b); \
                if (!CHECK(out[i] == want)) break; \
            } \
        } \
        integer \
    }
#define BITS(c_type, mpi_type) \
    static const MPI_Op bits[] = {MPI_BAND, MPI_BOR, MPI_BXOR}; \
    for (int o = 0; o < 3; o++) { \
        memcpy(out, right, sizeof out); \
        CHECK_OK(MPI_Reduce_local(left, out, N, mpi_type, bits[o])); \
        for (int i = 0; i < N; i++) { \
            c_type a = left[i], b = right[i]; \
            if (!CHECK(out[i] == (c_type) (o == 0 ? a & b : o == 1 ? a | b : a ^ b))) break; \
        } \
    }
#define TRUTH(c_type, mpi_type) \
    static const MPI_Op truth[] = {MPI_LAND, MPI_LOR, MPI_LXOR}; \
    for (int o = 0; o < 3; o++) { \
        memcpy(out, right, sizeof out); \
        CHECK_OK(MPI_Reduce_local(left, out, N, mpi_type, truth[o])); \
        for (int i = 0; i < N; i++) { \
            int a = left[i] != 0, b = right[i] != 0; \
            if (!CHECK(out[i] == (c_type) (o == 0 ? a && b : o == 1 ? a || b : a != b))) break; \
        } \
    }
NUMBERS(shorts, short, MPI_SHORT, BITS(short, MPI_SHORT) TRUTH(short, MPI_SHORT))
NUMBERS(ints, int, MPI_INT, BITS(int, MPI_INT) TRUTH(int, MPI_INT))
NUMBERS(longs, long, MPI_LONG, BITS(long, MPI_LONG) TRUTH(long, MPI_LONG))
NUMBERS(signed_chars, signed char, MPI_SIGNED_CHAR, BITS(signed char, MPI_SIGNED_CHAR) TRUTH(signed char, MPI_SIGNED_CHAR))
NUMBERS(chars, char, MPI_CHAR, BITS(char, MPI_CHAR) TRUTH(char, MPI_CHAR))
NUMBERS(bytes8, uint8_t, MPI_UINT8_T, BITS(uint8_t, MPI_UINT8_T) TRUTH(uint8_t, MPI_UINT8_T))
NUMBERS(words, uint16_t, MPI_UINT16_T, BITS(uint16_t, MPI_UINT16_T))
NUMBERS(unsigned_longs, unsigned long, MPI_UNSIGNED_LONG, BITS(unsigned long, MPI_UNSIGNED_LONG))
NUMBERS(addresses, MPI_Aint, MPI_AINT, BITS(MPI_Aint, MPI_AINT) TRUTH(MPI_Aint, MPI_AINT))
NUMBERS(large_counts, MPI_Count, MPI_COUNT, BITS(MPI_Count, MPI_COUNT))
NUMBERS(wide, __int128, MPI_INTEGER16, BITS(__int128, MPI_INTEGER16))
NUMBERS(floats, float, MPI_FLOAT, ;)
NUMBERS(doubles, double, MPI_DOUBLE, ;)
NUMBERS(long_doubles, long double, MPI_LONG_DOUBLE, ;)
NUMBERS(quads, __float128, MPI_REAL16, ;)

static void complex_numbers(void)
{
    check_where("complex numbers");
    double complex a[3] = {1 + 2 * I, -3, I}, b[3] = {3 - I, 2 + I, I}, out[3];
    memcpy(out, b, sizeof out);
    CHECK_OK(MPI_Reduce_local(a, out, 3, MPI_C_DOUBLE_COMPLEX, MPI_PROD));
    CHECK(out[0] == 5 + 5 * I && out[1] == -6 - 3 * I && out[2] == -1);
    long double complex la[2] = {1 + 2 * I, I}, lb[2] = {3 - I, I};
    CHECK_OK(MPI_Reduce_local(la, lb, 2, MPI_C_LONG_DOUBLE_COMPLEX, MPI_PROD));
    CHECK(lb[0] == 5 + 5 * I && lb[1] == -1);
    bool yes[4] = {true, true, false, false}, no[4] = {true, false, true, false};
    CHECK_OK(MPI_Reduce_local(yes, no, 4, MPI_C_BOOL, MPI_LXOR));
    CHECK(!no[0] && no[1] && no[2] && !no[3]);
}

static int called;

/* Not commutative: right = 10 left + right. The function may query the type. */
static void tens(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int bytes = 0;
    called++;
    MPI_Type_size(*type, &bytes);
    for (int i = 0; i < *count; i++) ((int *) inout)[i] = bytes == 4 ? 10 * ((int *) in)[i] + ((int *) inout)[i] : -1;
}

static void tens_c(void *in, void *inout, MPI_Count *count, MPI_Datatype *type)
{
    int small = (int) *count;
    tens(in, inout, &small, type);
}

static void users(void)
{
    int left[3] = {1, 2, 3}, right[3] = {4, 5, 6};
    MPI_Op op;
    check_where("functions of the program");
    for (int large = 0; large < 2; large++) {
        if (large) CHECK_OK(MPI_Op_create_c(tens_c, 0, &op));
        else CHECK_OK(MPI_Op_create(tens, 0, &op));
        int out[3] = {right[0], right[1], right[2]};
        called = 0;
        CHECK_OK(MPI_Reduce_local(left, out, 3, MPI_INT, op));
        CHECK(out[0] == 14 && out[1] == 25 && out[2] == 36 && called == 1);
        CHECK_OK(MPI_Reduce_local_c(left, out, 1, MPI_INT, op));
        CHECK_EQ(out[0], 24);
        called = 0;
        CHECK_OK(MPI_Reduce_local(left, out, 0, MPI_INT, op));
        CHECK_EQ(called, 0);
        CHECK_OK(MPI_Op_free(&op));
    }
}

static void refused(void)
{
    int left[2] = {1, 2}, right[2] = {3, 4};
    MPI_Datatype derived;
    check_where("what is refused");
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &derived));
    CHECK_OK(MPI_Type_commit(&derived));
    CHECK_CLASS(MPI_Reduce_local(left, right, 1, derived, MPI_SUM), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce_local(left, right, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Reduce_local(NULL, right, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce_local(left, NULL, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce_local(MPI_IN_PLACE, right, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce_local(right, right, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce_local(left, right, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce_local(left, right, 1, MPI_DATATYPE_NULL, MPI_SUM), MPI_ERR_TYPE);
    CHECK_OK(MPI_Reduce_local(NULL, NULL, 0, MPI_INT, MPI_SUM));
    CHECK(right[0] == 3 && right[1] == 4);
    CHECK_OK(MPI_Type_free(&derived));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    legality();
    shorts(); ints(); longs(); signed_chars(); chars(); bytes8(); words(); unsigned_longs(); addresses(); large_counts(); wide();
    floats(); doubles(); long_doubles(); quads();
    complex_numbers();
    users();
    refused();
    return check_end();
}
