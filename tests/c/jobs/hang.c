/* A job that hangs at the place in the first argument:
 *
 *   heads     ranks 0 and 1 receive from each other, the others from rank 0
 *   barrier   all but the last rank enter a barrier; the last one computes
 *   ended     rank 0 receives from the last rank, which has ended
 *   order     even ranks enter a barrier on A, then one on B; odd ranks in the opposite order
 *   lock      rank 1 never releases the lock of rank 0's window; all others but 0 want it
 *   send      ranks 0 and 1 send synchronously to each other, the others receive from any rank
 *   accept    rank 0 waits for a client at a port, and the others with it
 *   plan      all but the last rank enter an allreduce of a user's operation; the last one computes
 *   lengths   rank 0 enters an allreduce too long for shared memory, the others a shorter one
 *
 * Each rank first prints "rank RANK PID". */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void compute(void)
{
    for (volatile unsigned long i = 0;; i++) {
    }
}

static void receive(int from)
{
    double word;
    MPI_Recv(&word, 1, MPI_DOUBLE, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *count; i++) ((double *) inout)[i] += ((double *) in)[i];
}

static void lock(void)
{
    MPI_Win window;
    int *memory;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_set_name(window, "table");
    if (rank == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    receive(rank == 0 ? 1 : 0);
}

static void order(void)
{
    MPI_Comm comms[2];
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        MPI_Comm_set_name(comms[i], i ? "B" : "A");
    }
    MPI_Barrier(comms[rank % 2]);
    MPI_Barrier(comms[1 - rank % 2]);
}

int main(int argc, char **argv)
{
    const char *place = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d %d\n", rank, (int) getpid());
    fflush(stdout);
    if (!strcmp(place, "heads")) {
        receive(rank == 0 ? 1 : 0);
    } else if (!strcmp(place, "barrier")) {
        if (rank == size - 1) compute();
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(place, "ended")) {
        if (rank == 0) receive(size - 1);
    } else if (!strcmp(place, "order")) {
        order();
    } else if (!strcmp(place, "lock")) {
        lock();
    } else if (!strcmp(place, "send")) {
        double word = 0;
        if (rank < 2)
            MPI_Ssend(&word, 1, MPI_DOUBLE, 1 - rank, 5, MPI_COMM_WORLD);
        else
            receive(MPI_ANY_SOURCE);
    } else if (!strcmp(place, "accept")) {
        MPI_Comm other;
        char port[MPI_MAX_PORT_NAME] = "";
        if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    } else if (!strcmp(place, "plan")) {
        double in = 1, out;
        MPI_Op op;
        MPI_Op_create(add, 1, &op);
        if (rank == size - 1) compute();
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, op, MPI_COMM_WORLD);
    } else if (!strcmp(place, "lengths")) {
        int bytes = rank == 0 ? 8 << 20 : 512 << 10;
        char *data = calloc((size_t) bytes, 1);
        MPI_Allreduce(MPI_IN_PLACE, data, bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
