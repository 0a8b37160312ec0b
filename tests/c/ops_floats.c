// ranks: 1 3
// transports: all
/* Arithmetic on numbers of 16 and 128 bits, for which the library has its own code, compared
 * with the compiler's, bit by bit. */
#include "check.h"

#include <math.h>

enum { N = 4000 };

typedef union { __float128 value; uint64_t words[2]; } quad;
typedef union { _Float16 value; uint16_t bits; } half;

static quad random_quad(unsigned a, unsigned b)
{
    static const uint64_t special[] = {0, 0x8000000000000000, 0x7fff000000000000, 0x0000ffffffffffff, 0x7ffeffffffffffff,
                                       0x3fff000000000000, 0x0001000000000000, 0xbffe000000000000};
    quad x;
    x.words[0] = (uint64_t) drawn(a, b, 1) << 40 ^ (uint64_t) drawn(a, b, 2) << 20 ^ drawn(a, b, 3);
    x.words[1] = (uint64_t) drawn(a, b, 4) << 48 ^ (uint64_t) drawn(a, b, 5) << 20 ^ drawn(a, b, 6);
    unsigned kind = drawn(a, b, 7) % 8;
    /* Exponents near each other, so that sums are not just the larger; few bits; the ends of the
     * range. */
    if (kind < 4) x.words[1] = (x.words[1] & 0x8000ffffffffffff) | (uint64_t) (0x3f80 + drawn(a, b, 8) % 256) << 48;
    if (kind == 4) x.words[1] = special[drawn(a, b, 9) % 8];
    if (kind == 4 || kind == 3) x.words[0] = drawn(a, b, 10) % 3 ? 0 : ~0ull;
    if (kind == 5) x.words[1] &= 0x8001ffffffffffff;
    return x;
}

static int same_quad(quad a, quad b)
{
    if (a.value != a.value || b.value != b.value) return a.value != a.value && b.value != b.value;
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

static void quads(void)
{
    static quad left[N], right[N], out[N];
    for (int i = 0; i < N; i++) {
        left[i] = random_quad(i, 1);
        right[i] = random_quad(i, 2);
    }
    for (int o = 0; o < 4; o++) {
        static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
        check_where("quads, operation %d", o);
        memcpy(out, right, sizeof out);
        CHECK_OK(MPI_Reduce_local(left, out, N, MPI_REAL16, ops[o]));
        for (int i = 0; i < N; i++) {
            __float128 a = left[i].value, b = right[i].value;
            quad want = {.value = o == 0 ? a + b : o == 1 ? a * b : o == 2 ? (a < b ? a : b) : (a > b ? a : b)};
            if (o >= 2 && (a != a || b != b)) continue;
            if (!check_report(same_quad(out[i], want), __FILE__, __LINE__,
                              "%016lx%016lx and %016lx%016lx give %016lx%016lx, not %016lx%016lx", (long) left[i].words[1],
                              (long) left[i].words[0], (long) right[i].words[1], (long) right[i].words[0],
                              (long) out[i].words[1], (long) out[i].words[0], (long) want.words[1], (long) want.words[0]))
                break;
        }
    }
    check_where("complex quads");
    __float128 a[2] = {3, -2}, b[2] = {0.5Q, 4};
    CHECK_OK(MPI_Reduce_local(a, b, 1, MPI_COMPLEX32, MPI_PROD));
    CHECK(b[0] == 9.5Q && b[1] == 11);
    CHECK_OK(MPI_Reduce_local(a, b, 1, MPI_COMPLEX32, MPI_SUM));
    CHECK(b[0] == 12.5Q && b[1] == 9);
}

static int same_half(half a, half b)
{
    float x = (float) a.value, y = (float) b.value;
    return isnan(x) || isnan(y) ? isnan(x) && isnan(y) : a.bits == b.bits;
}

static void halves(void)
{
    static half left[65536], right[65536], out[65536];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 65536; i++) {
            left[i].bits = (uint16_t) i;
            right[i].bits = (uint16_t) (round < 10 ? drawn(i, round, 1) : i + 131 * round * (i % 3 - 1));
        }
        for (int o = 0; o < 4; o++) {
            static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
            check_where("halves, round %d, operation %d", round, o);
            memcpy(out, right, sizeof out);
            CHECK_OK(MPI_Reduce_local(left, out, 65536, MPI_REAL2, ops[o]));
            for (int i = 0; i < 65536; i++) {
                _Float16 a = left[i].value, b = right[i].value;
                half want = {.value = o == 0 ? a + b : o == 1 ? a * b : o == 2 ? (a < b ? a : b) : (a > b ? a : b)};
                if (o >= 2 && (a != a || b != b)) continue;
                if (!check_report(same_half(out[i], want), __FILE__, __LINE__, "%04x and %04x give %04x, not %04x",
                                  left[i].bits, right[i].bits, out[i].bits, want.bits))
                    return;
            }
        }
    }
    check_where("complex halves");
    half a[2] = {{3}, {-2}}, b[2] = {{(_Float16) 0.5}, {4}};
    CHECK_OK(MPI_Reduce_local(a, b, 1, MPI_COMPLEX4, MPI_PROD));
    CHECK(b[0].value == (_Float16) 9.5 && b[1].value == 11);
}

static void together(void)
{
    quad mine[3] = {{rank + 1}, {-rank}, {0.25Q}}, sum[3];
    half small = {(_Float16) (rank + 0.5)}, most;
    check_where("together");
    CHECK_OK(MPI_Allreduce(mine, sum, 3, MPI_REAL16, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum[0].value == size * (size + 1) / 2 && sum[1].value == -size * (size - 1) / 2 && sum[2].value == size * 0.25Q);
    CHECK_OK(MPI_Allreduce(&small, &most, 1, MPI_REAL2, MPI_MAX, MPI_COMM_WORLD));
    CHECK(most.value == (_Float16) (size - 0.5));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    quads();
    halves();
    together();
    return check_end();
}
