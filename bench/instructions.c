/* Repeats one call, whose instructions callgrind counts: mpirun -n 2 instructions CALL COMM TIMES.
 *
 * CALL is a name of the table below, COMM `world` or `dup`. Rank 0 makes the calls. Preparations,
 * and all calls of rank 1, have other names (MPI_Recv_c for MPI_Recv), so that on rank 0
 *
 *     valgrind --tool=callgrind --toggle-collect=PMPI_Recv ./instructions recv world 1000
 *
 * counts the calls alone (callgrind shows the second name of a function). The difference between
 * two runs, of 1000 and 2000 calls, is the cost of 1000 warm calls. The ranks wait for each
 * other in shared memory outside MPI, so that the queues have a known state. */
#include "ranks.h"

#include <sched.h>
#include <string.h>

static MPI_Comm comm = MPI_COMM_WORLD;
static char data[1 << 10];
static int bytes = 8;
static uint64_t turn;

/* Waits outside of MPI for the other rank: in MPI a rank could sleep, and the peer would need
 * further instructions to wake it. */
static void meet(void)
{
    turn++;
    set(rank ? &lines->back : &lines->there, turn);
    while (atomic_load_explicit(rank ? &lines->there : &lines->back, memory_order_acquire) < turn)
        sched_yield();
}

static void give(int tag)
{
    MPI_Send_c(data, bytes, MPI_BYTE, 1 - rank, tag, comm);
}

static void take(int tag)
{
    MPI_Recv_c(data, bytes, MPI_BYTE, 1 - rank, tag, comm, IGNORE);
}

static void wait_for(MPI_Request *request)
{
    MPI_Waitall(1, request, MPI_STATUSES_IGNORE);
}

static void send(void)
{
    if (rank == 0)
        MPI_Send(data, bytes, MPI_BYTE, 1, 1, comm);
    meet();
    if (rank == 1)
        take(1);
    meet();
}

static void isend(void)
{
    MPI_Request request;
    if (rank == 0) {
        MPI_Isend(data, bytes, MPI_BYTE, 1, 1, comm, &request);
        MPI_Wait(&request, IGNORE);
    }
    meet();
    if (rank == 1)
        take(1);
    meet();
}

/* The message arrives after the call. */
static void irecv(void)
{
    MPI_Request request;
    if (rank == 0)
        MPI_Irecv(data, bytes, MPI_BYTE, 1, 1, comm, &request);
    meet();
    if (rank == 1)
        give(1);
    meet();
    if (rank == 0)
        wait_for(&request);
    meet();
}

static void there(int source, int tag, int probes)
{
    MPI_Request request;
    MPI_Message message;
    if (rank == 1)
        give(1);
    meet();
    if (rank == 0 && probes == 1) {
        MPI_Probe(source, tag, comm, IGNORE);
        take(1);
    } else if (rank == 0 && probes == 2) {
        MPI_Mprobe(source, tag, comm, &message, IGNORE);
        MPI_Mrecv(data, bytes, MPI_BYTE, &message, IGNORE);
    } else if (rank == 0 && probes == 3) {
        MPI_Irecv(data, bytes, MPI_BYTE, source, tag, comm, &request);
        MPI_Wait(&request, IGNORE);
    } else if (rank == 0) {
        MPI_Recv(data, bytes, MPI_BYTE, source, tag, comm, IGNORE);
    }
    meet();
}

static void recv(void) { there(1, 1, 0); }
static void any_source(void) { there(MPI_ANY_SOURCE, 1, 0); }
static void any_tag(void) { there(1, MPI_ANY_TAG, 0); }
static void probe(void) { there(1, 1, 1); }
static void mprobe(void) { there(1, 1, 2); }
static void irecv_there(void) { there(1, 1, 3); }

/* The message is in the unexpected queue, as a younger one was received first. */
static void unexpected(void)
{
    if (rank == 1) {
        give(1);
        give(2);
    }
    meet();
    if (rank == 0) {
        take(2);
        MPI_Recv(data, bytes, MPI_BYTE, 1, 1, comm, IGNORE);
    }
    meet();
}

static void iprobe(void)
{
    int flag;
    if (rank == 0)
        MPI_Iprobe(1, 1, comm, &flag, IGNORE);
}

static void ssend(void)
{
    MPI_Request request;
    if (rank == 1)
        MPI_Irecv_c(data, bytes, MPI_BYTE, 0, 1, comm, &request);
    meet();
    if (rank == 0)
        MPI_Ssend(data, bytes, MPI_BYTE, 1, 1, comm);
    else
        wait_for(&request);
    meet();
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"send", send},     {"isend", isend},           {"irecv", irecv},           {"recv", recv},
    {"probe", probe},   {"any-source", any_source}, {"any-tag", any_tag},       {"unexpected", unexpected},
    {"iprobe", iprobe}, {"ssend", ssend},           {"irecv-there", irecv_there}, {"mprobe", mprobe},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    if (ranks == 2 && pin(rank) > 0)
        share_lines();
    MPI_Barrier(WORLD);
    if (ranks != 2 || !lines || argc < 4) {
        fprintf(stderr, "mpirun -n 2 instructions CALL world|dup TIMES [BYTES], on one node and two processors\n");
        return 1;
    }
    if (!strcmp(argv[2], "dup"))
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (argc > 4)
        bytes = atoi(argv[4]);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (long n = strcmp(calls[i].name, argv[1]) ? 0 : atol(argv[3]); n > 0; n--)
            calls[i].call();
    if (comm != MPI_COMM_WORLD)
        MPI_Comm_free(&comm);
    return MPI_Finalize();
}
