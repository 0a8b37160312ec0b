// ranks: 2 4
// transports: all
/* References to a freed communicator: persistent requests, failed ones, error handlers. And an
 * error of one rank in a collective call must not make the others wait. */
#include "comms.h"

static MPI_Comm told = MPI_COMM_WORLD;
static int calls;

static void tell(MPI_Comm *comm, int *code, ...)
{
    (void) code;
    told = *comm;
    calls++;
}

static void persistent(int to, int from)
{
    check_where("persistent");
    enum { OTHERS = 1100 };
    MPI_Comm comm, other;
    MPI_Request two[2];
    int out = rank, in = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Send_init(&out, 1, MPI_INT, to, 5, comm, &two[0]);
    MPI_Recv_init(&in, 1, MPI_INT, from, 5, comm, &two[1]);
    MPI_Comm_free(&comm);
    for (int i = 0; i < OTHERS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        MPI_Comm_free(&other);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    for (int round = 0; round < 3; round++) {
        out = rank + 10 * round;
        CHECK_OK(MPI_Startall(2, two));
        int flag = 1;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, MPI_STATUS_IGNORE);
        CHECK_EQ(flag, 0);
        CHECK_OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
        CHECK_EQ(in, from + 10 * round);
    }
    MPI_Request_free(&two[0]);
    MPI_Request_free(&two[1]);
    MPI_Comm_free(&other);
}

static void handlers(int to, int from)
{
    check_where("handlers");
    MPI_Errhandler handler;
    MPI_Comm grid, dup;
    MPI_Request request;
    int dims[1] = {size}, periods[1] = {1}, two[2] = {1, 2}, one = 0;
    MPI_Comm_create_errhandler(tell, &handler);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    MPI_Comm_set_errhandler(grid, handler);
    MPI_Irecv(&one, 1, MPI_INT, from, 0, grid, &request);
    MPI_Send(two, 2, MPI_INT, to, 0, grid);
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK(told == grid);
    CHECK_EQ(calls, 1);
    /* The errors of a start and of a matched receive are the communicator's. */
    MPI_Bsend_init(two, 2, MPI_INT, to, 0, grid, &request);
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_BUFFER);
    CHECK_EQ(calls, 2);
    MPI_Request_free(&request);
    MPI_Message message;
    MPI_Send(two, 2, MPI_INT, to, 1, grid);
    MPI_Mprobe(from, 1, grid, &message, MPI_STATUS_IGNORE);
    CHECK_CLASS(MPI_Mrecv(two, -1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    CHECK_EQ(calls, 3);
    MPI_Mrecv(two, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Comm_free(&grid);

    /* The handler gets the right communicator also after it was freed. */
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_errhandler(dup, handler);
    MPI_Irecv(&one, 1, MPI_INT, from, 0, dup, &request);
    MPI_Send(two, 2, MPI_INT, to, 0, dup);
    MPI_Comm was = dup;
    MPI_Comm_free(&dup);
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK(told == was);
    MPI_Errhandler_free(&handler);
}

static void one_is_wrong(void)
{
    check_where("one is wrong");
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request;
    MPI_Info info, gone;
    MPI_Info_create(&info);
    gone = info;
    MPI_Info_free(&info);
    return_errors();
    if (rank == 0) {
        CHECK_CLASS(MPI_Comm_dup(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
        CHECK_CLASS(MPI_Comm_idup_with_info(MPI_COMM_WORLD, gone, &made, &request), MPI_ERR_INFO);
        CHECK_CLASS(MPI_Comm_idup(MPI_COMM_WORLD, NULL, &request), MPI_ERR_ARG);
    } else {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
        MPI_Comm_free(&made);
        for (int i = 0; i < 2; i++) {
            CHECK_OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            MPI_Comm_free(&made);
        }
    }
    int sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(sum, size);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    persistent(to, from);
    handlers(to, from);
    one_is_wrong();
    return check_end();
}
