/* The saved states of ranks must fit together ('cr self'): no rank may have received a message
 * that its sender had not yet sent when it saved its state. Rank 0 sends numbers to rank 1,
 * which is nearly always in MPI_Recv; rank 0 saves at once, rank 1 a while later. Rank 0 ends
 * the job when the file "enough" exists. */
#include <mpi.h>

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static int rank = -1;
static atomic_long last;

int cut_checkpoint(void)
{
    if (rank == 1) usleep(300000);
    printf("rank %d saves %ld\n", rank, atomic_load(&last));
    fflush(stdout);
    return 0;
}

int cut_continue(void)
{
    return 0;
}

int cut_restart(void)
{
    return 0;
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long number = 1; number > 0;) {
        if (rank == 0) {
            number = access("enough", F_OK) == 0 ? 0 : number + 1;
            /* The number counts as sent before it can be received. */
            if (number > 0) atomic_store(&last, number);
            MPI_Send(&number, 1, MPI_LONG, 1, 0, MPI_COMM_WORLD);
            usleep(1000);
        } else if (rank == 1) {
            MPI_Recv(&number, 1, MPI_LONG, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (number > 0) atomic_store(&last, number);
        } else {
            number = 0;
        }
    }
    /* A rank that has called MPI_Finalize cannot save its state any more. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
