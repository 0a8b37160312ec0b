/* One rank ends with a code of its own after MPI_Finalize: late MODE. Rank 1 exits with 3 at once, and the others
 *   wait:   wait for a message that nobody sends;
 *   own:    end with codes of their own, when they have done something more after MPI_Finalize;
 *   slow:   finalize a little later than it, and then go on for longer than others are given;
 *   go on:  take longer to finalize than others are given, and end well, if they may;
 *   ulfm:   wait as well, and are told that it has failed. */
#include <mpi.h>
#include <mpi-ext.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int rank, code = 0, nothing;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Finalize();
        exit(3);
    }
    if (!strcmp(mode, "wait")) MPI_Recv(&nothing, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(mode, "ulfm")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        code = MPI_Recv(&nothing, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &code);
        if (code != MPIX_ERR_PROC_FAILED) MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (!strcmp(mode, "slow")) usleep(300000);
    if (!strcmp(mode, "go on")) sleep(3);
    MPI_Finalize();
    if (!strcmp(mode, "own") || !strcmp(mode, "slow")) sleep(3);
    printf("rank %d is done\n", rank);
    return !strcmp(mode, "own") ? 10 + rank : 0;
}
