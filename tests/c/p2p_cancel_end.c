// ranks: 2 4
// transports: all
// every day: shm-single-copy usysv sysv lamd
// not over: ofi, because a provider that matches messages takes no send back
/* MPI_Cancel of sends whose receiver calls MPI_Finalize and never receives (MPI-5.0, "Finalizing
 * MPI", has such a program): messages arrive before that call, and after it. The even ranks send
 * to the next one. */
#include "check.h"

enum { LONG = 1 << 20, FEW_MS = 100 };

static void cancel(MPI_Request *requests, int count)
{
    MPI_Status statuses[2];
    for (int i = 0; i < count; i++) CHECK_OK(MPI_Cancel(&requests[i]));
    CHECK_OK(MPI_Waitall(count, requests, statuses));
    for (int i = 0; i < count; i++) {
        int flag = -1;
        CHECK_OK(MPI_Test_cancelled(&statuses[i], &flag));
        CHECK_EQ(flag, 1);
    }
}

int main(int argc, char **argv)
{
    int token = 0;
    check_begin(&argc, &argv);
    int leaves = rank % 2, peer = rank ^ 1;
    /* Both have connected over the transport. */
    for (int i = 0; i < 10; i++)
        CHECK_OK(MPI_Sendrecv_replace(&token, 1, MPI_INT, peer, 0, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (leaves) {
        /* One ends at once; the other drops messages that have arrived before it ends. */
        if (rank == 3) pause_ms(FEW_MS);
        MPI_Finalize();
        return check_failures != 0;
    }
    char *data = allocate(LONG);
    MPI_Request requests[2];
    for (int late = 0; late < 2; late++) {
        check_where("late %d", late);
        CHECK_OK(MPI_Issend(data, 8, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Issend(data, LONG, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[1]));
        if (rank == 0) pause_ms(FEW_MS);
        cancel(requests, 2);
    }
    free(data);
    if (rank == 0 && check_failures == 0) printf("ok\n");
    fflush(stdout);
    MPI_Finalize();
    return check_failures != 0;
}
