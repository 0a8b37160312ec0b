// ranks: 1 2 4 7
// transports: all
/* MPI_MINLOC and MPI_MAXLOC on all pair types: equal values give the lowest index, and the
 * padding stays as it was. */
#include "check.h"

#include <stddef.h>

static const int values[] = {3, -2, 5, 5, -2, 0, 3, 7};

static int value_of(int who, int i) { return values[(who * 5 + i * 3) % 8]; }
static int index_of(int who, int i) { return (who * 7 + i) % 5; }

#define PAIRS(name, value_type, index_type, mpi_type) \
    static void name(void) \
    { \
        struct pair { value_type value; index_type index; }; \
        enum { N = 9 }; \
        for (int max = 0; max < 2; max++) { \
            struct pair mine[N], result[N], want[N]; \
            MPI_Op op = max ? MPI_MAXLOC : MPI_MINLOC; \
            memset(mine, 0x11, sizeof mine); \
            memset(result, 0x22, sizeof result); \
            memset(want, 0x22, sizeof want); \
            for (int i = 0; i < N; i++) { \
                mine[i].value = (value_type) value_of(rank, i); \
                mine[i].index = (index_type) index_of(rank, i); \
                want[i].value = (value_type) value_of(0, i); \
                want[i].index = (index_type) index_of(0, i); \
                for (int who = 1; who < size; who++) { \
                    value_type v = (value_type) value_of(who, i); \
                    index_type k = (index_type) index_of(who, i); \
                    int better = max ? v > want[i].value : v < want[i].value; \
                    if (better || (v == want[i].value && k < want[i].index)) { \
                        want[i].value = v; \
                        want[i].index = k; \
                    } \
                } \
            } \
            check_where("%s of %s", max ? "MPI_MAXLOC" : "MPI_MINLOC", #mpi_type); \
            CHECK_OK(MPI_Allreduce(mine, result, N, mpi_type, op, MPI_COMM_WORLD)); \
            for (int i = 0; i < N; i++) { \
                CHECK(result[i].value == want[i].value); \
                CHECK(result[i].index == want[i].index); \
                const unsigned char *at = (const unsigned char *) &result[i]; \
                size_t used = sizeof(value_type), end = offsetof(struct pair, index) + sizeof(index_type); \
                CHECK_EQ(bytes_differ(at, used, offsetof(struct pair, index), 0x22), -1); \
                CHECK_EQ(bytes_differ(at, end, sizeof(struct pair), 0x22), -1); \
            } \
            /* The same from the left to the right, in place, here. */ \
            struct pair left = {(value_type) 4, (index_type) 3}, right; \
            memset(&right, 0x33, sizeof right); \
            right.value = 4; \
            right.index = 2; \
            CHECK_OK(MPI_Reduce_local(&left, &right, 1, mpi_type, op)); \
            CHECK(right.value == 4 && right.index == 2); \
            left.index = 1; \
            CHECK_OK(MPI_Reduce_local_c(&left, &right, 1, mpi_type, op)); \
            CHECK(right.value == 4 && right.index == 1); \
            left.value = max ? 5 : 3; \
            left.index = 9; \
            CHECK_OK(MPI_Reduce_local(&left, &right, 1, mpi_type, op)); \
            CHECK(right.value == left.value && right.index == 9); \
            size_t end = offsetof(struct pair, index) + sizeof(index_type); \
            CHECK_EQ(bytes_differ(&right, end, sizeof right, 0x33), -1); \
        } \
    }

PAIRS(float_int, float, int, MPI_FLOAT_INT)
PAIRS(double_int, double, int, MPI_DOUBLE_INT)
PAIRS(long_int, long, int, MPI_LONG_INT)
PAIRS(two_int, int, int, MPI_2INT)
PAIRS(short_int, short, int, MPI_SHORT_INT)
PAIRS(long_double_int, long double, int, MPI_LONG_DOUBLE_INT)
PAIRS(two_real, float, float, MPI_2REAL)
PAIRS(two_double_precision, double, double, MPI_2DOUBLE_PRECISION)
PAIRS(two_integer, int, int, MPI_2INTEGER)

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    float_int();
    double_int();
    long_int();
    two_int();
    short_int();
    long_double_int();
    two_real();
    two_double_precision();
    two_integer();
    return check_end();
}
