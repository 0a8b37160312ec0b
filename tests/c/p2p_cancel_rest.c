// ranks: 2 4
// transports: all
// every day: shm-single-copy usysv sysv
// not over: gm, because over sockets a sender learns only of the receiver's end
// not over: lamd, because between nodes a sender learns only of the receiver's end
// not over: nodes, because between nodes a sender learns only of the receiver's end
// not over: ofi, because between nodes a sender learns only of the receiver's end
/* MPI_Cancel of sends to a process that has called MPI_Finalize and does not end before they
 * have come back, with shared memory. The even ranks send to the next one; received messages are
 * not cancelled. */
#include "check.h"

enum { LONG = 1 << 20, MANY = 2000, PATIENCE_MS = 30000 };

static char *data;

static void cancel(MPI_Request *requests, int count, int one_by_one)
{
    for (int i = 0; i < count; i++) {
        if (!one_by_one) CHECK_OK(MPI_Cancel(&requests[i]));
    }
    for (int i = 0; i < count; i++) {
        MPI_Status status;
        int flag = -1;
        if (one_by_one) CHECK_OK(MPI_Cancel(&requests[i]));
        CHECK_OK(MPI_Wait(&requests[i], &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK_EQ(flag, 1);
    }
}

static void send(int peer, int many)
{
    static MPI_Request requests[MANY];
    static const int lengths[] = {8, 300, 5000, 10000, LONG};
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        for (int i = 0; i < 5; i++) {
            check_where("%d bytes, one by one %d", lengths[i], one_by_one);
            CHECK_OK(MPI_Issend(data, lengths[i], MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[0]));
            cancel(requests, 1, one_by_one);
        }
        check_where("many, one by one %d", one_by_one);
        for (int i = 0; i < many; i++)
            CHECK_OK(MPI_Issend(data, lengths[i % 4], MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[i]));
        cancel(requests, many, one_by_one);
    }
}

int main(int argc, char **argv)
{
    char path[256] = "";
    int token = 0, flag = -1;
    MPI_Request received;
    MPI_Status status;
    check_begin(&argc, &argv);
    int peer = rank ^ 1;
    const char *rpi = getenv("OXMPI_MCA_rpi");
    int shares = !rpi || !strstr(rpi, "tcp");
    data = allocate(LONG);
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/p2p_cancel_rest.%d.%d", dir ? dir : "/tmp", (int) getpid(), rank);
    /* Both have connected over the transport; a file will show the end. */
    for (int i = 0; i < 10; i++)
        CHECK_OK(MPI_Sendrecv_replace(&token, 1, MPI_INT, peer, 0, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (rank % 2) {
        CHECK_OK(MPI_Recv(path, sizeof path, MPI_CHAR, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Recv(data, 8, MPI_CHAR, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_Finalize();
        /* Over sockets the sender learns only of the end of the receiver. */
        for (int ms = 0; shares && access(path, F_OK) != 0; ms++) {
            if (ms == PATIENCE_MS) return 1;
            pause_ms(1);
        }
        if (shares) unlink(path);
        return check_failures != 0;
    }
    CHECK_OK(MPI_Send(path, sizeof path, MPI_CHAR, peer, 0, MPI_COMM_WORLD));
    /* It is matched before the receiver ends, which then answers no cancel. */
    CHECK_OK(MPI_Issend(data, 8, MPI_CHAR, peer, 2, MPI_COMM_WORLD, &received));
    pause_ms(50);
    send(peer, scaled(MANY));
    CHECK_OK(MPI_Cancel(&received));
    CHECK_OK(MPI_Wait(&received, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_EQ(flag, 0);
    free(data);
    FILE *end = shares ? fopen(path, "w") : NULL;
    CHECK(end != NULL || !shares);
    if (end) fclose(end);
    if (rank == 0 && check_failures == 0) printf("ok\n");
    fflush(stdout);
    MPI_Finalize();
    return check_failures != 0;
}
