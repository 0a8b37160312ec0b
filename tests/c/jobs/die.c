/* Rank 1 ends by itself: die PHASE MANNER. The others wait for it in a barrier, or end normally
 * if it ends after MPI_Finalize. The phases of "session" are those of a program without
 * MPI_Init. */
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

static void sessions(int victim, const char *phase, const char *manner)
{
    for (int n = 0; n < 2; n++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        if (n == 1 && victim && !strcmp(phase, "session")) die(manner);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "die", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Group_free(&group);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    if (victim) die(manner);
    exit(0);
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
    if (!strncmp(phase, "session", 7)) sessions(victim, phase, manner);
    MPI_Init(&argc, &argv);
    if (victim && !strcmp(phase, "between")) die(manner);
    if (strcmp(phase, "after")) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (victim) die(manner);
    return 0;
}
