/* Prints the provided thread level: level REQUIRED, from 0 (single) to 3 (multiple). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int provided, queried, rank;
    MPI_Init_thread(&argc, &argv, levels[atoi(argv[1])], &provided);
    MPI_Query_thread(&queried);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 4; i++)
        if (rank == 0 && levels[i] == provided && queried == provided)
            printf("level %d\n", i);
    MPI_Finalize();
    return 0;
}
