// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy nodes lamd
/* The completion calls over mixtures of active, completed and null requests; statuses; freeing;
 * cancelling. */
#include "check.h"

enum { UNTOUCHED = 0x5a5a };

static int to, from;

static void send_int(int value, int tag)
{
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, to, tag, MPI_COMM_WORLD));
}

static void neighbour_is_ready(void)
{
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void check_empty(const MPI_Status *status)
{
    CHECK_STATUS(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    int cancelled = -1;
    CHECK_OK(MPI_Test_cancelled(status, &cancelled));
    CHECK_EQ(cancelled, 0);
}

static void only_null(int count)
{
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status, statuses[3];
    int index = 77, flag = 0, done = 77, indices[3];
    check_where("%d null requests", count);
    memset(&status, 0x11, sizeof status);
    CHECK_OK(MPI_Waitany(count, requests, &index, &status));
    CHECK_EQ(index, MPI_UNDEFINED);
    check_empty(&status);
    index = 77;
    memset(&status, 0x11, sizeof status);
    CHECK_OK(MPI_Testany(count, requests, &index, &flag, &status));
    CHECK_EQ(index, MPI_UNDEFINED);
    CHECK_EQ(flag, 1);
    check_empty(&status);
    CHECK_OK(MPI_Waitsome(count, requests, &done, indices, statuses));
    CHECK_EQ(done, MPI_UNDEFINED);
    done = 77;
    CHECK_OK(MPI_Testsome(count, requests, &done, indices, statuses));
    CHECK_EQ(done, MPI_UNDEFINED);
    memset(statuses, 0x11, sizeof statuses);
    CHECK_OK(MPI_Waitall(count, requests, statuses));
    for (int i = 0; i < count; i++) check_empty(&statuses[i]);
    memset(statuses, 0x11, sizeof statuses);
    flag = 0;
    CHECK_OK(MPI_Testall(count, requests, &flag, statuses));
    CHECK_EQ(flag, 1);
    for (int i = 0; i < count; i++) check_empty(&statuses[i]);
    CHECK_OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    if (count == 0) return;
    memset(&status, 0x11, sizeof status);
    CHECK_OK(MPI_Wait(&requests[0], &status));
    check_empty(&status);
    memset(&status, 0x11, sizeof status);
    flag = 0;
    CHECK_OK(MPI_Test(&requests[0], &flag, &status));
    CHECK_EQ(flag, 1);
    check_empty(&status);
    memset(&status, 0x11, sizeof status);
    flag = 0;
    CHECK_OK(MPI_Request_get_status(requests[0], &flag, &status));
    CHECK_EQ(flag, 1);
    check_empty(&status);
}

static void error_field_untouched(void)
{
    MPI_Status status;
    MPI_Request request;
    int got, index, flag = 0;
    for (int how = 0; how < 7; how++) {
        check_where("MPI_ERROR of single completion %d", how);
        MPI_Request send;
        memset(&status, 0, sizeof status);
        status.MPI_ERROR = UNTOUCHED;
        CHECK_OK(MPI_Isend(&how, 1, MPI_INT, to, how, MPI_COMM_WORLD, &send));
        if (how >= 2 && how < 6) CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, from, how, MPI_COMM_WORLD, &request));
        flag = 0;
        switch (how) {
        case 0: CHECK_OK(MPI_Recv(&got, 1, MPI_INT, from, how, MPI_COMM_WORLD, &status)); break;
        case 1:
            CHECK_OK(MPI_Probe(from, how, MPI_COMM_WORLD, &status));
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, from, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            break;
        case 2: CHECK_OK(MPI_Wait(&request, &status)); break;
        case 3: CHECK_OK(MPI_Waitany(1, &request, &index, &status)); break;
        case 4: while (!flag) CHECK_OK(MPI_Test(&request, &flag, &status)); break;
        case 5: while (!flag) CHECK_OK(MPI_Testany(1, &request, &index, &flag, &status)); break;
        default:
            CHECK_OK(MPI_Sendrecv(&how, 1, MPI_INT, to, 50, &got, 1, MPI_INT, from, 50, MPI_COMM_WORLD, &status));
            CHECK_STATUS(&status, from, 50, 4);
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, from, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            break;
        }
        CHECK_EQ(status.MPI_ERROR, UNTOUCHED);
        if (how < 6) CHECK_STATUS(&status, from, how, 4);
        CHECK_EQ(got, how);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
}

static void waitany(void)
{
    enum { N = 9 };
    MPI_Request requests[N];
    int got[N], seen[N] = {0};
    check_where("Waitany");
    for (int i = 0; i < N; i++) {
        requests[i] = MPI_REQUEST_NULL;
        if (i % 3 != 1) CHECK_OK(MPI_Irecv(&got[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]));
    }
    int index = -1, flag = -1;
    MPI_Status status;
    CHECK_OK(MPI_Testany(N, requests, &index, &flag, &status));
    CHECK_EQ(flag, 0);
    CHECK_EQ(index, MPI_UNDEFINED);
    neighbour_is_ready();
    for (int i = N - 1; i >= 0; i--)
        if (i % 3 != 1) send_int(100 + i, i);
    for (int k = 0; k < 6; k++) {
        CHECK_OK(MPI_Waitany(N, requests, &index, &status));
        if (!CHECK(index >= 0 && index < N && index % 3 != 1)) return;
        CHECK(requests[index] == MPI_REQUEST_NULL);
        CHECK_EQ(seen[index]++, 0);
        CHECK_EQ(got[index], 100 + index);
        CHECK_STATUS(&status, from, index, 4);
    }
    CHECK_OK(MPI_Waitany(N, requests, &index, &status));
    CHECK_EQ(index, MPI_UNDEFINED);
}

static void some(int testing)
{
    enum { N = 12 };
    MPI_Request requests[N];
    MPI_Status statuses[N];
    int got[N], indices[N], seen[N] = {0}, done = 77, total = 0;
    check_where(testing ? "Testsome" : "Waitsome");
    for (int i = 0; i < N; i++) {
        requests[i] = MPI_REQUEST_NULL;
        if (i % 4) CHECK_OK(MPI_Irecv(&got[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]));
    }
    CHECK_OK(MPI_Testsome(N, requests, &done, indices, statuses));
    CHECK_EQ(done, 0);
    neighbour_is_ready();
    for (int i = 0; i < N; i++)
        if (i % 4) send_int(200 + i, i);
    while (total < 9) {
        if (testing) {
            CHECK_OK(MPI_Testsome(N, requests, &done, indices, statuses));
        } else {
            CHECK_OK(MPI_Waitsome(N, requests, &done, indices, statuses));
            CHECK(done >= 1);
        }
        if (!CHECK(done >= 0 && done <= 9 - total)) return;
        for (int k = 0; k < done; k++) {
            int i = indices[k];
            if (!CHECK(i >= 0 && i < N && i % 4)) return;
            CHECK(requests[i] == MPI_REQUEST_NULL);
            CHECK_EQ(seen[i]++, 0);
            CHECK_EQ(got[i], 200 + i);
            CHECK_STATUS(&statuses[k], from, i, 4);
        }
        total += done;
    }
    CHECK_OK(MPI_Testsome(N, requests, &done, indices, statuses));
    CHECK_EQ(done, MPI_UNDEFINED);
}

static void testall(void)
{
    enum { N = 5 };
    MPI_Request requests[N];
    MPI_Status statuses[N];
    int got[N], flag = -1;
    check_where("Testall");
    for (int i = 0; i < N; i++) {
        requests[i] = MPI_REQUEST_NULL;
        if (i != 2) CHECK_OK(MPI_Irecv(&got[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]));
    }
    neighbour_is_ready();
    for (int i = 0; i < N - 1; i++)
        if (i != 2) send_int(i, i);
    for (int k = 0; k < 100; k++) {
        CHECK_OK(MPI_Testall(N, requests, &flag, statuses));
        CHECK_EQ(flag, 0);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[4] != MPI_REQUEST_NULL);
    }
    neighbour_is_ready();
    send_int(4, 4);
    flag = 0;
    while (!flag) CHECK_OK(MPI_Testall(N, requests, &flag, statuses));
    for (int i = 0; i < N; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL);
        if (i == 2) {
            check_empty(&statuses[i]);
        } else {
            CHECK_EQ(got[i], i);
            CHECK_STATUS(&statuses[i], from, i, 4);
        }
    }
}

