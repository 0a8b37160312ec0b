/* All ranks wait at the place in the first argument, so that one of them, or the whole job, can
 * be killed there. Each first prints "rank RANK PID". */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 64 << 20 };

static int rank, size;

static void say(void)
{
    printf("rank %d %d\n", rank, (int) getpid());
    fflush(stdout);
}

static void transfer(void)
{
    char *out = calloc(LONG, 1), *in = calloc(LONG, 1);
    for (long i = 0;; i++) {
        MPI_Sendrecv(out, LONG, MPI_BYTE, (rank + 1) % size, 0, in, LONG, MPI_BYTE, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (i == 0) say();
    }
}

static void pairs(void)
{
    char *buffer = calloc(LONG, 1);
    for (long i = 0;; i++) {
        if (i == 1) say();
        if (rank % 2 == 0)
            MPI_Send(buffer, LONG, MPI_BYTE, rank + 1, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(buffer, LONG, MPI_BYTE, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void compute(void)
{
    volatile unsigned long steps = 0;
    say();
    for (;;) steps++;
}

/* Rank 0 and each other rank exchange a message: for the first contact a rank sends the launcher
 * a request and sleeps until the answer. */
static void meet(void)
{
    for (int peer = rank ? 0 : 1; peer < (rank ? 1 : size); peer++)
        MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, 1, NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    const char *where = argv[1];
    static char buffer[1 << 20];
    if (!strcmp(where, "before")) {
        const char *number = getenv("OXMPI_COMM_WORLD_RANK");
        rank = number ? atoi(number) : 0;
        say();
        for (;;) pause();
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(where, "transfer")) transfer();
    if (!strcmp(where, "pairs")) pairs();
    if (!strcmp(where, "compute")) compute();
    if (!strcmp(where, "stubborn")) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        compute();
    }
    if (!strcmp(where, "finalize")) meet();
    say();
    if (!strcmp(where, "recv"))
        MPI_Recv(buffer, sizeof buffer, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!strcmp(where, "send")) /* no rank receives */
        MPI_Send(buffer, sizeof buffer, MPI_BYTE, (rank + 1) % size, 0, MPI_COMM_WORLD);
    if (!strcmp(where, "barrier")) { /* the last rank does not call it */
        if (rank == size - 1) MPI_Recv(buffer, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (!strcmp(where, "finalize")) { /* a message without a receive is still queued */
        MPI_Request request;
        if (rank == 0) MPI_Recv(buffer, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Isend(buffer, sizeof buffer, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        MPI_Finalize();
    }
    if (!strcmp(where, "after")) {
        MPI_Finalize();
        for (;;) pause();
    }
    return 0;
}
