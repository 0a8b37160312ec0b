// ranks: 1 2
// transports: one
/* Generalized requests in all wait and test calls: the order of the program's functions, and
 * their errors. */
#include "check.h"

typedef struct {
    int queries, frees, cancels, cancelled_complete; /* calls of each function, and the argument of cancel */
    int query_code, free_code, cancel_code; /* their results */
    int tag; /* in the status */
} State;

static int order = 0; /* 1 after query, 0 after free: free comes after query */

static int query(void *extra, MPI_Status *status)
{
    State *state = extra;
    int flag = -1;
    state->queries++;
    order = 1;
    CHECK(status != NULL);
    CHECK_OK(MPI_Status_set_source(status, 40 + state->tag));
    CHECK_OK(MPI_Status_set_tag(status, state->tag));
    CHECK_OK(MPI_Status_set_cancelled(status, state->cancels > 0));
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    return state->query_code;
}

static int release(void *extra)
{
    State *state = extra;
    int flag = -1;
    state->frees++;
    order = 0;
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    return state->free_code;
}

static int cancel(void *extra, int complete)
{
    State *state = extra;
    state->cancels++;
    state->cancelled_complete = complete;
    return state->cancel_code;
}

static MPI_Request start(State *state, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    memset(state, 0, sizeof *state);
    state->tag = tag;
    CHECK_OK(MPI_Grequest_start(query, release, cancel, state, &request));
    CHECK(request != MPI_REQUEST_NULL);
    return request;
}

static void called(const State *state, int queries, int frees, int line)
{
    check_report(state->queries == queries, __FILE__, line, "query was called %d times, not %d", state->queries, queries);
    check_report(state->frees == frees, __FILE__, line, "free was called %d times, not %d", state->frees, frees);
}

#define CALLED(state, queries, frees) called((state), (queries), (frees), __LINE__)

static void says(const MPI_Status *status, int tag, int line)
{
    int cancelled = -1;
    CHECK_OK(MPI_Test_cancelled(status, &cancelled));
    check_report(status->MPI_TAG == tag && status->MPI_SOURCE == 40 + tag && !cancelled, __FILE__, line,
                 "source %d, tag %d, cancelled %d", status->MPI_SOURCE, status->MPI_TAG, cancelled);
}

#define SAYS(status, tag) says((status), (tag), __LINE__)

static void of_one(void)
{
    State state;
    MPI_Status status;
    int flag = -1;
    MPI_Request request = start(&state, 1), kept = request;
    CHECK_OK(MPI_Test(&request, &flag, &status));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_EQ(flag, 0);
    CALLED(&state, 0, 0);
    CHECK_OK(MPI_Grequest_complete(request));
    CALLED(&state, 0, 0);
    CHECK_CLASS(MPI_Grequest_complete(request), MPI_ERR_REQUEST); /* only once */
    CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_EQ(flag, 1);
    SAYS(&status, 1);
    CALLED(&state, 1, 0);
    CHECK_OK(MPI_Test(&request, &flag, &status));
    CHECK_EQ(flag, 1);
    CHECK(request == MPI_REQUEST_NULL);
    SAYS(&status, 1);
    CALLED(&state, 2, 1);
    CHECK_EQ(order, 0);
    CHECK_CLASS(MPI_Wait(&kept, &status), MPI_ERR_REQUEST);
    CALLED(&state, 2, 1);

    request = start(&state, 2);
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE)); /* the query function always gets a status */
    CALLED(&state, 1, 1);
}

static void of_several(void)
{
    State states[3];
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int index = -1, flag = -1, count = -1, indices[4], value = 5, got = 0;
    for (int round = 0; round < 6; round++) {
        check_where("round %d", round);
        for (int i = 0; i < 3; i++) requests[i] = start(&states[i], 10 * round + i);
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, round, MPI_COMM_SELF, &requests[3]));
        CHECK_OK(MPI_Testany(4, requests, &index, &flag, statuses));
        CHECK_EQ(flag, 0);
        CHECK_OK(MPI_Testsome(4, requests, &count, indices, statuses));
        CHECK_EQ(count, 0);
        CHECK_OK(MPI_Testall(4, requests, &flag, statuses));
        CHECK_EQ(flag, 0);
        CHECK_OK(MPI_Grequest_complete(requests[1]));
        CHECK_OK(MPI_Testall(4, requests, &flag, statuses));
        CHECK_EQ(flag, 0);
        for (int i = 0; i < 3; i++) CALLED(&states[i], 0, 0);
        if (round == 0) {
            CHECK_OK(MPI_Waitany(4, requests, &index, &statuses[1]));
            CHECK_EQ(index, 1);
        } else if (round == 1) {
            CHECK_OK(MPI_Testany(4, requests, &index, &flag, &statuses[1]));
            CHECK(flag == 1 && index == 1);
        } else if (round == 2) {
            CHECK_OK(MPI_Waitsome(4, requests, &count, indices, &statuses[1]));
            CHECK(count == 1 && indices[0] == 1);
        } else if (round == 3) {
            CHECK_OK(MPI_Testsome(4, requests, &count, indices, &statuses[1]));
            CHECK(count == 1 && indices[0] == 1);
        }
        if (round < 4) {
            CHECK(requests[1] == MPI_REQUEST_NULL);
            SAYS(&statuses[1], 10 * round + 1);
            CALLED(&states[1], 1, 1);
        }
        CHECK_OK(MPI_Grequest_complete(requests[0]));
        CHECK_OK(MPI_Grequest_complete(requests[2]));
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, 0, round, MPI_COMM_SELF));
        if (round % 2 == 0) {
            CHECK_OK(MPI_Waitall(4, requests, statuses));
        } else {
            CHECK_OK(MPI_Testall(4, requests, &flag, statuses));
            CHECK_EQ(flag, 1);
        }
        for (int i = 0; i < 3; i++) {
            CHECK(requests[i] == MPI_REQUEST_NULL);
            CALLED(&states[i], 1, 1);
            if (i != 1 || round >= 4) SAYS(&statuses[i], 10 * round + i);
        }
        CHECK_STATUS(&statuses[3], 0, round, 4);
        CHECK_EQ(got, 5);
    }
    check_where("%s", "");
}

