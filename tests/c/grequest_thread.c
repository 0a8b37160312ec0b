// ranks: 1 2 4
// transports: one
/* A generalized request that another thread completes wakes a thread that sleeps in a wait for
 * it. */
#include "check.h"

#include <pthread.h>

static int queries = 0, frees = 0;

static int query(void *extra, MPI_Status *status)
{
    (void) extra;
    __atomic_fetch_add(&queries, 1, __ATOMIC_SEQ_CST);
    MPI_Status_set_tag(status, 77);
    MPI_Status_set_source(status, 3);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void) extra;
    __atomic_fetch_add(&frees, 1, __ATOMIC_SEQ_CST);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void) extra;
    (void) complete;
    return MPI_SUCCESS;
}

static void *complete(void *request)
{
    pause_ms(30);
    CHECK_OK(MPI_Grequest_complete(*(MPI_Request *) request));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1, rounds = scaled(10);
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, kept;
        MPI_Status status, statuses[2];
        pthread_t thread;
        int index = -1, count = -1, indices[2], got = 0;
        check_where("round %d", i);
        CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &requests[0]));
        kept = requests[0];
        if (i % 4 > 0) CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[1]));
        CHECK(pthread_create(&thread, NULL, complete, &kept) == 0);
        if (i % 4 == 0) {
            CHECK_OK(MPI_Wait(&requests[0], &status));
        } else if (i % 4 == 1) {
            CHECK_OK(MPI_Waitany(2, requests, &index, &status));
            CHECK_EQ(index, 0);
        } else if (i % 4 == 2) {
            CHECK_OK(MPI_Waitsome(2, requests, &count, indices, &status));
            CHECK(count == 1 && indices[0] == 0);
        } else {
            CHECK_OK(MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_SELF));
            CHECK_OK(MPI_Waitall(2, requests, statuses));
            status = statuses[0];
            CHECK_EQ(got, i);
        }
        CHECK(requests[0] == MPI_REQUEST_NULL);
        CHECK(status.MPI_TAG == 77 && status.MPI_SOURCE == 3);
        CHECK_EQ(queries, i + 1);
        CHECK_EQ(frees, i + 1);
        CHECK(pthread_join(thread, NULL) == 0);
        if (requests[1] != MPI_REQUEST_NULL) {
            CHECK_OK(MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_SELF));
            CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
            CHECK_EQ(got, i);
        }
    }
    return check_end();
}