static void waitall_mixed(void)
{
    MPI_Request requests[6];
    MPI_Status statuses[6];
    int a = 1, b = 2, got_a = 0, got_b = 0, flag = 0;
    check_where("Waitall of a mixture");
    CHECK_OK(MPI_Irecv(&got_a, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &requests[0]));
    requests[1] = MPI_REQUEST_NULL;
    CHECK_OK(MPI_Isend(&a, 1, MPI_INT, to, 0, MPI_COMM_WORLD, &requests[2]));
    CHECK_OK(MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[3]));
    while (!flag) CHECK_OK(MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Irecv(&got_b, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[4]));
    CHECK_OK(MPI_Isend(&b, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[5]));
    CHECK_OK(MPI_Waitall(6, requests, statuses));
    for (int i = 0; i < 6; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
    CHECK_EQ(got_a, 1);
    CHECK_EQ(got_b, 2);
    CHECK_STATUS(&statuses[0], from, 0, 4);
    check_empty(&statuses[1]);
    CHECK_STATUS(&statuses[3], MPI_PROC_NULL, MPI_ANY_TAG, 0);
    CHECK_STATUS(&statuses[4], from, 1, 4);
}

static void get_status(void)
{
    int got = 0, flag = -1;
    MPI_Request request;
    MPI_Status status;
    check_where("Request_get_status");
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, from, 4, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_EQ(flag, 0);
    neighbour_is_ready();
    send_int(9, 4);
    flag = 0;
    while (!flag) CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_STATUS(&status, from, 4, 4);
    CHECK_EQ(got, 9);
    memset(&status, 0, sizeof status);
    CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_EQ(flag, 1);
    CHECK_STATUS(&status, from, 4, 4);
    CHECK(request != MPI_REQUEST_NULL);
    memset(&status, 0, sizeof status);
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_STATUS(&status, from, 4, 4);
}

