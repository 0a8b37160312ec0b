// ranks: 1 2 4 7
// transports: all
// every day: ofi
/* Many nonblocking collectives on one communicator: three at a time waited for in reverse, 2^17
 * of them, so that internal numbers of 16 bits wrap twice; and all kinds mixed. */
#include "check.h"

enum { CALLS = 1 << 17 };

static void three_in_reverse(int rounds)
{
    int sums = size * (size - 1) / 2;
    check_where("%d rounds of three", rounds);
    for (int i = 0; i < rounds; i++) {
        int root = i % size, word = rank == root ? i : -1, mine = rank + i, sum = -1, high = -1;
        MPI_Request requests[3];
        CHECK_OK(MPI_Ibcast(&word, 1, MPI_INT, root, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
        CHECK_OK(MPI_Ireduce(&mine, &high, 1, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD, &requests[2]));
        for (int k = 2; k >= 0; k--) CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
        if (!CHECK_EQ(word, i) || !CHECK_EQ(sum, sums + size * i)) return;
        if (!CHECK_EQ(high, rank == root ? size - 1 + i : -1)) return;
    }
}

static void vectors_in_reverse(int rounds)
{
    int counts[64], displs[64], bytes[64];
    MPI_Datatype types[64];
    for (int r = 0; r < size; r++) {
        counts[r] = 1;
        displs[r] = r;
        bytes[r] = r * (int) sizeof(int);
        types[r] = MPI_INT;
    }
    check_where("%d rounds of v forms", rounds);
    for (int i = 0; i < rounds; i++) {
        int mine = i * 100 + rank, root = i % size, all[64], mixed[64], gathered[64], out[64], part = -1, ones[64];
        MPI_Request requests[4];
        for (int r = 0; r < size; r++) {
            out[r] = i * 1000 + rank * 10 + r;
            ones[r] = i;
        }
        CHECK_OK(MPI_Iallgatherv(&mine, 1, MPI_INT, all, counts, displs, MPI_INT, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Ialltoallw(out, counts, bytes, types, mixed, counts, bytes, types, MPI_COMM_WORLD, &requests[1]));
        CHECK_OK(MPI_Igatherv(&mine, 1, MPI_INT, gathered, counts, displs, MPI_INT, root, MPI_COMM_WORLD, &requests[2]));
        CHECK_OK(MPI_Ireduce_scatter(ones, &part, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]));
        for (int k = 3; k >= 0; k--) CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
        CHECK_EQ(part, i * size);
        for (int r = 0; r < size; r++) {
            if (!CHECK_EQ(all[r], i * 100 + r) || !CHECK_EQ(mixed[r], i * 1000 + r * 10 + rank)) return;
            if (rank == root && !CHECK_EQ(gathered[r], i * 100 + r)) return;
        }
    }
}

static void many_barriers(int calls)
{
    enum { AT_ONCE = 8 };
    MPI_Request requests[AT_ONCE];
    check_where("%d barriers", calls);
    for (int i = 0; i < calls; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[k]));
        for (int k = AT_ONCE - 1; k >= 0; k--) CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    /* More than 2^17 with few ranks; if ranks share processors, a part is enough. */
    int calls = scaled(size <= 2 ? CALLS : CALLS / 16);
    three_in_reverse(calls / 6);
    many_barriers(calls / 2);
    vectors_in_reverse(scaled(500));
    return check_end();
}
