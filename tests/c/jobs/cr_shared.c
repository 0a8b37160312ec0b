/* All ranks have a shared window, which each reads and writes as its own memory. Rank 0 prints
 * "shared" when it exists, and "whole" if the sum of all is right some seconds later. */
#include <mpi.h>

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, unit;
    long *own, sum = 0;
    MPI_Aint bytes;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Win_allocate_shared(sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window);
    *own = 0;
    MPI_Win_lock_all(0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("shared\n");
        fflush(stdout);
    }
    for (int step = 0; step < 30; step++) {
        *own += rank + 1;
        usleep(100000);
    }
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int of = 0; of < size; of++) {
        long *there;
        MPI_Win_shared_query(window, of, &bytes, &unit, &there);
        sum += *there;
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    if (rank == 0) printf(sum == 30L * size * (size + 1) / 2 ? "whole\n" : "wrong\n");
    MPI_Finalize();
    return 0;
}
