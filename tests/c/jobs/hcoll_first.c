/* The first collective of a communicator is nonblocking, and the last rank is late: the calls of
 * the others return before. On two communicators at once, in another order at each rank; and on
 * one with another order of ranks than the job. */
#include "../check.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm comms[2], turned;
    MPI_Request requests[2];
    int one = 1, sums[2] = {0, 0}, first = rank % 2;
    for (int c = 0; c < 2; c++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
    if (rank == size - 1) usleep(1000000);
    double start = MPI_Wtime();
    for (int c = 0; c < 2; c++) {
        int at = c ^ first;
        CHECK_OK(MPI_Iallreduce(&one, &sums[at], 1, MPI_INT, MPI_SUM, comms[at], &requests[at]));
    }
    if (rank != size - 1) CHECK(MPI_Wtime() - start < 0.7);
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK(sums[0] == size && sums[1] == size);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned));
    for (int i = 0; i < 3; i++) {
        int all[8], turn = size - 1 - rank;
        CHECK_OK(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, turned));
        for (int r = 0; r < size; r++) CHECK_EQ(all[r], size - 1 - r);
        CHECK_OK(MPI_Allreduce(&turn, &sums[0], 1, MPI_INT, MPI_MAX, comms[i % 2]));
        CHECK_EQ(sums[0], size - 1);
    }
    for (int c = 0; c < 2; c++) CHECK_OK(MPI_Comm_free(&comms[c]));
    CHECK_OK(MPI_Comm_free(&turned));
    return check_end();
}
