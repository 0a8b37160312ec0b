// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy tcp-encrypted lamd ofi
/* Persistent requests: started again and again in all modes, inactive ones in the wait families,
 * freed and cancelled. */
#include "check.h"

enum { ROUNDS = 20, MODES = 4, LENGTH = 30000 };
static int out[MODES][LENGTH], in[MODES][LENGTH];

typedef int Init(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static void all_modes(int to, int from)
{
    static Init *const inits[MODES] = {MPI_Send_init, MPI_Bsend_init, MPI_Ssend_init, MPI_Rsend_init};
    static const int lengths[MODES] = {LENGTH, 100, 10, 1};
    static char space[4096];
    MPI_Buffer_attach(space, sizeof space);
    MPI_Request requests[2 * MODES], before[2 * MODES];
    for (int m = 0; m < MODES; m++) {
        inits[m](out[m], lengths[m], MPI_INT, to, m, MPI_COMM_WORLD, &requests[MODES + m]);
        MPI_Recv_init(in[m], lengths[m], MPI_INT, from, m, MPI_COMM_WORLD, &requests[m]);
    }
    memcpy(before, requests, sizeof before);
    for (int round = 0; round < ROUNDS; round++) {
        check_where("round %d", round);
        for (int m = 0; m < MODES; m++)
            for (int i = 0; i < lengths[m]; i++) out[m][i] = rank + round * 100 + m * 10000 + i;
        /* The ready send needs its receive. */
        MPI_Startall(MODES, requests);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int m = 0; m < MODES; m++) MPI_Start(&requests[MODES + m]);
        MPI_Status statuses[2 * MODES];
        MPI_Waitall(2 * MODES, requests, statuses);
        CHECK_EQ(memcmp(before, requests, sizeof before), 0);
        for (int m = 0; m < MODES; m++) {
            CHECK_STATUS(&statuses[m], from, m, lengths[m] * (int) sizeof(int));
            for (int i = 0; i < lengths[m]; i++)
                if (!CHECK_EQ(in[m][i], from + round * 100 + m * 10000 + i)) break;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int m = 0; m < 2 * MODES; m++) {
        MPI_Request_free(&requests[m]);
        CHECK(requests[m] == MPI_REQUEST_NULL);
    }
    void *gone;
    int bytes;
    MPI_Buffer_detach(&gone, &bytes);
    CHECK(gone == space);
}

static void inactive(void)
{
    check_where("inactive");
    MPI_Request two[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int data = 0, mine = 5;
    MPI_Recv_init(&data, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, &two[1]);
    MPI_Request recv = two[1];
    MPI_Status status;
    memset(&status, 0x55, sizeof status);
    MPI_Wait(&two[1], &status);
    CHECK_STATUS(&status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    CHECK(two[1] == recv);
    int index = 7, flag = 0, outcount = 7, indices[2];
    MPI_Test(&two[1], &flag, &status);
    CHECK_EQ(flag, 1);
    MPI_Waitany(2, two, &index, &status);
    CHECK_EQ(index, MPI_UNDEFINED);
    MPI_Testany(2, two, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED);
    MPI_Waitsome(2, two, &outcount, indices, MPI_STATUSES_IGNORE);
    CHECK_EQ(outcount, MPI_UNDEFINED);
    MPI_Testall(2, two, &flag, MPI_STATUSES_IGNORE);
    CHECK_EQ(flag, 1);
    MPI_Request_get_status(two[1], &flag, &status);
    CHECK_EQ(flag, 1);

    MPI_Start(&two[1]);
    MPI_Testany(2, two, &index, &flag, &status);
    CHECK_EQ(flag, 0);
    MPI_Request_get_status(two[1], &flag, &status);
    CHECK_EQ(flag, 0);
    MPI_Send(&mine, 1, MPI_INT, rank, 9, MPI_COMM_WORLD);
    MPI_Request_get_status(two[1], &flag, &status);
    CHECK_EQ(flag, 1);
    CHECK_STATUS(&status, rank, 9, 4);
    MPI_Waitany(2, two, &index, &status);
    CHECK_EQ(index, 1);
    CHECK_EQ(data, 5);
    CHECK(two[1] == recv);
    MPI_Waitany(2, two, &index, &status);
    CHECK_EQ(index, MPI_UNDEFINED);

    MPI_Start(&two[1]);
    MPI_Cancel(&two[1]);
    MPI_Wait(&two[1], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQ(flag, 1);
    MPI_Start(&two[1]);
    mine = 6;
    MPI_Send(&mine, 1, MPI_INT, rank, 9, MPI_COMM_WORLD);
    MPI_Wait(&two[1], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQ(flag, 0);
    CHECK_EQ(data, 6);
    MPI_Request_free(&two[1]);
}

static void freed_while_active(int to, int from)
{
    check_where("freed while active");
    static char far[200000], near[200000];
    MPI_Request request;
    memset(far, rank + 1, sizeof far);
    MPI_Send_init(far, sizeof far, MPI_CHAR, to, 11, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    MPI_Request_free(&request);
    MPI_Recv(near, sizeof near, MPI_CHAR, from, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(bytes_differ(near, 0, sizeof near, (unsigned char) (from + 1)), -1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void nobody(void)
{
    check_where("MPI_PROC_NULL");
    int data = 3;
    MPI_Request two[2];
    MPI_Status statuses[2];
    MPI_Send_init(&data, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &two[0]);
    MPI_Recv_init(&data, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &two[1]);
    for (int round = 0; round < 3; round++) {
        MPI_Startall(2, two);
        MPI_Waitall(2, two, statuses);
        CHECK_STATUS(&statuses[1], MPI_PROC_NULL, MPI_ANY_TAG, 0);
        CHECK_EQ(data, 3);
    }
    MPI_Request_free(&two[0]);
    MPI_Request_free(&two[1]);
}

static void errors(void)
{
    check_where("errors");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    return_errors();
    int data = 0;
    MPI_Request request = MPI_REQUEST_NULL, two[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    MPI_Irecv(&data, 1, MPI_INT, rank, 20, MPI_COMM_WORLD, &request);
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_CLASS(MPI_Send_init(&data, 1, MPI_INT, size, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send_init(&data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Recv_init(&data, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
    MPI_Recv_init(&data, 1, MPI_INT, rank, 21, MPI_COMM_WORLD, &two[0]);
    MPI_Request kept = two[0];
    CHECK_CLASS(MPI_Startall(2, two), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Start(&two[0]));
    CHECK_CLASS(MPI_Start(&two[0]), MPI_ERR_REQUEST);
    MPI_Cancel(&two[0]);
    MPI_Wait(&two[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&two[0]);
    CHECK_CLASS(MPI_Start(&kept), MPI_ERR_REQUEST);
    /* The length of a buffered send is computed at its start. */
    MPI_Bsend_init(&data, 1, MPI_INT, rank, 22, MPI_COMM_WORLD, &request);
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_BUFFER);
    MPI_Request_free(&request);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    all_modes(to, from);
    inactive();
    freed_while_active(to, from);
    nobody();
    errors();
    return check_end();
}
