/* Runs until it is killed. Rank 0 prints each step, and the number of ranks with SIGUSR2 when
 * that changes. */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t got;

static void note(int number)
{
    (void)number;
    got = 1;
}

int main(int argc, char **argv)
{
    int rank, all, before = 0;
    signal(SIGUSR2, note);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int step = 0;; step++) {
        int own = got;
        MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) printf("step %d\n", step);
        if (rank == 0 && all != before) printf("%d ranks were signalled\n", all);
        fflush(stdout);
        before = all;
        usleep(10000);
    }
}
