// ranks: 1 2 4
// transports: one
/* mpi_param_check=0: correct calls work as before, and invalid handles are still errors, in
 * every argument. */
#include "check.h"

static MPI_Datatype freed_type(void)
{
    MPI_Datatype type, stale;
    MPI_Type_contiguous(3, MPI_INT, &type);
    stale = type;
    MPI_Type_free(&type);
    return stale;
}

static void bad_handles(void)
{
    MPI_Comm world, stale;
    MPI_Datatype type = freed_type();
    MPI_Request requests[3];
    int value = 1, got = -1, flag = -1, index = -1;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    stale = world;
    CHECK_OK(MPI_Comm_free(&world));
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, 0, 0, stale), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Send(&value, 1, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP);
    CHECK_CLASS(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD), MPI_ERR_ROOT);

    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &requests[1]));
    MPI_Request gone = requests[1];
    CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    for (int which = 0; which < 4; which++) {
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[0]));
        CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &requests[2]));
        CHECK_OK(MPI_Send(&size, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
        requests[1] = which % 2 == 0 ? (MPI_Request) (intptr_t) 0x7fff1234567 : gone;
        switch (which) {
        case 0: CHECK_CLASS(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST); break;
        case 1: CHECK_CLASS(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST); break;
        case 2: CHECK_CLASS(MPI_Startall(3, requests), MPI_ERR_REQUEST); break;
        default: CHECK_CLASS(MPI_Waitany(1, &requests[1], &index, MPI_STATUS_IGNORE), MPI_ERR_REQUEST); break;
        }
        if (requests[0] != MPI_REQUEST_NULL) CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK_EQ(got, size);
        CHECK_OK(MPI_Cancel(&requests[2]));
        CHECK_OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
    }
}

/* An error that the checks would find: here it is harmless, so the call succeeds. */
static void trusted(void)
{
    MPI_Datatype pair;
    int out[2] = {1, 2}, in[2] = {0, 0};
    MPI_Request request;
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    CHECK_OK(MPI_Irecv(in, 1, pair, 0, 0, MPI_COMM_SELF, &request));
    CHECK_OK(MPI_Send(out, 1, pair, 0, 0, MPI_COMM_SELF));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in[0] == 1 && in[1] == 2);
    CHECK_OK(MPI_Type_free(&pair));
}

int main(int argc, char **argv)
{
    setenv("OXMPI_MCA_mpi_param_check", "0", 1);
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    bad_handles();
    trusted();
    return check_end();
}
