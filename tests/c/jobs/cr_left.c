/* Rank 1 calls MPI_Finalize at once, the others later. */
#include <mpi.h>

#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) MPI_Finalize();
    sleep(60);
    if (rank != 1) MPI_Finalize();
    return 0;
}
