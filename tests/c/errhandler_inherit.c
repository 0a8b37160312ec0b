// ranks: 1 2 4
// transports: one
/* The error handler of a new communicator, and the life of a handler to which only communicators
 * refer. */
#include "check.h"

static int calls = 0;

static void count(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    (void) code;
    calls++;
}

/* An error on the communicator makes `want` calls of the handler. */
static void errs(MPI_Comm comm, int want, int line)
{
    int value = 0;
    calls = 0;
    check_class(MPI_Send(&value, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT, __FILE__, line, "MPI_Send", "MPI_ERR_COUNT");
    check_report(calls == want, __FILE__, line, "%d calls, not %d", calls, want);
}

#define ERRS(comm, want) errs((comm), (want), __LINE__)

int main(int argc, char **argv)
{
    MPI_Errhandler handler, found;
    MPI_Comm copy, part, third, last;
    check_begin(&argc, &argv);
    return_errors();
    CHECK_OK(MPI_Comm_create_errhandler(count, &handler));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    ERRS(copy, 0);
    CHECK_OK(MPI_Comm_set_errhandler(copy, handler));
    CHECK_OK(MPI_Errhandler_free(&handler));
    ERRS(copy, 1);

    CHECK_OK(MPI_Comm_split(copy, rank % 2, rank, &part));
    CHECK_OK(MPI_Comm_dup(part, &third));
    CHECK_OK(MPI_Comm_dup_with_info(copy, MPI_INFO_NULL, &last));
    ERRS(part, 1);
    ERRS(third, 1);
    ERRS(last, 1);

    CHECK_OK(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
    ERRS(part, 0);
    ERRS(third, 1);
    ERRS(copy, 1);
    ERRS(MPI_COMM_WORLD, 0);

    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Comm_free(&last));
    ERRS(third, 1);
    CHECK_OK(MPI_Comm_get_errhandler(third, &found));
    CHECK_OK(MPI_Comm_free(&third));
    CHECK_OK(MPI_Comm_set_errhandler(part, found));
    ERRS(part, 1);
    CHECK_OK(MPI_Errhandler_free(&found));
    CHECK_OK(MPI_Comm_free(&part));

    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &found));
    CHECK(found == MPI_ERRORS_ARE_FATAL);
    CHECK_OK(MPI_Errhandler_free(&found));
    CHECK(found == MPI_ERRHANDLER_NULL);
    return check_end();
}
