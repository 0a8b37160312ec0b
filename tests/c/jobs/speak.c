/* A word goes from rank 0 to rank 1 and back: alone, repeated in one message, and in an announced
 * message. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
static char out[300000], in[300000];
int main(int argc, char **argv)
{
    int rank, lengths[] = { 24, 4800, 60000, 300000 };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 300000; i += 12)
        memcpy(out + i, "open sesame!", 12);
    for (int i = 0; i < 4; i++) {
        MPI_Sendrecv(out, lengths[i], MPI_CHAR, 1 - rank, 1, in, lengths[i], MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (memcmp(out, in, lengths[i]))
            return 1;
    }
    MPI_Finalize();
    if (rank == 0)
        puts("ok");
    return 0;
}
