// ranks: 1
// transports: one
/* The representation "external32": the exact bytes of each type, there and back, and refusals.
 * The compiler's __float128 gives the bytes of a long double. */
#include "check.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

static unsigned char bytes[4096];

static void is(const void *data, int count, MPI_Datatype type, const char *hex)
{
    MPI_Aint room = -1, position = 0;
    int length = (int) strlen(hex) / 2;
    memset(bytes, 0xee, sizeof bytes);
    CHECK_OK(MPI_Pack_external_size("EXTERNAL32", count, type, &room)); /* capitals are taken as well */
    CHECK_EQ(room, length);
    CHECK_OK(MPI_Pack_external("external32", data, count, type, bytes, length, &position));
    CHECK_EQ(position, length);
    char text[2 * 512 + 1] = "";
    for (int i = 0; i < length && i < 512; i++) sprintf(text + 2 * i, "%02x", bytes[i]);
    check_report(strcmp(text, hex) == 0, __FILE__, __LINE__, "external32 is %s, not %s", text, hex);
    CHECK_EQ(bytes_differ(bytes, length, sizeof bytes, 0xee), -1);
    unsigned char back[1024], again[1024];
    memset(back, 0x5a, sizeof back);
    position = 0;
    CHECK_OK(MPI_Unpack_external("EXTERNAL32", bytes, length, &position, back, count, type));
    CHECK_EQ(position, length);
    MPI_Count at = 0;
    CHECK_OK(MPI_Pack_external_c("external32", back, count, type, again, sizeof again, &at));
    CHECK(at == length && memcmp(again, bytes, length) == 0);
}

