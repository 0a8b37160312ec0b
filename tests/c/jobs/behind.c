/* A rank that is behind: behind FILE. Rank 0 sends rank 1 messages of 64 KiB, and then one of 200 KiB, while that one is outside MPI;
 * it receives them in the opposite order. FILE tells rank 1 that all are under way. Says how many waited to be asked for: "asked for N" */
#include <mpi.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MESSAGES = 5, BYTES = 64 << 10, LONGER = 200 << 10, PATIENCE_S = 60 };

static unsigned char of(int message, int at) { return (unsigned char) (message * 37 + at * 11 + at / 256); }

static void must(int right, const char *what)
{
    if (right) return;
    printf("wrong: %s\n", what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void send_all(const char *file)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    MPI_Request requests[MESSAGES];
    int level, index, count;
    unsigned long long before, after;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &level);
    MPI_T_pvar_session_create(&session);
    must(MPI_T_pvar_get_index("rendezvous_messages_sent", MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS, "no such variable");
    must(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1, "no handle");
    MPI_T_pvar_start(session, handle);
    must(MPI_T_pvar_read(session, handle, &before) == MPI_SUCCESS, "not read");
    unsigned char *data = malloc(MESSAGES * LONGER);
    for (int n = 0; n < MESSAGES; n++) {
        int bytes = n == MESSAGES - 1 ? LONGER : BYTES;
        for (int at = 0; at < bytes; at++) data[n * LONGER + at] = of(n, at);
        MPI_Isend(data + n * LONGER, bytes, MPI_BYTE, 1, n, MPI_COMM_WORLD, &requests[n]);
    }
    must(MPI_T_pvar_read(session, handle, &after) == MPI_SUCCESS, "not read");
    close(open(file, O_CREAT | O_WRONLY, 0600));
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    printf("asked for %llu\n", after - before);
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    free(data);
}

static void receive_all(const char *file)
{
    for (int s = 0; access(file, F_OK) != 0; s++) {
        must(s < PATIENCE_S * 100, "rank 0 does not come");
        usleep(10000);
    }
    unsigned char *data = malloc(LONGER);
    for (int n = MESSAGES - 1; n >= 0; n--) {
        MPI_Status status;
        int got;
        MPI_Recv(data, LONGER, MPI_BYTE, 0, n, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        must(got == (n == MESSAGES - 1 ? LONGER : BYTES), "length");
        for (int at = 0; at < got; at++) must(data[at] == of(n, at), "data");
    }
    free(data);
}

int main(int argc, char **argv)
{
    int rank, word = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* So that each has a ring for the other. */
    for (int i = 0; i < 8; i++)
        MPI_Sendrecv_replace(&word, 1, MPI_INT, 1 - rank, 0, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) send_all(argv[1]);
    else receive_all(argv[1]);
    MPI_Finalize();
    return 0;
}
