// ranks: 1 2 4 7
// transports: all
/* MPI_PROC_NULL: sends and receives that do nothing, with their exact statuses. */
#include "check.h"

static int buffer[4];

static void reset(MPI_Status *status)
{
    memset(buffer, 0x55, sizeof buffer);
    memset(status, 0x11, sizeof *status);
}

static void verify(const MPI_Status *status)
{
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    int cancelled = -1;
    CHECK_OK(MPI_Test_cancelled(status, &cancelled));
    CHECK_EQ(cancelled, 0);
    CHECK_EQ(bytes_differ(buffer, 0, sizeof buffer, 0x55), -1);
}

static void receives(MPI_Comm comm)
{
    MPI_Status status;
    MPI_Request request;
    int flag = -1;
    check_where("receives");
    reset(&status);
    CHECK_OK(MPI_Recv(buffer, 4, MPI_INT, MPI_PROC_NULL, 3, comm, &status));
    verify(&status);
    CHECK_OK(MPI_Recv(buffer, 4, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));

    reset(&status);
    CHECK_OK(MPI_Irecv(buffer, 4, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, &request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    verify(&status);

    reset(&status);
    CHECK_OK(MPI_Irecv(buffer, 4, MPI_INT, MPI_PROC_NULL, 9, comm, &request));
    CHECK_OK(MPI_Test(&request, &flag, &status));
    CHECK_EQ(flag, 1);
    verify(&status);

    reset(&status);
    CHECK_OK(MPI_Probe(MPI_PROC_NULL, 5, comm, &status));
    verify(&status);
    reset(&status);
    flag = -1;
    CHECK_OK(MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, comm, &flag, &status));
    CHECK_EQ(flag, 1);
    verify(&status);
}

static void sends(MPI_Comm comm)
{
    MPI_Request requests[5];
    check_where("sends");
    memset(buffer, 0x55, sizeof buffer);
    CHECK_OK(MPI_Send(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    CHECK_OK(MPI_Ssend(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    CHECK_OK(MPI_Rsend(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    CHECK_OK(MPI_Bsend(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    CHECK_OK(MPI_Isend(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[0]));
    CHECK_OK(MPI_Issend(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[1]));
    CHECK_OK(MPI_Irsend(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[2]));
    CHECK_OK(MPI_Ibsend(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[3]));
    CHECK_OK(MPI_Irecv(buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[4]));
    MPI_Status statuses[5];
    memset(statuses, 0x11, sizeof statuses);
    CHECK_OK(MPI_Waitall(5, requests, statuses));
    for (int i = 0; i < 5; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
    verify(&statuses[4]);
}

static void both(MPI_Comm comm)
{
    MPI_Status status;
    check_where("Sendrecv");
    reset(&status);
    CHECK_OK(MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, buffer, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &status));
    verify(&status);
}

static void shift(MPI_Comm comm)
{
    MPI_Status status;
    int up = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, down = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    check_where("shift along a line");
    for (int repeat = 0; repeat < 20; repeat++) {
        reset(&status);
        CHECK_OK(MPI_Sendrecv(&rank, 1, MPI_INT, up, 0, buffer, 1, MPI_INT, down, 0, comm, &status));
        if (down == MPI_PROC_NULL) {
            verify(&status);
        } else {
            CHECK_STATUS(&status, down, 0, 4);
            CHECK_EQ(buffer[0], down);
        }
        MPI_Request requests[4];
        MPI_Status statuses[4];
        int from_up = -1, from_down = -1;
        CHECK_OK(MPI_Irecv(&from_up, 1, MPI_INT, up, 1, comm, &requests[0]));
        CHECK_OK(MPI_Irecv(&from_down, 1, MPI_INT, down, 1, comm, &requests[1]));
        CHECK_OK(MPI_Isend(&rank, 1, MPI_INT, up, 1, comm, &requests[2]));
        CHECK_OK(MPI_Isend(&rank, 1, MPI_INT, down, 1, comm, &requests[3]));
        CHECK_OK(MPI_Waitall(4, requests, statuses));
        CHECK_EQ(from_up, up == MPI_PROC_NULL ? -1 : up);
        CHECK_EQ(from_down, down == MPI_PROC_NULL ? -1 : down);
        CHECK_STATUS(&statuses[0], up, up == MPI_PROC_NULL ? MPI_ANY_TAG : 1, up == MPI_PROC_NULL ? 0 : 4);
        CHECK_STATUS(&statuses[1], down, down == MPI_PROC_NULL ? MPI_ANY_TAG : 1, down == MPI_PROC_NULL ? 0 : 4);
    }
}

static void not_received(MPI_Comm comm)
{
    int flag = -1;
    check_where("wildcards");
    CHECK_OK(MPI_Barrier(comm));
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(comm));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int space = 4 * (16 + MPI_BSEND_OVERHEAD);
    void *memory = allocate(space);
    CHECK_OK(MPI_Buffer_attach(memory, space));
    MPI_Comm comms[3] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]));
    for (int i = 0; i < 3; i++) {
        receives(comms[i]);
        sends(comms[i]);
        both(comms[i]);
        if (i != 1) shift(comms[i]);
        not_received(comms[i]);
    }
    CHECK_OK(MPI_Comm_free(&comms[2]));
    CHECK_OK(MPI_Buffer_detach(&memory, &space));
    free(memory);
    return check_end();
}
