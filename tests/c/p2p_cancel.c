// ranks: 1 2 4
// transports: all
// every day: shm-single-copy usysv sysv tcp-encrypted lamd
// not over: ofi, because a provider that matches messages takes no send back
/* MPI_Cancel of sends: an unmatched message comes back, and no rank receives it; a matched one
 * goes on. */
#include "check.h"

enum { LONG = 1 << 20 };

static int next, before;
static char *long_out, *long_in;

static int cancelled(MPI_Request *request)
{
    MPI_Status status;
    int flag = -1;
    CHECK_OK(MPI_Wait(request, &status));
    CHECK(*request == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    return flag;
}

/* Sends that wait when they are cancelled, of each kind; then one behind them, which is
 * received. */
static void unmatched(void)
{
    MPI_Request short_send, long_send, receive;
    int value = 1, got = 0;
    check_where("unmatched");
    CHECK_OK(MPI_Issend(&value, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &short_send));
    CHECK_OK(MPI_Issend(long_out, LONG, MPI_CHAR, next, 1, MPI_COMM_WORLD, &long_send));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Cancel(&long_send));
    CHECK_OK(MPI_Cancel(&short_send));
    CHECK_EQ(cancelled(&short_send), 1);
    CHECK_EQ(cancelled(&long_send), 1);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &receive));
    value = 2;
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, next, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 2);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void matched(void)
{
    MPI_Request send, receive;
    MPI_Message message;
    MPI_Status status;
    int value = 3, got = 0;
    check_where("matched");
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, before, 2, MPI_COMM_WORLD, &receive));
    CHECK_OK(MPI_Issend(&value, 1, MPI_INT, next, 2, MPI_COMM_WORLD, &send));
    CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Cancel(&send));
    CHECK_EQ(cancelled(&send), 0);
    CHECK_EQ(got, 3);

    check_where("probed");
    CHECK_OK(MPI_Issend(long_out, LONG, MPI_CHAR, next, 3, MPI_COMM_WORLD, &send));
    CHECK_OK(MPI_Mprobe(before, 3, MPI_COMM_WORLD, &message, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Cancel(&send));
    memset(long_in, 0, LONG);
    CHECK_OK(MPI_Imrecv(long_in, LONG, MPI_CHAR, &message, &receive));
    CHECK_EQ(cancelled(&send), 0);
    CHECK_OK(MPI_Wait(&receive, &status));
    CHECK(memcmp(long_in, long_out, LONG) == 0);

    check_where("buffered");
    char room[MPI_BSEND_OVERHEAD + 64];
    int size_of_room;
    void *place;
    CHECK_OK(MPI_Buffer_attach(room, sizeof room));
    CHECK_OK(MPI_Ibsend(&value, 1, MPI_INT, next, 4, MPI_COMM_WORLD, &send));
    CHECK_OK(MPI_Cancel(&send));
    CHECK_EQ(cancelled(&send), 0);
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Buffer_detach(&place, &size_of_room));
    MPI_Barrier(MPI_COMM_WORLD);
}

static void persistent(void)
{
    MPI_Request send;
    MPI_Status status;
    int value = 5, got = 0, flag = -1;
    check_where("persistent");
    CHECK_OK(MPI_Ssend_init(&value, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &send));
    for (int turn = 0; turn < 3; turn++) {
        CHECK_OK(MPI_Start(&send));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Cancel(&send));
        CHECK_OK(MPI_Wait(&send, &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK_EQ(flag, 1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK_OK(MPI_Start(&send));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 5);
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&send));
}

static void freed(void)
{
    MPI_Request send, other;
    int value = 6, got = 0, flag = -1;
    check_where("freed");
    CHECK_OK(MPI_Issend(&value, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &send));
    CHECK_OK(MPI_Cancel(&send));
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Isend(&value, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &other));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Iprobe(before, 6, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
}

/* The cancel races with the match: exactly one of them happens. Each round has its tag, as a
 * sender may be a round ahead. */
static void raced(void)
{
    int turns = scaled(2000), back = 0;
    check_where("raced");
    for (int turn = 0; turn < turns; turn++) {
        MPI_Request send, receive;
        int value = turn, got = -1, mine, its;
        int count = turn % 3 == 0 ? LONG / 8 : 1;
        int *out = count == 1 ? &value : (int *) long_out, *in = count == 1 ? &got : (int *) long_in;
        out[0] = turn;
        in[0] = -1;
        if (turn % 2) CHECK_OK(MPI_Irecv(in, count, MPI_INT, before, 10 + turn, MPI_COMM_WORLD, &receive));
        CHECK_OK(MPI_Issend(out, count, MPI_INT, next, 10 + turn, MPI_COMM_WORLD, &send));
        for (volatile int i = 0; i < turn % 64 * 16; i++) {}
        if (turn % 2 == 0) CHECK_OK(MPI_Irecv(in, count, MPI_INT, before, 10 + turn, MPI_COMM_WORLD, &receive));
        CHECK_OK(MPI_Cancel(&send));
        mine = cancelled(&send);
        CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, next, 9, &its, 1, MPI_INT, before, 9, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE));
        if (its) CHECK_OK(MPI_Cancel(&receive));
        if (!CHECK_EQ(cancelled(&receive), its) || !CHECK_EQ(in[0], its ? -1 : turn)) break;
        back += mine;
    }
    if (size > 1 && getenv("SHOW_RACES")) printf("rank %d: %d of %d came back\n", rank, back, turns);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    long_out = allocate(LONG);
    long_in = allocate(LONG);
    for (int i = 0; i < LONG; i++) long_out[i] = (char) (i * 7);
    unmatched();
    matched();
    persistent();
    freed();
    raced();
    free(long_out);
    free(long_in);
    return check_end();
}
