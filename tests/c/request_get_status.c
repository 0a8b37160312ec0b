// ranks: 1 2 4
// transports: one
/* The status of requests that stay: one, any, all, some. */
#include "check.h"

enum { N = 4 };

static int values[N];
static MPI_Request requests[N];

/* Receive i has tag 10 + i. */
static void post(void)
{
    for (int i = 0; i < N; i++) {
        values[i] = -1;
        CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, 0, 10 + i, MPI_COMM_SELF, &requests[i]));
    }
}

static void send(int i)
{
    int value = 100 + i;
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, 0, 10 + i, MPI_COMM_SELF));
}

static void is_empty(const MPI_Status *status, int line)
{
    int count = -1, cancelled = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    MPI_Test_cancelled(status, &cancelled);
    check_report(status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && count == 0 && !cancelled,
                 __FILE__, line, "the status is not empty");
}

static void nothing_to_ask(void)
{
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int flag = -1, index = -1, count = -1, indices[2];
    CHECK_OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, statuses));
    CHECK_EQ(flag, 1);
    is_empty(statuses, __LINE__);
    flag = -1;
    CHECK_OK(MPI_Request_get_status_any(2, none, &index, &flag, statuses));
    CHECK(flag == 1 && index == MPI_UNDEFINED);
    is_empty(statuses, __LINE__);
    flag = index = -1;
    CHECK_OK(MPI_Request_get_status_any(0, NULL, &index, &flag, MPI_STATUS_IGNORE));
    CHECK(flag == 1 && index == MPI_UNDEFINED);
    flag = -1;
    CHECK_OK(MPI_Request_get_status_all(2, none, &flag, statuses));
    CHECK_EQ(flag, 1);
    is_empty(&statuses[0], __LINE__);
    is_empty(&statuses[1], __LINE__);
    flag = -1;
    CHECK_OK(MPI_Request_get_status_all(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 1);
    CHECK_OK(MPI_Request_get_status_some(2, none, &count, indices, statuses));
    CHECK_EQ(count, MPI_UNDEFINED);
}

static void step_by_step(void)
{
    MPI_Status status, statuses[N];
    int flag = -1, index = -1, count = -1, indices[N];
    post();
    CHECK_OK(MPI_Request_get_status(requests[0], &flag, &status));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Request_get_status_any(N, requests, &index, &flag, &status));
    CHECK(flag == 0 && index == MPI_UNDEFINED);
    CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Request_get_status_some(N, requests, &count, indices, statuses));
    CHECK_EQ(count, 0);

    send(2);
    for (int again = 0; again < 3; again++) { /* the requests stay */
        CHECK_OK(MPI_Request_get_status(requests[2], &flag, &status));
        CHECK_EQ(flag, 1);
        CHECK_STATUS(&status, 0, 12, 4);
        CHECK_OK(MPI_Request_get_status_any(N, requests, &index, &flag, &status));
        CHECK(flag == 1 && index == 2);
        CHECK_STATUS(&status, 0, 12, 4);
        CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
        CHECK_EQ(flag, 0);
        CHECK_OK(MPI_Request_get_status_some(N, requests, &count, indices, statuses));
        CHECK(count == 1 && indices[0] == 2);
        CHECK_STATUS(&statuses[0], 0, 12, 4);
    }
    send(0);
    send(3);
    CHECK_OK(MPI_Request_get_status_some(N, requests, &count, indices, statuses));
    CHECK(count == 3 && indices[0] == 0 && indices[1] == 2 && indices[2] == 3);
    CHECK_STATUS(&statuses[1], 0, 12, 4);
    CHECK_OK(MPI_Request_get_status_some(N, requests, &count, indices, MPI_STATUSES_IGNORE));
    CHECK_EQ(count, 3);
    CHECK_OK(MPI_Wait(&requests[0], &status));
    CHECK_OK(MPI_Request_get_status_any(N, requests, &index, &flag, MPI_STATUS_IGNORE));
    CHECK(flag == 1 && index == 2);
    send(1);
    CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
    CHECK_EQ(flag, 1);
    is_empty(&statuses[0], __LINE__);
    for (int i = 1; i < N; i++) CHECK_STATUS(&statuses[i], 0, 10 + i, 4);
    CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 1);
    CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++) CHECK_EQ(values[i], 100 + i);
}

static void failed(void)
{
    MPI_Comm comm;
    MPI_Status statuses[2];
    int large[2] = {1, 2}, flag = -1, count = -1, indices[2];
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Irecv(values, 1, MPI_INT, 0, 1, comm, &requests[0]));
    CHECK_OK(MPI_Irecv(values + 1, 1, MPI_INT, 0, 2, comm, &requests[1]));
    CHECK_OK(MPI_Send(large, 2, MPI_INT, 0, 1, comm));
    CHECK_OK(MPI_Send(large, 1, MPI_INT, 0, 2, comm));
    CHECK_OK(MPI_Request_get_status_all(2, requests, &flag, statuses));
    CHECK_EQ(flag, 1);
    CHECK_EQ(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    CHECK_EQ(statuses[1].MPI_ERROR, MPI_SUCCESS);
    CHECK_OK(MPI_Request_get_status_some(2, requests, &count, indices, statuses));
    CHECK_EQ(count, 2);
    CHECK_EQ(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK_EQ(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Comm_free(&comm));
}

static void wrong(void)
{
    MPI_Request stale;
    int flag, index, count, indices[N];
    post();
    send(0);
    stale = requests[0];
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    requests[0] = stale;
    CHECK_CLASS(MPI_Request_get_status_any(N, requests, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_get_status_all(N, requests, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_get_status_some(N, requests, &count, indices, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    requests[0] = MPI_REQUEST_NULL;
    CHECK_CLASS(MPI_Request_get_status_any(-1, requests, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Request_get_status_any(N, NULL, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Request_get_status_any(N, requests, NULL, &flag, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Request_get_status_all(N, requests, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Request_get_status_some(N, requests, &count, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG);
    for (int i = 1; i < N; i++) send(i);
    CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    nothing_to_ask();
    step_by_step();
    failed();
    wrong();
    return check_end();
}
