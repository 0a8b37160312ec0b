/* long_death ROLE: rank 1 fails while long messages move between it and rank 0: as their
 * receiver (0), their sender (1), or both (2). The call of rank 0 fails, and afterwards ranks 0
 * and 2, if there is one, still exchange long messages. */
#include "../check.h"
#include <mpi-ext.h>
#include <sys/time.h>

enum { BYTES = 24 << 20, TAG = 3 };

static void die(int signal)
{
    (void) signal;
    raise(SIGKILL);
}

static int move(int sends, int receives, int peer, void *out, void *in)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int error = MPI_SUCCESS;
    if (receives) error = MPI_Irecv(in, BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[0]);
    if (sends && error == MPI_SUCCESS) error = MPI_Isend(out, BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[1]);
    int waited = MPI_Waitall(2, requests, statuses);
    if (error != MPI_SUCCESS || waited == MPI_SUCCESS) return error;
    for (int i = 0; i < 2; i++)
        if (waited == MPI_ERR_IN_STATUS && statuses[i].MPI_ERROR != MPI_SUCCESS) return statuses[i].MPI_ERROR;
    return waited;
}

int main(int argc, char **argv)
{
    int role = argc > 1 ? atoi(argv[1]) : 0, error = MPI_SUCCESS;
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
    pattern_fill(out, BYTES, 1);
    if (rank == 1) {
        struct itimerval soon = {{0, 0}, {0, 30000}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &soon, NULL);
        for (;;) move(role > 0, role != 1, 0, out, in);
    }
    if (rank == 0) {
        while (error == MPI_SUCCESS) error = move(role != 1, role > 0, 1, out, in);
        CHECK_CLASS(error, MPIX_ERR_PROC_FAILED);
    }
    for (int i = 0; i < 3 && size > 2; i++) {
        memset(in, 0, BYTES);
        CHECK_OK(move(1, 1, 2 - rank, out, in));
        CHECK_EQ(pattern_differs(in, BYTES, 1), -1);
    }
    printf(check_failures ? "%d failures\n" : "whole\n", check_failures);
    fflush(stdout);
    MPI_Finalize();
    return check_failures != 0;
}