static void freed_and_cancelled(void)
{
    State state;
    MPI_Status status;
    MPI_Request request = start(&state, 3), kept = request;
    CHECK_OK(MPI_Request_free(&request)); /* before it is complete: complete calls the free function */
    CHECK(request == MPI_REQUEST_NULL);
    CALLED(&state, 0, 0);
    CHECK_OK(MPI_Grequest_complete(kept));
    CALLED(&state, 0, 1);
    CHECK_CLASS(MPI_Grequest_complete(kept), MPI_ERR_REQUEST);
    request = start(&state, 4);
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Request_free(&request)); /* after: here */
    CALLED(&state, 0, 1);

    request = start(&state, 5);
    CHECK_OK(MPI_Cancel(&request));
    CHECK_EQ(state.cancels, 1);
    CHECK_EQ(state.cancelled_complete, 0);
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_EQ(state.cancels, 2);
    CHECK_EQ(state.cancelled_complete, 1);
    state.cancel_code = MPI_ERR_IO;
    CHECK_CLASS(MPI_Cancel(&request), MPI_ERR_IO);
    CHECK_OK(MPI_Wait(&request, &status));
    int cancelled = -1;
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 1);
    CALLED(&state, 1, 1);
}

/* The call returns the error of the free function, which is called last; several errors are in
 * the statuses. */
static void errors(void)
{
    State states[2];
    MPI_Request requests[2] = {start(&states[0], 6), MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int flag, index, own;
    CHECK_OK(MPI_Add_error_class(&own));
    states[0].query_code = own;
    CHECK_OK(MPI_Grequest_complete(requests[0]));
    CHECK_CLASS(MPI_Request_get_status(requests[0], &flag, &statuses[0]), own);
    CHECK_EQ(flag, 1);
    states[0].free_code = MPI_ERR_IO;
    CHECK_CLASS(MPI_Wait(&requests[0], &statuses[0]), MPI_ERR_IO);
    CHECK(requests[0] == MPI_REQUEST_NULL);
    CALLED(&states[0], 2, 1);

    requests[0] = start(&states[0], 7);
    states[0].query_code = MPI_ERR_BUFFER;
    CHECK_OK(MPI_Grequest_complete(requests[0]));
    CHECK_CLASS(MPI_Wait(&requests[0], &statuses[0]), MPI_ERR_BUFFER);

    requests[0] = start(&states[0], 7);
    states[0].free_code = own;
    CHECK_OK(MPI_Grequest_complete(requests[0]));
    CHECK_CLASS(MPI_Waitany(2, requests, &index, &statuses[0]), own);
    CHECK_EQ(index, 0);

    for (int i = 0; i < 2; i++) requests[i] = start(&states[i], 8 + i);
    states[1].free_code = MPI_ERR_SPAWN;
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Grequest_complete(requests[i]));
    CHECK_CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
    CHECK_EQ(statuses[1].MPI_ERROR, MPI_ERR_SPAWN);
    SAYS(&statuses[0], 8);
    SAYS(&statuses[1], 9);

    requests[0] = start(&states[0], 10);
    states[0].free_code = MPI_ERR_IO;
    CHECK_OK(MPI_Grequest_complete(requests[0]));
    CHECK_CLASS(MPI_Request_free(&requests[0]), MPI_ERR_IO);
    CHECK(requests[0] == MPI_REQUEST_NULL);
    CALLED(&states[0], 0, 1);
}

static void wrong(void)
{
    State state;
    MPI_Request request, receive;
    int got;
    CHECK_CLASS(MPI_Grequest_start(NULL, release, cancel, &state, &request), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Grequest_start(query, NULL, cancel, &state, &request), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Grequest_start(query, release, NULL, &state, &request), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Grequest_start(query, release, cancel, &state, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &receive));
    CHECK_CLASS(MPI_Grequest_complete(receive), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Cancel(&receive));
    CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    request = start(&state, 12);
    MPI_Request stale = request;
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    request = start(&state, 13);
    CHECK_CLASS(MPI_Grequest_complete(stale), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_free(&stale), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Cancel(&stale), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CALLED(&state, 1, 1);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    of_one();
    of_several();
    freed_and_cancelled();
    errors();
    wrong();
    return check_end();
}
