// ranks: 2
// A message of more than 2^31 elements.
#include "large.h"

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned char *from = long_buffer(10 + rank), *to = long_buffer(0);
    int other = (rank + 1) % size;
    MPI_Status status;

    // A message of more bytes than an int counts.
    if (rank == 0) CHECK(MPI_Send_c(from, LONG, MPI_BYTE, other, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (rank == 1) {
        CHECK(MPI_Recv_c(to, LONG, MPI_BYTE, other, 1, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
        count_is(&status, MPI_BYTE, LONG);
        CHECK(is_all(to, 10 + other));
    }

    munmap(from, LONG);
    munmap(to, LONG);
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
