/* Erroneous calls: errors WHAT. The job ends here, or the program prints the returned error. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

static int rank, size;

static void tell(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    printf("class %s length %s: %s\n", class == MPI_ERR_UNSUPPORTED_OPERATION ? "unsupported" : "other",
           (int) strlen(text) == length ? "right" : "wrong", text);
}

static const char *name(MPI_Errhandler handler)
{
    return handler == MPI_ERRORS_RETURN ? "return" : "other";
}

static void leave(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    (void) code;
    exit(9);
}

static void probe(int signal)
{
    int flag;
    (void) signal;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int early = 0;
    const char *what = argv[1];
    int value = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(what, "before")) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(what, "initial")) early = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(what, "abort-before")) MPI_Abort(MPI_COMM_WORLD, value);
    if (!strcmp(what, "session")) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        early = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("early %d\n", early);
        if (value) MPI_Abort(MPI_COMM_SELF, value);
        MPI_Session_finalize(&session);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "double")) MPI_Init(&argc, &argv);
    if (!strcmp(what, "abort-one") && rank == 1) MPI_Abort(MPI_COMM_WORLD, value);
    if (!strcmp(what, "abort-all")) MPI_Abort(MPI_COMM_WORLD, value);
    if (!strcmp(what, "peer") || (!strcmp(what, "peer-one") && rank == 1))
        MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "tag")) MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD);
    if (!strcmp(what, "count")) MPI_Bcast(&value, -3, MPI_INT, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "truncate")) {
        int two[2] = {1, 2}, one;
        MPI_Sendrecv(two, 2, MPI_INT, rank, 0, &one, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!strcmp(what, "initial")) {
        MPI_Errhandler world, self;
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world);
        MPI_Comm_get_errhandler(MPI_COMM_SELF, &self);
        int between = MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
        MPI_Finalize();
        int late = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("before %d, between %d, after %d, handlers %s %s\n", early, between, late, name(world), name(self));
        return 0;
    }
    if (!strcmp(what, "no-object")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        printf("returned %d\n", MPI_Type_size(MPI_DATATYPE_NULL, &value));
        fflush(stdout);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
        if (argc > 3) MPI_Type_size(MPI_DATATYPE_NULL, &value);
        MPI_Finalize();
        return 0;
    }
    if (!strcmp(what, "signal") && rank == 1) {
        struct itimerval often = {{0, 200}, {0, 200}};
        static char from[1 << 16], to[1 << 16];
        /* Most processor time of this loop is that of copying inside the library, also on a busy
           machine: the rank does not wait. */
        signal(SIGVTALRM, probe);
        setitimer(ITIMER_VIRTUAL, &often, NULL);
        for (;;)
            MPI_Sendrecv(from, sizeof from, MPI_CHAR, 0, 0, to, sizeof to, MPI_CHAR, 0, 0,
                         MPI_COMM_SELF, MPI_STATUS_IGNORE);
    }
    if (!strcmp(what, "handler-exits")) {
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(leave, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    }
    if (!strcmp(what, "handler-abort")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
        if (rank == 1) MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    }
    if (!strcmp(what, "return")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        tell(MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD));
        MPI_Finalize();
        return 0;
    }
    if (strncmp(what, "after", 5)) MPI_Barrier(MPI_COMM_WORLD); /* ranks without an error wait for the end */
    MPI_Finalize();
    if (!strcmp(what, "after")) MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "after-init")) MPI_Init(&argc, &argv);
    if (!strcmp(what, "after-finalize")) MPI_Finalize();
    printf("still here\n");
    return 0;
}
