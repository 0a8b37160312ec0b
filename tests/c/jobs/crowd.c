/* More ranks than cores: crowd OPERATIONS. Prints the number of sleeps: "slept N in allreduces, N
 * in messages"
 *
 * A sleep at a door is a voluntary context switch (getrusage(2)); a sched_yield is none. */
#define _GNU_SOURCE
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static long sleeps(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static int rank, size;

static void allreduces(int operations)
{
    for (int i = 0; i < operations; i++) {
        long long value = rank + i, sum = -1;
        MPI_Allreduce(&value, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2 + (long long) size * i) MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static void messages(int operations)
{
    for (int i = 0; i < operations && rank < 2; i++) {
        long long value = rank == 0 ? i : -1;
        if (rank == 0) MPI_Send(&value, 1, MPI_LONG_LONG, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_LONG_LONG, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(&value, 1, MPI_LONG_LONG, 0, 0, MPI_COMM_WORLD);
        if (value != i) MPI_Abort(MPI_COMM_WORLD, 9);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int operations = atoi(argv[1]);
    (void) argc;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    messages(10);
    allreduces(10);
    long slept[3] = {sleeps()}, total[2];
    allreduces(operations);
    slept[1] = sleeps();
    messages(operations);
    slept[2] = sleeps();
    long of[2] = {slept[1] - slept[0], slept[2] - slept[1]};
    MPI_Reduce(of, total, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("slept %ld in allreduces, %ld in messages\n", total[0], total[1]);
    MPI_Finalize();
    return 0;
}
