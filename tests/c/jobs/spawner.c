/* Two jobs of which one fails: spawner MODE MANNER MARKER. All ranks spawn two children, and then,
 * by MODE,
 *   connected     child 0 ends as MANNER says while it is connected with all others
 *   disconnected  child 0 ends so after a disconnect; the parents wait for its end, and succeed
 *   outlives      the parents disconnect and end; the children wait for that, and succeed
 *   leaves        the children exit with the code MANNER after MPI_Finalize, without a disconnect;
 *                 the parents wait for them
 *   stuck         all wait without end
 *   uninitialized the children are a program that does not use MPI */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void die(const char *manner)
{
    if (!strcmp(manner, "kill")) raise(SIGKILL);
    if (!strcmp(manner, "mpi")) MPI_Abort(MPI_COMM_WORLD, 7);
    exit(atoi(manner));
}

static void await_end(int pid)
{
    char name[64], text[512], *state;
    for (;; usleep(1000)) {
        snprintf(name, sizeof name, "/proc/%d/stat", pid);
        FILE *file = fopen(name, "r");
        if (!file) return;
        size_t n = fread(text, 1, sizeof text - 1, file);
        fclose(file);
        text[n] = 0;
        state = strrchr(text, ')');
        if (!n || (state && (state[2] == 'Z' || state[2] == 'X'))) return;
    }
}

static void stick(MPI_Comm with, const char *who)
{
    int rank, nothing;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("%s rank %d %d under %d\n", who, rank + (*who == 'c' ? 100 : 0), (int) getpid(), (int) getppid());
    fflush(stdout);
    MPI_Recv(&nothing, 1, MPI_INT, 0, 77, with, MPI_STATUS_IGNORE);
}

static int child(MPI_Comm parent, const char *mode, const char *manner)
{
    int rank, pid = getpid(), parents;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Bcast(&parents, 1, MPI_INT, 0, parent);
    if (rank == 0) {
        int n;
        MPI_Comm_remote_size(parent, &n);
        for (int i = 0; i < n; i++) MPI_Send(&pid, 1, MPI_INT, i, 0, parent);
    }
    if (!strcmp(mode, "stuck")) stick(parent, "child");
    if (!strcmp(mode, "connected") && rank == 0) die(manner);
    if (!strcmp(mode, "connected")) MPI_Barrier(parent);
    if (!strcmp(mode, "leaves")) {
        MPI_Finalize();
        exit(atoi(manner));
    }
    MPI_Comm_disconnect(&parent);
    if (!strcmp(mode, "disconnected") && rank == 0) die(manner);
    if (!strcmp(mode, "disconnected")) MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(mode, "outlives")) await_end(parents);
    printf("child fine\n");
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argv[1], *manner = argv[2];
    MPI_Comm parent, inter;
    int rank, pid = getpid(), other;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return child(parent, mode, manner);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int uses = strcmp(mode, "uninitialized") != 0;
    MPI_Comm_spawn(uses ? argv[0] : "true", argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Bcast(&pid, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    MPI_Recv(&other, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
    if (!strcmp(mode, "stuck") || !strcmp(mode, "leaves")) stick(inter, "parent");
    if (!strcmp(mode, "connected")) MPI_Barrier(inter);
    MPI_Comm_disconnect(&inter);
    if (!strcmp(mode, "disconnected")) await_end(other);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("parent fine\n");
    MPI_Finalize();
    return 0;
}
