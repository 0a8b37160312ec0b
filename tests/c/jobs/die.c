/* One rank dies by its own hand: die PHASE MANNER. Rank 1 does it, the others wait for it in a barrier, or, where it
 * dies after MPI_Finalize, end as they should. */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die(const char *manner)
{
    if (!strcmp(manner, "kill")) raise(SIGKILL);
    if (!strcmp(manner, "segv")) {
        volatile int *volatile nowhere = NULL;
        *nowhere = 1;
    }
    if (!strcmp(manner, "abort")) abort();
    exit(atoi(manner));
}

int main(int argc, char **argv)
{
    const char *phase = argv[1], *manner = argv[2], *number = getenv("OXMPI_COMM_WORLD_RANK");
    int victim = number && !strcmp(number, "1");
    if (victim) {
        printf("victim %d\n", (int) getpid());
        fflush(stdout);
    }
    if (victim && !strcmp(phase, "before")) die(manner);
    MPI_Init(&argc, &argv);
    if (victim && !strcmp(phase, "between")) die(manner);
    if (strcmp(phase, "after")) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (victim) die(manner);
    return 0;
}
