// ranks: 1 2 3 4 7
// transports: all
// every day: usysv sysv tcp-encrypted nodes lamd ofi
/* Barrier, Bcast, Reduce, Allreduce, Gather and Allgather: every root, short and long, with and
 * without MPI_IN_PLACE. */
#include "check.h"

enum { LARGEST = 5000 };

static const int counts[] = {0, 1, 2, 3, 5, 8, 16, 17, 63, 64, 100, 255, 256, 1000, 2047, 2048, 2049, 4097, LARGEST};
enum { COUNTS = sizeof counts / sizeof counts[0] };

static int value(int whose, int i) { return (whose + 1) * 131 + i * 7; }

/* The sum, the product modulo 2^32, the smallest and the largest over all ranks of value(whose,
 * i). */
static int sum_at(int i)
{
    return 131 * (size * (size + 1) / 2) + size * i * 7;
}

static unsigned product_at(int i)
{
    unsigned product = 1;
    for (int r = 0; r < size; r++) product *= (unsigned) value(r, i);
    return product;
}

static int all_are(const int *buffer, int count, int want)
{
    for (int i = 0; i < count; i++)
        if (buffer[i] != want) return 0;
    return 1;
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* one clock for all processes of a machine */
    return now.tv_sec * (int64_t) 1000000000 + now.tv_nsec;
}

static void barrier(void)
{
    for (int i = 0; i < scaled(60); i++) {
        check_where("Barrier %d", i);
        if (rank == i % size && i < 16) pause_ms(4);
        int64_t entered = nanoseconds(), last = 0;
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        int64_t left = nanoseconds();
        CHECK_OK(MPI_Allreduce(&entered, &last, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD));
        CHECK(left >= last);
    }
}

static void bcast(int count)
{
    int *buffer = allocate((count + 1) * sizeof *buffer);
    for (int root = 0; root < size; root++) {
        check_where("Bcast of %d from %d", count, root);
        for (int i = 0; i < count; i++) buffer[i] = rank == root ? value(root, i) : -5;
        buffer[count] = -9;
        CHECK_OK(MPI_Bcast(buffer, count, MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            if (!CHECK_EQ(buffer[i], value(root, i))) break;
        CHECK_EQ(buffer[count], -9);
    }
    free(buffer);
}

static void reduce(int count)
{
    int *out = allocate((count + 1) * sizeof *out), *in = allocate((count + 1) * sizeof *in);
    MPI_Op ops[4] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX};
    for (int root = 0; root < size; root++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int k = 0; k < 4; k++) {
                check_where("Reduce of %d to %d, op %d%s", count, root, k, in_place ? ", in place" : "");
                for (int i = 0; i <= count; i++) {
                    out[i] = value(rank, i);
                    in[i] = in_place ? out[i] : -5;
                }
                const void *from = in_place && rank == root ? MPI_IN_PLACE : (void *) out;
                CHECK_OK(MPI_Reduce(from, rank == root ? in : NULL, count, MPI_INT, ops[k], root, MPI_COMM_WORLD));
                for (int i = 0; i < count && rank == root; i++) {
                    int want = k == 0 ? sum_at(i) : k == 1 ? (int) product_at(i) : k == 2 ? value(0, i) : value(size - 1, i);
                    if (!CHECK_EQ(in[i], want)) break;
                }
                if (rank == root) CHECK_EQ(in[count], in_place ? value(rank, count) : -5);
                for (int i = 0; i <= count; i++)
                    if (!CHECK_EQ(out[i], value(rank, i))) break;
            }
    free(out);
    free(in);
}

static void allreduce(int count)
{
    double *out = allocate((count + 1) * sizeof *out), *in = allocate((count + 1) * sizeof *in);
    for (int in_place = 0; in_place < 2; in_place++) {
        check_where("Allreduce of %d doubles%s", count, in_place ? ", in place" : "");
        for (int i = 0; i <= count; i++) {
            out[i] = value(rank, i) / 4.0; /* exact in binary: every order gives the same sum */
            in[i] = in_place ? out[i] : -5;
        }
        CHECK_OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : (void *) out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            if (!CHECK(in[i] == sum_at(i) / 4.0)) break;
        CHECK(in[count] == (in_place ? out[count] : -5));
    }
    free(out);
    free(in);

    unsigned char *small = allocate(count + 1), *all = allocate(count + 1);
    check_where("Allreduce of %d bytes", count);
    for (int i = 0; i < count; i++) small[i] = (unsigned char) (1 << ((rank + i) % 8));
    CHECK_OK(MPI_Allreduce(small, all, count, MPI_UNSIGNED_CHAR, MPI_BOR, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) {
        int want = 0;
        for (int r = 0; r < size; r++) want |= 1 << ((r + i) % 8);
        if (!CHECK_EQ(all[i], want)) break;
    }
    free(small);
    free(all);

    int64_t *longs = allocate((count + 1) * sizeof *longs);
    check_where("Allreduce of %d 64-bit integers", count);
    for (int i = 0; i < count; i++) longs[i] = (int64_t) value(rank, i) << 33;
    CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, longs, count, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++)
        if (!CHECK_EQ(longs[i], (int64_t) value(size - 1, i) << 33)) break;
    free(longs);
}

static void gather(int count)
{
    int *out = allocate((count + 1) * sizeof *out), *in = allocate(((size_t) count * size + 1) * sizeof *in);
    for (int i = 0; i < count; i++) out[i] = value(rank, i);
    for (int root = 0; root < size; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            check_where("Gather of %d to %d%s", count, root, in_place ? ", in place" : "");
            for (int i = 0; i <= count * size; i++) in[i] = -5;
            if (rank == root && in_place) memcpy(in + (size_t) count * rank, out, count * sizeof *in);
            const void *from = in_place && rank == root ? MPI_IN_PLACE : (void *) out;
            if (rank == root) {
                CHECK_OK(MPI_Gather(from, count, MPI_INT, in, count, MPI_INT, root, MPI_COMM_WORLD));
            } else { /* other ranks may give anything in root-only arguments */
                CHECK_OK(MPI_Gather(from, count, MPI_INT, NULL, -77, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD));
                CHECK(all_are(in, count * size, -5));
                continue;
            }
            for (int r = 0; r < size; r++)
                for (int i = 0; i < count; i++)
                    if (!CHECK_EQ(in[r * count + i], value(r, i))) r = size, i = count;
            CHECK_EQ(in[count * size], -5);
        }
    free(out);
    free(in);
}

static void allgather(int count)
{
    int *out = allocate((count + 1) * sizeof *out), *in = allocate(((size_t) count * size + 1) * sizeof *in);
    for (int i = 0; i < count; i++) out[i] = value(rank, i);
    for (int in_place = 0; in_place < 2; in_place++) {
        check_where("Allgather of %d%s", count, in_place ? ", in place" : "");
        for (int i = 0; i <= count * size; i++) in[i] = -5;
        if (in_place) {
            memcpy(in + (size_t) count * rank, out, count * sizeof *in);
            CHECK_OK(MPI_Allgather(MPI_IN_PLACE, -77, MPI_DATATYPE_NULL, in, count, MPI_INT, MPI_COMM_WORLD));
        } else {
            CHECK_OK(MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD));
        }
        for (int r = 0; r < size; r++)
            for (int i = 0; i < count; i++)
                if (!CHECK_EQ(in[r * count + i], value(r, i))) r = size, i = count;
        CHECK_EQ(in[count * size], -5);
    }
    free(out);
    free(in);
}

