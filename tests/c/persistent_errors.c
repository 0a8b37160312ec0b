// ranks: 1 2 4
// transports: all
/* Errors of persistent collectives come when they are made; and forbidden uses of their
 * requests. */
#include "check.h"

static int data[64], result[64], counts[8], displs[8];

static void at_init(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype open;
    MPI_Info info;
    const MPI_Comm world = MPI_COMM_WORLD;
    CHECK_CLASS(MPI_Barrier_init(world, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Bcast_init(data, -1, MPI_INT, 0, world, MPI_INFO_NULL, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Bcast_init(data, 1, MPI_INT, size, world, MPI_INFO_NULL, &request), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Bcast_init(data, 1, MPI_DATATYPE_NULL, 0, world, MPI_INFO_NULL, &request), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Allreduce_init(data, result, 1, MPI_INT, MPI_OP_NULL, world, MPI_INFO_NULL, &request), MPI_ERR_OP);
    CHECK_CLASS(MPI_Allreduce_init(data, result, 1, MPI_DOUBLE, MPI_BAND, world, MPI_INFO_NULL, &request), MPI_ERR_OP);
    CHECK_CLASS(MPI_Allreduce_init(NULL, result, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Alltoallv_init(data, NULL, displs, MPI_INT, result, counts, displs, MPI_INT, world, MPI_INFO_NULL, &request),
                MPI_ERR_ARG);
    CHECK_CLASS(MPI_Neighbor_allgather_init(data, 1, MPI_INT, result, 1, MPI_INT, world, MPI_INFO_NULL, &request),
                MPI_ERR_TOPOLOGY);
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &open));
    CHECK_CLASS(MPI_Bcast_init(data, 1, open, 0, world, MPI_INFO_NULL, &request), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&open));
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "of_no_concern", "yes"));
    CHECK_OK(MPI_Barrier_init(world, info, &request));
    MPI_Info gone = info;
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Start(&request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_CLASS(MPI_Barrier_init(world, gone, &request), MPI_ERR_INFO);
    CHECK(request == MPI_REQUEST_NULL);
    /* The failing calls took no part: the next ones match each other. */
    int mine = rank + 1, sum = 0;
    CHECK_OK(MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request));
    CHECK_OK(MPI_Start(&request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(sum, size * (size + 1) / 2);
    CHECK_OK(MPI_Request_free(&request));
}

static void of_requests(void)
{
    MPI_Request request, copy;
    MPI_Status status;
    int flag = -1;
    CHECK_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    copy = request;
    memset(&status, 0x5a, sizeof status);
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
    CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 1);
    CHECK(request == copy);
    CHECK_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);

    CHECK_OK(MPI_Start(&request));
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    CHECK(request == copy);
    do CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    while (!flag);
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_CLASS(MPI_Start(&copy), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Wait(&copy, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);

    CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void all_or_none(void)
{
    MPI_Request requests[3];
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]));
    CHECK_OK(MPI_Start(&requests[1]));
    CHECK_CLASS(MPI_Startall(3, requests), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Startall(3, requests));
    CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Request_free(&requests[i]));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    at_init();
    of_requests();
    all_or_none();
    return check_end();
}
