// ranks: 1
// transports: one
/* Every predefined datatype: its size, extent and true extent compared with the compiler's; it
 * may not be freed. */
#include "check.h"

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

static void is(const char *name, MPI_Datatype type, size_t want_size, size_t want_extent, size_t want_true_extent)
{
    int small;
    MPI_Count size_c, size_x, lb, extent;
    MPI_Aint lower, bytes;
    check_where("%s", name);
    CHECK_OK(MPI_Type_size(type, &small));
    CHECK_OK(MPI_Type_size_c(type, &size_c));
    CHECK_OK(MPI_Type_size_x(type, &size_x));
    CHECK(small == (int) want_size && size_c == (MPI_Count) want_size && size_x == (MPI_Count) want_size);
    CHECK_OK(MPI_Type_get_extent(type, &lower, &bytes));
    CHECK_EQ(lower, 0);
    CHECK_EQ(bytes, want_extent);
    CHECK_OK(MPI_Type_get_extent_x(type, &lb, &extent));
    CHECK(lb == 0 && extent == (MPI_Count) want_extent);
    CHECK_OK(MPI_Type_get_true_extent(type, &lower, &bytes));
    CHECK_EQ(lower, 0);
    CHECK_EQ(bytes, want_true_extent);
    MPI_Datatype copy = type;
    CHECK_OK(MPI_Type_commit(&copy));
    CHECK_CLASS(MPI_Type_free(&copy), MPI_ERR_TYPE);
    CHECK(copy == type);
    unsigned char out[64], in[64];
    memset(out, 0xaa, sizeof out);
    memset(in, 0x55, sizeof in);
    CHECK_OK(MPI_Sendrecv(out, 2, type, 0, 0, in, 2, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    size_t received = 0;
    for (size_t i = 0; i < sizeof in; i++) received += in[i] == 0xaa;
    CHECK_EQ(received, 2 * want_size);
    CHECK_EQ(bytes_differ(in, want_extent + want_true_extent, sizeof in, 0x55), -1);
}

#define IS(type, c_type) is(#type, type, sizeof(c_type), sizeof(c_type), sizeof(c_type))
#define PAIR(type, value_type, index_type) \
    do { \
        struct pair { value_type v; index_type i; }; \
        is(#type, type, sizeof(value_type) + sizeof(index_type), sizeof(struct pair), offsetof(struct pair, i) + sizeof(index_type)); \
    } while (0)
#define BYTES(type, bytes) is(#type, type, bytes, bytes, bytes)

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    IS(MPI_AINT, MPI_Aint); IS(MPI_COUNT, MPI_Count); IS(MPI_OFFSET, MPI_Offset); IS(MPI_PACKED, char);
    IS(MPI_SHORT, short); IS(MPI_INT, int); IS(MPI_LONG, long); IS(MPI_LONG_LONG, long long); IS(MPI_LONG_LONG_INT, long long);
    IS(MPI_UNSIGNED_SHORT, unsigned short); IS(MPI_UNSIGNED, unsigned); IS(MPI_UNSIGNED_LONG, unsigned long);
    IS(MPI_UNSIGNED_LONG_LONG, unsigned long long); IS(MPI_FLOAT, float); IS(MPI_C_COMPLEX, float complex);
    IS(MPI_C_FLOAT_COMPLEX, float complex); IS(MPI_CXX_FLOAT_COMPLEX, float complex); IS(MPI_DOUBLE, double);
    IS(MPI_C_DOUBLE_COMPLEX, double complex); IS(MPI_CXX_DOUBLE_COMPLEX, double complex);
    BYTES(MPI_LOGICAL, 4); BYTES(MPI_INTEGER, 4); BYTES(MPI_REAL, 4); BYTES(MPI_COMPLEX, 8);
    BYTES(MPI_DOUBLE_PRECISION, 8); BYTES(MPI_DOUBLE_COMPLEX, 16); BYTES(MPI_CHARACTER, 1);
    IS(MPI_LONG_DOUBLE, long double); IS(MPI_C_LONG_DOUBLE_COMPLEX, long double complex);
    IS(MPI_CXX_LONG_DOUBLE_COMPLEX, long double complex);
    PAIR(MPI_FLOAT_INT, float, int); PAIR(MPI_DOUBLE_INT, double, int); PAIR(MPI_LONG_INT, long, int);
    PAIR(MPI_2INT, int, int); PAIR(MPI_SHORT_INT, short, int); PAIR(MPI_LONG_DOUBLE_INT, long double, int);
    PAIR(MPI_2REAL, float, float); PAIR(MPI_2DOUBLE_PRECISION, double, double); PAIR(MPI_2INTEGER, int, int);
    IS(MPI_C_BOOL, bool); IS(MPI_CXX_BOOL, bool); IS(MPI_WCHAR, wchar_t); IS(MPI_INT8_T, int8_t); IS(MPI_UINT8_T, uint8_t);
    IS(MPI_CHAR, char); IS(MPI_SIGNED_CHAR, signed char); IS(MPI_UNSIGNED_CHAR, unsigned char); IS(MPI_BYTE, char);
    IS(MPI_INT16_T, int16_t); IS(MPI_UINT16_T, uint16_t); IS(MPI_INT32_T, int32_t); IS(MPI_UINT32_T, uint32_t);
    IS(MPI_INT64_T, int64_t); IS(MPI_UINT64_T, uint64_t);
    BYTES(MPI_LOGICAL1, 1); BYTES(MPI_INTEGER1, 1); BYTES(MPI_LOGICAL2, 2); BYTES(MPI_INTEGER2, 2); BYTES(MPI_REAL2, 2);
    BYTES(MPI_LOGICAL4, 4); BYTES(MPI_INTEGER4, 4); BYTES(MPI_REAL4, 4); BYTES(MPI_COMPLEX4, 4); BYTES(MPI_LOGICAL8, 8);
    BYTES(MPI_INTEGER8, 8); BYTES(MPI_REAL8, 8); BYTES(MPI_COMPLEX8, 8); BYTES(MPI_LOGICAL16, 16); BYTES(MPI_INTEGER16, 16);
    BYTES(MPI_REAL16, 16); BYTES(MPI_COMPLEX16, 16); BYTES(MPI_COMPLEX32, 32);
    return check_end();
}
