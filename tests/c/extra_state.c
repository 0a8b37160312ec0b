// ranks: 1 2
// transports: one
/* Operations and error handlers with an extra argument (mpi-ext.h), and when it ends. */
#include <mpi-ext.h>

#include "check.h"

struct state {
    int factor, calls, ends;
    MPI_Comm comm;
    int code;
};

static void combine(void *in, void *inout, MPI_Count len, MPI_Datatype type, void *extra)
{
    struct state *state = extra;
    int *left = in, *right = inout;
    CHECK(type == MPI_INT);
    for (MPI_Count i = 0; i < len; i++)
        right[i] = left[i] + right[i] * state->factor;
    state->calls++;
}

static void report(MPI_Comm comm, int code, void *extra)
{
    struct state *state = extra;
    state->comm = comm;
    state->code = code;
    state->calls++;
}

static void end(void *extra)
{
    ((struct state *)extra)->ends++;
}

int main(int argc, char **argv)
{
    struct state one = {.factor = 3}, two = {.factor = 5}, third = {0};
    MPI_Op first, second;
    MPI_Errhandler handler;
    MPI_Comm comm;
    check_begin(&argc, &argv);

    CHECK(MPIX_Op_create_x(combine, end, 0, &one, &first) == MPI_SUCCESS);
    CHECK(MPIX_Op_create_x(combine, NULL, 0, &two, &second) == MPI_SUCCESS);
    int left[2] = {1, 2}, right[2] = {10, 20};
    MPI_Reduce_local(left, right, 2, MPI_INT, first);
    CHECK(right[0] == 31 && right[1] == 62 && one.calls == 1);
    MPI_Reduce_local(left, right, 2, MPI_INT, second);
    CHECK(right[0] == 156 && right[1] == 312 && two.calls == 1 && one.calls == 1);
    MPI_Op_free(&first);
    CHECK(one.ends == 1);
    MPI_Op_free(&second);

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    CHECK(MPIX_Comm_create_errhandler_x(report, end, &third, &handler) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    CHECK(third.ends == 0);
    int code = MPI_Send(left, -1, MPI_INT, 0, 0, comm);
    CHECK(third.calls == 1 && third.comm == comm && third.code == code);
    CHECK(code == MPI_ERR_COUNT);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK(third.ends == 1);
    MPI_Comm_free(&comm);

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPIX_Op_create_x(NULL, end, 0, &one, &first) == MPI_ERR_ARG);
    CHECK(one.ends == 1);
    return check_end();
}