#define IS(c_type, mpi_type, hex, ...) \
    do { \
        c_type data[] = {__VA_ARGS__}; \
        check_where("%s", #mpi_type); \
        is(data, sizeof data / sizeof *data, mpi_type, hex); \
    } while (0)

static void numbers(void)
{
    IS(char, MPI_CHAR, "416280", 'A', 'b', (char) 0x80);
    IS(signed char, MPI_SIGNED_CHAR, "ff7f", -1, 127);
    IS(unsigned char, MPI_UNSIGNED_CHAR, "ff01", 255, 1);
    IS(unsigned char, MPI_BYTE, "01c3", 1, 0xc3);
    IS(unsigned char, MPI_PACKED, "0203", 2, 3);
    IS(char, MPI_CHARACTER, "7a", 'z');
    IS(wchar_t, MPI_WCHAR, "004120ac", L'A', 0x20ac);
    IS(bool, MPI_C_BOOL, "010001", true, false, true);
    IS(bool, MPI_CXX_BOOL, "0100", true, false);
    IS(short, MPI_SHORT, "0102ffff", 0x102, -1);
    IS(unsigned short, MPI_UNSIGNED_SHORT, "fffe", 0xfffe);
    IS(int, MPI_INT, "01020304fffffffe", 0x1020304, -2);
    IS(unsigned, MPI_UNSIGNED, "80000000", 0x80000000u);
    IS(long, MPI_LONG, "00000005fffffffb7fffffff80000000", 5, -5, INT32_MAX, INT32_MIN);
    IS(unsigned long, MPI_UNSIGNED_LONG, "00000005ffffffff", 5, 0xffffffffu);
    IS(long long, MPI_LONG_LONG, "0102030405060708ffffffffffffffff", 0x102030405060708, -1);
    IS(unsigned long long, MPI_UNSIGNED_LONG_LONG, "f000000000000001", 0xf000000000000001u);
    IS(int8_t, MPI_INT8_T, "80", -128);
    IS(int16_t, MPI_INT16_T, "8001", -32767);
    IS(int32_t, MPI_INT32_T, "80000001", -INT32_MAX);
    IS(int64_t, MPI_INT64_T, "8000000000000001", -INT64_MAX);
    IS(uint8_t, MPI_UINT8_T, "80", 128);
    IS(uint16_t, MPI_UINT16_T, "8001", 0x8001);
    IS(uint32_t, MPI_UINT32_T, "80000001", 0x80000001u);
    IS(uint64_t, MPI_UINT64_T, "8000000000000001", 0x8000000000000001u);
    IS(MPI_Aint, MPI_AINT, "0000000100000002", 0x100000002);
    IS(MPI_Count, MPI_COUNT, "fffffffeffffffff", -0x100000001);
    IS(MPI_Offset, MPI_OFFSET, "0000000000000009", 9);
    IS(float, MPI_FLOAT, "3f800000c0490fdb7f800000", 1.0f, -3.14159274f, INFINITY);
    IS(double, MPI_DOUBLE, "3ff8000000000000c00921fb54442d18", 1.5, -M_PI);
    IS(float, MPI_REAL, "3f000000", 0.5f);
    IS(double, MPI_DOUBLE_PRECISION, "4000000000000000", 2);
    IS(int, MPI_INTEGER, "00000007", 7);
    IS(int, MPI_LOGICAL, "0000000100000000", 1, 0);
    IS(long long, MPI_INTEGER8, "0000000000000007", 7);
    IS(__int128, MPI_INTEGER16, "0000000000000000fffffffffffffff9", (__int128) 0xfffffffffffffff9u);
    IS(unsigned short, MPI_REAL2, "3c00", 0x3c00);
    IS(__float128, MPI_REAL16, "3fff0000000000000000000000000000", 1);
}

static void groups(void)
{
    double complex_number[2] = {1, -2};
    float small_complex[2] = {1, 2};
    check_where("complex numbers and pairs");
    is(small_complex, 1, MPI_COMPLEX, "3f80000040000000");
    is(small_complex, 1, MPI_C_FLOAT_COMPLEX, "3f80000040000000");
    is(complex_number, 1, MPI_C_DOUBLE_COMPLEX, "3ff0000000000000c000000000000000");
    is(complex_number, 1, MPI_DOUBLE_COMPLEX, "3ff0000000000000c000000000000000");
    long double long_complex[2] = {1, -2};
    is(long_complex, 1, MPI_C_LONG_DOUBLE_COMPLEX, "3fff0000000000000000000000000000c0000000000000000000000000000000");
    struct { float v; int i; } fi[2] = {{1, 2}, {0.5, -1}};
    is(fi, 2, MPI_FLOAT_INT, "3f800000000000023f000000ffffffff");
    struct { double v; int i; } di[2] = {{1, 2}, {0.5, -1}};
    is(di, 2, MPI_DOUBLE_INT, "3ff0000000000000000000023fe0000000000000ffffffff");
    struct { long v; int i; } li = {-7, 2};
    is(&li, 1, MPI_LONG_INT, "fffffff900000002");
    struct { short v; int i; } si[2] = {{-7, 2}, {1, 3}};
    is(si, 2, MPI_SHORT_INT, "fff900000002000100000003");
    struct { int v, i; } ii = {1, 2};
    is(&ii, 1, MPI_2INT, "0000000100000002");
    struct { long double v; int i; } qi = {1, 2};
    is(&qi, 1, MPI_LONG_DOUBLE_INT, "3fff000000000000000000000000000000000002");

    struct mixed { char c; long l[2]; double d; wchar_t w; } mixed[2] = {{'a', {1, -1}, 1, 'x'}, {'b', {2, -2}, 2, 'y'}};
    int lengths[4] = {1, 2, 1, 1};
    MPI_Aint places[4] = {offsetof(struct mixed, w), offsetof(struct mixed, l), offsetof(struct mixed, d), 0};
    MPI_Datatype members[4] = {MPI_WCHAR, MPI_LONG, MPI_DOUBLE, MPI_CHAR}, plain, type;
    check_where("a struct");
    CHECK_OK(MPI_Type_create_struct(4, lengths, places, members, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, 0, sizeof(struct mixed), &type));
    CHECK_OK(MPI_Type_commit(&type));
    is(mixed, 2, type, "007800000001ffffffff3ff000000000000061007900000002fffffffe400000000000000062");
    CHECK_OK(MPI_Type_free(&plain));
    CHECK_OK(MPI_Type_free(&type));

    /* More than fits into any window: every second of many longs. */
    enum { MANY = 100000 };
    long *many = allocate(2 * MANY * sizeof *many), *back = allocate(2 * MANY * sizeof *back);
    unsigned char *outside = allocate(4 * MANY);
    for (int i = 0; i < 2 * MANY; i++) many[i] = i % 3 ? i : -i;
    for (int i = 0; i < 2 * MANY; i++) back[i] = -99;
    check_where("many");
    MPI_Aint position = 0;
    CHECK_OK(MPI_Type_vector(MANY, 1, 2, MPI_LONG, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Pack_external("external32", many, 1, type, outside, 4 * MANY, &position));
    CHECK_EQ(position, 4 * MANY);
    for (int i = 0; i < MANY; i++) {
        const unsigned char *at = outside + 4 * i;
        if (!CHECK_EQ((int) ((unsigned) at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]), many[2 * i])) break;
    }
    MPI_Count at = 0;
    CHECK_OK(MPI_Unpack_external_c("external32", outside, 4 * MANY, &at, back, 1, type));
    CHECK_EQ(at, 4 * MANY);
    for (int i = 0; i < 2 * MANY; i++)
        if (!CHECK_EQ(back[i], i % 2 ? -99 : many[i])) break;
    CHECK_OK(MPI_Type_free(&type));
    free(many);
    free(back);
    free(outside);
}

static void long_doubles(void)
{
    check_where("long doubles");
    for (int i = 0; i < 20000; i++) {
        union { long double value; struct { uint64_t significand; uint16_t head; } parts; unsigned char bytes[16]; } x = {0};
        union { __float128 value; unsigned char bytes[16]; } quad, low;
        uint64_t bits = (uint64_t) drawn(i, 1, 1) << 32 | drawn(i, 2, 2);
        static const uint64_t special[] = {0, 1, ~0ull, 1ull << 62, 0x7ffull, 1ull << 63};
        if (i % 7 == 0) bits = special[i / 7 % 6];
        x.parts.head = (uint16_t) (i % 5 == 0 ? (i / 5 % 2 ? 0 : 0x7ffe) : drawn(i, 3, 3) % 0x7fff);
        x.parts.significand = x.parts.head ? bits | 1ull << 63 : bits & ~(1ull << 63);
        if (i % 2) x.parts.head |= 0x8000;
        quad.value = x.value;
        MPI_Aint position = 0;
        CHECK_OK(MPI_Pack_external("external32", &x, 1, MPI_LONG_DOUBLE, bytes, 16, &position));
        for (int k = 0; k < 16; k++)
            if (!CHECK_EQ(bytes[k], quad.bytes[15 - k])) return;
        for (int k = 0; k < 7; k++) bytes[15 - k] = (unsigned char) drawn(i, 4, k);
        for (int k = 0; k < 16; k++) low.bytes[k] = bytes[15 - k];
        union { long double value; unsigned char bytes[16]; } want = {.value = (long double) low.value}, got;
        position = 0;
        CHECK_OK(MPI_Unpack_external("external32", bytes, 16, &position, &got, 1, MPI_LONG_DOUBLE));
        if (!CHECK(memcmp(got.bytes, want.bytes, 10) == 0)) return;
    }
    long double special[] = {INFINITY, -INFINITY, NAN, 0.0L, -0.0L}, back[5];
    MPI_Aint position = 0;
    CHECK_OK(MPI_Pack_external("external32", special, 5, MPI_LONG_DOUBLE, bytes, sizeof bytes, &position));
    CHECK_EQ(position, 80);
    position = 0;
    CHECK_OK(MPI_Unpack_external("external32", bytes, 80, &position, back, 5, MPI_LONG_DOUBLE));
    CHECK(back[0] == INFINITY && back[1] == -INFINITY && isnan(back[2]) && !signbit(back[3]) && signbit(back[4]));
}

static void refused(void)
{
    int data[2] = {1, 2};
    MPI_Aint position = 0, room;
    MPI_Count large;
    check_where("what is refused");
    CHECK_CLASS(MPI_Pack_external("native", data, 1, MPI_INT, bytes, 8, &position), MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK_CLASS(MPI_Pack_external(NULL, data, 1, MPI_INT, bytes, 8, &position), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pack_external("external32", data, 3, MPI_INT, bytes, 8, &position), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Pack_external("external32", data, -1, MPI_INT, bytes, 8, &position), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Pack_external("external32", data, 1, MPI_DATATYPE_NULL, bytes, 8, &position), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Unpack_external("external", bytes, 8, &position, data, 1, MPI_INT), MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK_CLASS(MPI_Unpack_external("external32", bytes, 7, &position, data, 2, MPI_INT), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Pack_external_size("internal", 1, MPI_INT, &room), MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK_CLASS(MPI_Pack_external_size("external32", -1, MPI_INT, &room), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Pack_external_size("external32", 1, MPI_INT, NULL), MPI_ERR_ARG);
    CHECK_EQ(position, 0);
    CHECK_OK(MPI_Pack_external_size_c("external32", 6000000000, MPI_LONG, &large));
    CHECK_EQ(large, 24000000000);
    CHECK_CLASS(MPI_Pack_external_size_c("external32", INT64_MAX, MPI_LONG, &large), MPI_ERR_VALUE_TOO_LARGE);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    numbers();
    groups();
    long_doubles();
    refused();
    return check_end();
}
