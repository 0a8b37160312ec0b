/* Ranks that start processes: children HOW [COMMAND]. All of these end, and the job goes on
 * undisturbed. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *how = argv[1];
    int rank, size, sum = -1, status = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(how, "system")) status = system(argv[2]);
    if (!strcmp(how, "exit") || !strcmp(how, "_exit") || !strcmp(how, "crash")) {
        pid_t child = fork();
        if (child == 0) {
            if (!strcmp(how, "crash")) abort();
            if (!strcmp(how, "exit")) exit(0); /* with the exit handlers of the rank */
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (!strcmp(how, "crash")) status = !WIFSIGNALED(status);
    }
    if (!strcmp(how, "twins") && fork() == 0) { /* the child outlives the rank */
        fclose(stdout);
        fclose(stderr);
        for (;;) pause();
    }
    /* Short and long messages to each other rank: the rank's state is unchanged. */
    static char out[1 << 20], in[1 << 20];
    MPI_Sendrecv(out, sizeof out, MPI_BYTE, (rank + 1) % size, 0, in, sizeof in, MPI_BYTE, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (status != 0) return 9;
    if (sum != size * (size - 1) / 2) return 8;
    printf("fine %d of %d\n", rank, size);
    return 0;
}
