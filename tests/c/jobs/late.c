/* One rank ends with its own exit code after MPI_Finalize: late MODE. Rank 1 exits with 3, and the
 * others
 *   wait:     wait for a message that no rank sends;
 *   session:  leave the World Model, and hold a session;
 *   own:      end with their own codes, after some work behind MPI_Finalize;
 *   slow:     succeed, after longer work than the launcher waits for ranks before MPI_Finalize;
 *   callback: call MPI for as long inside MPI_Finalize;
 *   go on:    finalize later than this time, and succeed if the job may go on;
 *   ulfm:     wait as well, and get an error about the failure.
 * In the modes own, slow and callback rank 1 exits when all others have reached that state, as
 * their files show. */
#include <mpi.h>
#include <mpi-ext.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *mode;
static int rank, size;

static int is(const char *name)
{
    return !strcmp(mode, name);
}

static void name_file(char *name, size_t room, int of)
{
    snprintf(name, room, "late.%d", of);
}

static void tell(void)
{
    char name[32];
    name_file(name, sizeof name, rank);
    FILE *file = fopen(name, "w");
    if (!file) abort();
    fclose(file);
}

static void await_others(void)
{
    for (int other = 0; other < size; other++) {
        char name[32];
        name_file(name, sizeof name, other);
        while (other != rank && unlink(name)) usleep(1000);
    }
}

static int work(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key, (void)value, (void)extra;
    int number;
    MPI_Comm_rank(comm, &number);
    tell();
    for (int turn = 0; turn < 30; turn++) {
        usleep(100000);
        MPI_Comm_size(comm, &number);
    }
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int code = 0, nothing, key;
    MPI_Session session;
    mode = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Finalize();
        if (is("own") || is("slow") || is("callback")) await_others();
        exit(3);
    }
    if (is("wait")) MPI_Recv(&nothing, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (is("ulfm")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        code = MPI_Recv(&nothing, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Error_class(code, &code);
        if (code != MPIX_ERR_PROC_FAILED) MPI_Abort(MPI_COMM_WORLD, 9);
    }
    if (is("session")) MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    if (is("callback")) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, work, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    }
    if (is("go on")) sleep(3);
    MPI_Finalize();
    if (is("session")) pause();
    if (is("own") || is("slow")) {
        tell();
        sleep(3);
    }
    printf("rank %d is done\n", rank);
    return is("own") ? 10 + rank : 0;
}
