/* A number goes round the ring of all ranks; each adds one. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, token = 0;
    const int rounds = 1000;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 2) {
        fprintf(stderr, "ring: start at least 2 ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;

    double start = MPI_Wtime();
    for (int i = 0; i < rounds; i++) {
        if (rank == 0) {
            token++;
            MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
            MPI_Recv(&token, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&token, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            token++;
            MPI_Send(&token, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        }
    }
    double us = (MPI_Wtime() - start) * 1e6 / ((double)rounds * size);
    if (rank == 0)
        printf("%d rounds through %d ranks: the token is %d (%s), %.2f us a hop\n", rounds, size, token,
               token == rounds * size ? "right" : "WRONG", us);
    MPI_Finalize();
    return rank == 0 && token != rounds * size;
}
