// ranks: 3 4 7 8
// transports: near
/* Blocks that are together longer than a segment of the message pool, among collectives of one
 * segment each: with more ranks than processors such blocks take several segments at a time.
 * Pairs exchange messages meanwhile. */
#include "check.h"

enum { MOST = 200000 };

static unsigned char *out, *in;

static unsigned char expected(int from, int to, int at, int round)
{
    return (unsigned char)(from * 31 + to * 7 + at * 3 + at / 251 + round);
}

static void exchange(int bytes, int round)
{
    for (int to = 0; to < size; to++)
        for (int at = 0; at < bytes; at++)
            out[(size_t)to * bytes + at] = expected(rank, to, at, round);
    MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
    int wrong = 0;
    for (int from = 0; from < size; from++)
        for (int at = 0; at < bytes; at++)
            wrong += in[(size_t)from * bytes + at] != expected(from, rank, at, round);
    CHECK(wrong == 0);
}

static void combine(int doubles)
{
    double *given = (double *)out, *result = (double *)in;
    for (int i = 0; i < size * doubles; i++)
        given[i] = rank + i;
    MPI_Reduce_scatter_block(given, result, doubles, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int wrong = 0;
    for (int i = 0; i < doubles; i++)
        wrong += result[i] != size * (size - 1) / 2.0 + (double)size * (rank * doubles + i);
    CHECK(wrong == 0);
}

static void collect(int bytes, int root)
{
    for (int at = 0; at < bytes; at++)
        out[at] = expected(rank, root, at, 1);
    MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    int wrong = 0;
    for (int from = 0; rank == root && from < size; from++)
        for (int at = 0; at < bytes; at++)
            wrong += in[(size_t)from * bytes + at] != expected(from, root, at, 1);
    CHECK(wrong == 0);
}

static void talk(int rounds)
{
    int partner = rank ^ 1;
    for (int i = 0; i < rounds && partner < size; i++) {
        int given = rank * 1000 + i, taken = -1;
        if (rank < partner)
            MPI_Send(&given, 1, MPI_INT, partner, 1, MPI_COMM_WORLD);
        MPI_Recv(&taken, 1, MPI_INT, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank > partner)
            MPI_Send(&given, 1, MPI_INT, partner, 1, MPI_COMM_WORLD);
        CHECK(taken == partner * 1000 + i);
    }
}

int main(int argc, char **argv)
{
    static const int lengths[] = {8, 70000, 65536, 9000, 24, 32768, MOST, 100, 65528};
    check_begin(&argc, &argv);
    out = malloc((size_t)size * MOST);
    in = malloc((size_t)size * MOST);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
            exchange(lengths[i], round);
            for (int n = 0; n < (round + i) % 5; n++)
                MPI_Barrier(MPI_COMM_WORLD);
            collect(lengths[(i + 2) % 9], i % size);
            exchange(lengths[(i + 1) % 9], round + 1);
            combine(lengths[i] / 8);
            talk(20);
        }
    free(out);
    free(in);
    return check_end();
}
