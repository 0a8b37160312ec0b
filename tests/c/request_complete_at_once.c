// ranks: 2
// transports: all
/* Receives that are complete when they are started, in all calls that take a request, also by
 * its integer: their results, and that none is reported twice. */
#include "check.h"

enum { ROUNDS = 200, MANY = 70, LAST_TAG = 2147483647 };

static void send_all(const int *tags, int count)
{
    unsigned char bytes[64];
    for (int n = 0; n < count; n++) {
        memset(bytes, n, sizeof bytes);
        CHECK_OK(MPI_Send(bytes, n % 57, MPI_BYTE, 1, tags[n], MPI_COMM_WORLD));
    }
}

static void check_message(const unsigned char *bytes, const MPI_Status *status, int tag, int n)
{
    int count;
    CHECK_EQ(status->MPI_SOURCE, 0);
    CHECK_EQ(status->MPI_TAG, tag);
    CHECK_OK(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK_EQ(count, n % 57);
    int is_cancelled;
    CHECK_OK(MPI_Test_cancelled(status, &is_cancelled));
    CHECK(!is_cancelled);
    for (int i = 0; i < count; i++) CHECK_EQ(bytes[i], n & 0xff);
}

static unsigned char into[MANY][64];
static MPI_Request requests[MANY];
static MPI_Status statuses[MANY];

static void start_all(const int *tags, int count, int any)
{
    for (int n = 0; n < count; n++)
        CHECK_OK(MPI_Irecv(into[n], 64, MPI_BYTE, any ? MPI_ANY_SOURCE : 0, any ? MPI_ANY_TAG : tags[n], MPI_COMM_WORLD,
                           &requests[n]));
}

static void receive_all(const int *tags, int count, int way)
{
    int flag, at, done;
    check_where("way %d", way);
    start_all(tags, count, way % 2);
    switch (way / 2) {
    case 0:
        CHECK_OK(MPI_Waitall(count, requests, statuses));
        break;
    case 1:
        for (int n = count; n-- > 0;) CHECK_OK(MPI_Wait(&requests[n], &statuses[n]));
        break;
    case 2:
        for (int n = 0; n < count; n++)
            do CHECK_OK(MPI_Test(&requests[n], &flag, &statuses[n]));
            while (!flag);
        break;
    case 3:
        for (done = 0; done < count;) {
            int more, indices[MANY];
            MPI_Status some[MANY];
            CHECK_OK(MPI_Testsome(count, requests, &more, indices, some));
            CHECK(more != MPI_UNDEFINED);
            if (more == MPI_UNDEFINED) return;
            for (int i = 0; i < more; i++) statuses[indices[i]] = some[i];
            done += more;
        }
        break;
    case 4:
        for (done = 0; done < count; done++) {
            MPI_Status one;
            CHECK_OK(MPI_Waitany(count, requests, &at, &one));
            CHECK(at >= 0 && at < count);
            if (at < 0 || at >= count) return;
            statuses[at] = one;
        }
        break;
    case 5:
        do CHECK_OK(MPI_Testall(count, requests, &flag, statuses));
        while (!flag);
        break;
    case 6:
        for (int n = 0; n < count; n++) {
            do CHECK_OK(MPI_Request_get_status(requests[n], &flag, &statuses[n]));
            while (!flag);
            CHECK(requests[n] != MPI_REQUEST_NULL);
            CHECK_OK(MPI_Cancel(&requests[n]));
            CHECK_OK(MPI_Request_free(&requests[n]));
        }
        break;
    default:
        for (int n = 0; n < count; n++) {
            int number = MPI_Request_toint(requests[n]);
            MPI_Request same = MPI_Request_fromint(number);
            for (int k = 0; k < n; k++) CHECK(number != MPI_Request_toint(requests[k]));
            CHECK_EQ(MPI_Request_toint(same), number);
            CHECK_OK(MPI_Wait(&same, &statuses[n]));
            CHECK(same == MPI_REQUEST_NULL);
            same = MPI_Request_fromint(number);
            CHECK_CLASS(MPI_Wait(&same, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
            CHECK_CLASS(MPI_Wait(&requests[n], MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
            requests[n] = MPI_REQUEST_NULL;
        }
    }
    for (int n = 0; n < count; n++) {
        CHECK(requests[n] == MPI_REQUEST_NULL);
        check_message(into[n], &statuses[n], tags[n], n);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int tags[MANY];
    for (int round = 0; round < scaled(ROUNDS); round++) {
        /* Equal tags, different ones, or the largest one. */
        for (int n = 0; n < MANY; n++) tags[n] = round % 3 == 0 ? 7 : round % 3 == 1 ? n * 30000001 % LAST_TAG : LAST_TAG;
        int way = round % 16;
        /* Few: the integers of requests are slow to compare. */
        int count = way / 2 == 7 ? 9 : 1 + round % MANY;
        if (rank == 0) send_all(tags, count);
        if (rank == 1) {
            /* Usually all have arrived then, and no call has polled. */
            usleep(500);
            receive_all(tags, count, way);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Request none = (MPI_Request) (intptr_t) -1;
    CHECK_CLASS(MPI_Wait(&none, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    return check_end();
}
