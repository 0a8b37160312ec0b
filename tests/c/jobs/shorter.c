/* Receivers of collectives give a shorter length than the data: an error of class
 * MPI_ERR_TRUNCATE, and no byte is written behind that length. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 4 };

int main(int argc, char **argv)
{
    int rank, wrong = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int n = 8; n <= 8 << 20; n *= 32) {
        size_t all = 3 * (size_t)n + 64;
        unsigned char *from = malloc(all), *to = malloc(all);
        for (int kind = 0; kind < KINDS; kind++) {
            int error = MPI_SUCCESS, class = -1, receiver = kind == 3 ? 0 : 1;
            size_t told = rank != receiver ? all : kind == 3 ? 2 * (size_t)(n / 4) : (size_t)(n / 4);
            MPI_Request request;
            memset(from, 1, all);
            memset(to, 0xAB, all);
            if (kind == 0) error = MPI_Bcast(rank ? to : from, rank ? n / 4 : n, MPI_BYTE, 0, MPI_COMM_WORLD);
            if (kind == 1) {
                error = MPI_Ibcast(rank ? to : from, rank ? n / 4 : n, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
                if (error == MPI_SUCCESS) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
            if (kind == 2) error = MPI_Scatter(from, n, MPI_BYTE, to, rank ? n / 4 : n, MPI_BYTE, 0, MPI_COMM_WORLD);
            if (kind == 3) error = MPI_Gather(from, rank ? n : n / 4, MPI_BYTE, to, n / 4, MPI_BYTE, 0, MPI_COMM_WORLD);
            if (rank == receiver) {
                MPI_Error_class(error, &class);
                for (size_t at = told; at < all; at++) wrong += to[at] != 0xAB;
                if (class != MPI_ERR_TRUNCATE) printf("kind %d, %d bytes: error %d\n", kind, n, error), wrong++;
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        free(from);
        free(to);
    }
    if (wrong > 0) printf("rank %d: %d wrong\n", rank, wrong);
    MPI_Finalize();
    if (rank == 0 && wrong == 0) printf("ok\n");
    return wrong > 0;
}