static void free_active(void)
{
    static const int sizes[] = {0, 40, 5000, 100000};
    check_where("Request_free");
    for (int i = 0; i < 4; i++) {
        unsigned char *out = allocate(sizes[i]), *in = allocate(sizes[i]);
        MPI_Request request;
        pattern_fill(out, sizes[i], rank);
        CHECK_OK(MPI_Isend(out, sizes[i], MPI_BYTE, to, 6, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Request_free(&request));
        CHECK(request == MPI_REQUEST_NULL);
        CHECK_OK(MPI_Recv(in, sizes[i], MPI_BYTE, from, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(in, sizes[i], from), -1);
        /* The answer shows that `to` has all of it: the send buffer is free. */
        CHECK_OK(MPI_Sendrecv(NULL, 0, MPI_INT, from, 7, NULL, 0, MPI_INT, to, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        free(out);
        free(in);
    }
    volatile int got = 0;
    MPI_Request request;
    CHECK_OK(MPI_Irecv((void *) &got, 1, MPI_INT, from, 8, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Request_free(&request));
    neighbour_is_ready();
    send_int(31, 8);
    int flag;
    while (got != 31) CHECK_OK(MPI_Iprobe(from, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    neighbour_is_ready();
}

static void cancel(void)
{
    int got = -1, cancelled = -1;
    MPI_Request request;
    MPI_Status status;
    check_where("Cancel");
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, from, 11, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK(request != MPI_REQUEST_NULL);
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 1);

    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Request_free(&request));
    neighbour_is_ready();

    MPI_Request send;
    int value = 12;
    CHECK_OK(MPI_Isend(&value, 1, MPI_INT, to, 11, MPI_COMM_WORLD, &send));
    int late = 0;
    CHECK_OK(MPI_Recv(&late, 1, MPI_INT, from, 11, MPI_COMM_WORLD, &status));
    CHECK_EQ(late, 12);
    CHECK_EQ(got, -1);
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 0);
    CHECK_OK(MPI_Wait(&send, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 0);

    int flag = 0;
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, from, 12, MPI_COMM_WORLD, &request));
    send_int(13, 12);
    while (!flag) CHECK_OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 0);
    CHECK_EQ(got, 13);
    CHECK_STATUS(&status, from, 12, 4);
}

static void cancel_race(void)
{
    check_where("Cancel against a match");
    for (int i = 0; i < scaled(300); i++) {
        int value = i, got = -1, cancelled = -1, late = -1;
        MPI_Request send, receive;
        MPI_Status status;
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, from, 13, MPI_COMM_WORLD, &receive));
        CHECK_OK(MPI_Isend(&value, 1, MPI_INT, to, 13, MPI_COMM_WORLD, &send));
        CHECK_OK(MPI_Cancel(&receive));
        CHECK_OK(MPI_Wait(&receive, &status));
        CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
        if (cancelled) {
            CHECK_EQ(got, -1);
            CHECK_OK(MPI_Recv(&late, 1, MPI_INT, from, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(late, i);
        } else {
            CHECK_EQ(got, i);
            CHECK_STATUS(&status, from, 13, 4);
        }
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
}

/* MPI_ERR_IN_STATUS from Waitall, Waitsome and Testall, with the right status of each request. */
static void error_in_status(int how)
{
    enum { N = 4 };
    MPI_Request requests[N];
    MPI_Status statuses[N];
    int got[N][2], indices[N], codes[N];
    check_where("error in status %d", how);
    for (int i = 0; i < N; i++) {
        codes[i] = -1;
        CHECK_OK(MPI_Irecv(got[i], i == 2 ? 1 : 2, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]));
    }
    neighbour_is_ready();
    for (int i = 0; i < N; i++) {
        int values[2] = {i, i + 1};
        CHECK_OK(MPI_Send(values, 2, MPI_INT, to, i, MPI_COMM_WORLD));
    }
    int left = N, errors = 0;
    while (left > 0) {
        int code, done = 0, flag = 1, class = -1;
        for (int i = 0; i < N; i++) statuses[i].MPI_ERROR = UNTOUCHED;
        MPI_Request before[N];
        memcpy(before, requests, sizeof before);
        if (how == 0) code = MPI_Waitall(N, requests, statuses);
        else if (how == 1) code = MPI_Waitsome(N, requests, &done, indices, statuses);
        else code = MPI_Testall(N, requests, &flag, statuses);
        MPI_Error_class(code, &class);
        if (!CHECK(class == MPI_SUCCESS || class == MPI_ERR_IN_STATUS)) return;
        if (class == MPI_ERR_IN_STATUS) errors++;
        if (how != 1 && class == MPI_SUCCESS && !flag) continue;
        int entries = how == 1 ? done : N;
        for (int k = 0; k < entries; k++) {
            int i = how == 1 ? indices[k] : k;
            if (before[i] == MPI_REQUEST_NULL || requests[i] != MPI_REQUEST_NULL) continue; /* pending, or reported before */
            codes[i] = class == MPI_SUCCESS ? MPI_SUCCESS : statuses[k].MPI_ERROR;
            left--;
            if (codes[i] == MPI_SUCCESS) CHECK_STATUS(&statuses[k], from, i, 8);
        }
    }
    CHECK(errors >= 1);
    for (int i = 0; i < N; i++) {
        if (i == 2) {
            CHECK_CLASS(codes[i], MPI_ERR_TRUNCATE);
        } else {
            CHECK_OK(codes[i]);
            CHECK_EQ(got[i][1], i + 1);
        }
    }
}

static void status_access(void)
{
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
    MPI_Status status;
    int value = -1;
    check_where("status access");
    memset(&status, 0, sizeof status);
    CHECK_OK(MPI_Status_set_source(&status, 3));
    CHECK_OK(MPI_Status_set_tag(&status, 4));
    CHECK_OK(MPI_Status_set_error(&status, MPI_ERR_TAG));
    CHECK_EQ(status.MPI_SOURCE, 3);
    CHECK_EQ(status.MPI_TAG, 4);
    CHECK_EQ(status.MPI_ERROR, MPI_ERR_TAG);
    CHECK_OK(MPI_Status_get_source(&status, &value));
    CHECK_EQ(value, 3);
    CHECK_OK(MPI_Status_get_tag(&status, &value));
    CHECK_EQ(value, 4);
    CHECK_OK(MPI_Status_get_error(&status, &value));
    CHECK_EQ(value, MPI_ERR_TAG);
#endif
}

static void complete_from_the_start(void)
{
    check_where("complete from the start");
    enum { COUNT = 5 };
    MPI_Request requests[COUNT];
    MPI_Status status;
    int outcount = 0, indices[COUNT], data = rank, index = -2;
    for (int i = 0; i < COUNT; i++) MPI_Isend(&data, 1, MPI_INT, MPI_PROC_NULL, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitsome(COUNT, requests, &outcount, indices, MPI_STATUSES_IGNORE);
    CHECK_EQ(outcount, COUNT);
    for (int i = 0; i < outcount; i++) CHECK_EQ(indices[i], i);
    /* Nothing to wait for: the status is empty. */
    memset(&status, 0x77, sizeof status);
    MPI_Waitany(COUNT, requests, &index, &status);
    CHECK_EQ(index, MPI_UNDEFINED);
    CHECK_STATUS(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    CHECK_EQ(status.MPI_ERROR, MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    for (int count = 0; count <= 3; count++) only_null(count);
    error_field_untouched();
    waitany();
    some(0);
    some(1);
    testall();
    waitall_mixed();
    get_status();
    free_active();
    cancel();
    cancel_race();
    for (int how = 0; how < 3; how++) error_in_status(how);
    status_access();
    complete_from_the_start();
    return check_end();
}
