// ranks: 2 3
// transports: all
/* A rank that is ahead in short collectives does not overwrite the data of a long allreduce that
 * another still reads. */
#include "check.h"

enum { LONGEST = 200000, SHORT = 100, AFTER = 8, ROUNDS = 200 };

static unsigned char given[LONGEST], got[LONGEST], all[3 * SHORT], part[SHORT];

static unsigned char byte_of(int r, int i, int round) { return (unsigned char) (i * 7 + r * 31 + round * 5 + i / 256); }

int main(int argc, char **argv)
{
    static const int lengths[] = {65537, 98304, 131072, LONGEST};
    check_begin(&argc, &argv);
    for (int round = 0; round < ROUNDS; round++) {
        int len = lengths[round % 4], root = round % size, wrong = 0;
        for (int i = 0; i < len; i++) given[i] = byte_of(rank, i, round);
        CHECK_OK(MPI_Allreduce(given, got, len, MPI_UNSIGNED_CHAR, MPI_BXOR, MPI_COMM_WORLD));
        for (int n = 0; n < AFTER; n++) {
            for (int i = 0; rank == root && i < size * SHORT; i++) all[i] = (unsigned char) (255 - n - i);
            CHECK_OK(MPI_Scatter(all, SHORT, MPI_UNSIGNED_CHAR, part, SHORT, MPI_UNSIGNED_CHAR, root, MPI_COMM_WORLD));
            for (int i = 0; i < SHORT; i++) wrong += part[i] != (unsigned char) (255 - n - rank * SHORT - i);
        }
        for (int i = 0; i < len; i++) {
            unsigned char wanted = 0;
            for (int r = 0; r < size; r++) wanted ^= byte_of(r, i, round);
            wrong += got[i] != wanted;
        }
        CHECK_EQ(wrong, 0);
    }
    return check_end();
}
