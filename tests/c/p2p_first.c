// ranks: 2 4
// transports: all
// every day: usysv sysv tcp-encrypted lamd ofi
/* The first messages between any two ranks: MPI_Send of a few thousand bytes returns before the
 * receive, as programs expect that first send to each other. */
#include "check.h"

enum { MOST = 4000 };

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    static char out[MOST], in[MOST];
    /* The longest comes first, before the ranks have any information of each other. */
    static const int lengths[] = {MOST, 441, 440, 2048, 1, 0, 1000};
    for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
        int length = lengths[at];
        check_where("%d bytes", length);
        for (int i = 0; i < length; i++) out[i] = (char) (i * 7 + rank + length);
        for (int to = 0; to < size; to++)
            if (to != rank) CHECK_OK(MPI_Send(out, length, MPI_CHAR, to, (int) at, MPI_COMM_WORLD));
        for (int from = 0; from < size; from++) {
            if (from == rank) continue;
            MPI_Status status;
            int count, wrong = 0;
            memset(in, 0, sizeof in);
            CHECK_OK(MPI_Recv(in, MOST, MPI_CHAR, from, (int) at, MPI_COMM_WORLD, &status));
            CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &count));
            CHECK_EQ(count, length);
            for (int i = 0; i < length; i++) wrong += in[i] != (char) (i * 7 + from + length);
            CHECK_EQ(wrong, 0);
        }
    }
    return check_end();
}