static void back_to_back(void)
{
    check_where("back to back");
    for (int i = 0; i < scaled(200); i++) {
        int root = i % size, word = rank == root ? i : -1, sum = -1, least = -1;
        CHECK_OK(MPI_Bcast(&word, 1, MPI_INT, root, MPI_COMM_WORLD));
        CHECK_EQ(word, i);
        int mine = rank + i;
        CHECK_OK(MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
        if (rank == root) CHECK_EQ(sum, size * (size - 1) / 2 + size * i);
        if (rank == i % 3) pause_ms(i % 20 == 0);
        CHECK_OK(MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        CHECK_EQ(least, i);
    }
}

static void same_everywhere(void)
{
    check_where("same bits everywhere");
    for (int n = 1; n <= 3000; n = n * 5 + 1) {
        double *out = allocate(n * sizeof *out), *in = allocate(n * sizeof *in), *all = allocate((size_t) n * size * sizeof *all);
        for (int i = 0; i < n; i++) out[i] = 1.0 / (3 + rank * 17 + i);
        CHECK_OK(MPI_Allreduce(out, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        CHECK_OK(MPI_Allgather(in, n, MPI_DOUBLE, all, n, MPI_DOUBLE, MPI_COMM_WORLD));
        for (int r = 0; r < size; r++) CHECK(memcmp(all + (size_t) r * n, in, n * sizeof *in) == 0);
        free(out);
        free(in);
        free(all);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    barrier();
    int step = scaled(100) == 100 ? 1 : 6;
    for (int k = 0; k < COUNTS; k += step) {
        bcast(counts[k]);
        reduce(counts[k]);
        allreduce(counts[k]);
        gather(counts[k]);
        allgather(counts[k]);
    }
    bcast(100000);
    allreduce(60000);
    back_to_back();
    same_everywhere();
    return check_end();
}
