/* A job of many ranks: many HOW. "init" starts and ends MPI; "work" also makes barriers and
 * sums. */
#include <mpi.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 20 && !strcmp(argv[1], "work"); i++) {
        int value = rank + i, sum = -1;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (sum != size * (size - 1) / 2 + size * i) return 9;
    }
    MPI_Finalize();
    printf("fine %d of %d\n", rank, size);
    return 0;
}
