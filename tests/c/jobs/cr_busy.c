/* Rank 1 computes for some seconds without MPI while the others wait for its message. Rank 0
 * adds the numbers in the lines of the standard input, and has read the first line before.
 * Arguments: milliseconds to compute. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
    int rank, size;
    long limit = argc > 1 ? atol(argv[1]) : 1000, value = 0, total = 0, lines = 0, line;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0 && scanf("%ld", &line) == 1) lines = line;
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d begins a line ", rank);
    fflush(stdout);
    if (rank == 1) {
        unsigned long state = 1;
        long rounds = 0;
        for (long end = now_ms() + limit; now_ms() < end; rounds++)
            for (int i = 0; i < 100000; i++) state = state * 6364136223846793005ul + 1442695040888963407ul;
        value = rounds > 0 && state != 0 ? 4711 : -1;
        for (int to = 0; to < size; to++)
            if (to != 1) MPI_Send(&value, 1, MPI_LONG, to, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&value, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("and ends it\n");
    fflush(stdout);
    if (rank == 0)
        while (scanf("%ld", &line) == 1) lines += line;
    MPI_Reduce(&value, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %ld, lines %ld\n", total, lines);
    MPI_Finalize();
    return 0;
}
