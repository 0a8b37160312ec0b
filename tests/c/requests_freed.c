// ranks: 1 2
// transports: one
/* A request that was freed while it is active is invalid in each call: none waits for it. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Request request, gone, both[2];
    int value = -1, flag, index, count, indices[2];
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &request));
    gone = request;
    CHECK_OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    for (int when = 0; when < 2; when++) {
        check_where("%s", when == 0 ? "while it goes on" : "afterwards");
        request = gone;
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
        both[0] = both[1] = gone;
        CHECK_CLASS(MPI_Waitall(2, both, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Waitsome(2, both, &count, indices, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Testall(2, both, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
        if (when == 0) {
            CHECK_OK(MPI_Send(&rank, 1, MPI_INT, rank, 3, MPI_COMM_WORLD));
            while (*(volatile int *) &value != rank)
                CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        }
    }
    return check_end();
}
