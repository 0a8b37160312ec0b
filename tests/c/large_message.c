// ranks: 2
// transports: all
// not over: tcp-encrypted, because a build for tests takes minutes to encrypt 2 GiB
// A message of more than 2^31 elements.
#include "large.h"

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned char *from = long_buffer(10 + rank), *to = long_buffer(0);
    send_long(from, to, rank);
    munmap(from, LONG);
    munmap(to, LONG);
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
