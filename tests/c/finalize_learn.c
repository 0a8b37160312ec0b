// ranks: 1 2 4 7
// transports: all
/* MPI_Finalize right after a first message on each of several new communicators: the late
 * exchange of information about communicators does not delay the end. */
#include "check.h"

enum { COMMS = 3 };

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS];
    check_begin(&argc, &argv);
    for (int k = 0; k < COMMS; k++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]));
    int total = check_total();
    for (int k = 0; k < COMMS; k++) {
        int word = 100 + k;
        if (rank == 0) {
            for (int r = 1; r < size; r++) CHECK_OK(MPI_Send(&word, 1, MPI_INT, r, k, comms[k]));
        } else {
            word = -1;
            CHECK_OK(MPI_Recv(&word, 1, MPI_INT, 0, k, comms[k], MPI_STATUS_IGNORE));
            CHECK_EQ(word, 100 + k);
        }
    }
    /* Nothing between the messages and the end, not even the common verdict: each rank has its
     * own exit code. */
    MPI_Finalize();
    if (rank == 0) printf(total == 0 && check_failures == 0 ? "ok\n" : "%d failures\n", total + check_failures);
    return total != 0 || check_failures != 0;
}
