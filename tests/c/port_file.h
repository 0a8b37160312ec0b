/* A port whose name is in a file, by which processes of two mpiruns connect. */
#include <mpi.h>

#include <stdio.h>
#include <unistd.h>

/* Opens a port and writes its name to the file atomically. */
static void leave_port(const char *path, char port[MPI_MAX_PORT_NAME])
{
    char next[1000];
    MPI_Open_port(MPI_INFO_NULL, port);
    snprintf(next, sizeof next, "%s.new", path);
    FILE *file = fopen(next, "w");
    fputs(port, file);
    fclose(file);
    rename(next, path);
}

static void await_port(const char *path, char port[MPI_MAX_PORT_NAME])
{
    FILE *file;
    while (!(file = fopen(path, "r"))) usleep(10000);
    if (!fgets(port, MPI_MAX_PORT_NAME, file)) {
        fprintf(stderr, "there is no port in %s\n", path);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    fclose(file);
}
