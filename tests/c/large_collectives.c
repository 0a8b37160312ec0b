// ranks: 2
// transports: one
// every day: none
// Collectives with more than 2^31 elements in each block, blocking and not. (Reductions:
// large_counts.c.)
#include "large.h"

static void exchange(void)
{
    unsigned char *out = long_wide(7, 2), *in = long_wide(0, 2);
    CHECK(MPI_Alltoall_c(out, LONG, MPI_BYTE, in, LONG, MPI_BYTE, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(is_all(in, 7));
    munmap(out, 2 * LONG);
    munmap(in, 2 * LONG);
}

static void prefix(int rank)
{
    MPI_Request request;
    unsigned char *out = long_buffer(6 + rank), *in = long_buffer(200);
    CHECK(MPI_Iexscan_c(out, in, LONG, MPI_UNSIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(is_all(in, rank == 0 ? 200 : 6));
    munmap(out, LONG);
    munmap(in, LONG);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    exchange();
    prefix(rank);
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
