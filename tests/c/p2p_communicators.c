// ranks: 2 4 7
// transports: all
// every day: shm-denied shm-single-copy usysv sysv tcp-encrypted nodes lamd
/* Every kind of point-to-point call on communicators of every kind, more at a time than the
 * library caches: other orders of ranks, duplicates, an intercommunicator, and communicators in
 * the place of freed ones. */
#include "check.h"

enum { MANY = 200, LENGTHS = 4, MOST = 3000 };

static const int lengths[LENGTHS] = { 0, 8, 57, MOST };
static unsigned char out[MOST], in[MOST];
static int kinds;
static int tag_now; /* another tag for each exchange of two ranks */

static void has_come(int kind, int length, int seed, int source, const MPI_Status *status)
{
    int count = -1;
    check_where("kind %d, %d bytes", kind, length);
    CHECK_OK(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK_EQ(count, length);
    CHECK_EQ(status->MPI_SOURCE, source);
    CHECK_EQ(status->MPI_TAG, tag_now);
    CHECK_EQ(pattern_differs(in, length, (unsigned) seed), -1);
}

static void exchange(int kind, int length, int to, int from, int me, MPI_Comm comm)
{
    MPI_Request both[2];
    MPI_Status said[2];
    int is_first = me % 2 == 0, flag = 0;
    for (int at = 0; at < length; at++) out[at] = pattern_byte((unsigned) me, at);
    memset(in, 0xee, sizeof in);
    switch (kind) {
    case 0:
        CHECK_OK(MPI_Send(out, length, MPI_BYTE, to, tag_now, comm));
        CHECK_OK(MPI_Recv(in, length, MPI_BYTE, from, tag_now, comm, &said[0]));
        break;
    case 1:
        CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, from, MPI_ANY_TAG, comm, &both[0]));
        CHECK_OK(MPI_Isend(out, length, MPI_BYTE, to, tag_now, comm, &both[1]));
        CHECK_OK(MPI_Waitall(2, both, said));
        CHECK(both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL);
        break;
    case 2:
        CHECK_OK(MPI_Sendrecv(out, length, MPI_BYTE, to, tag_now, in, length, MPI_BYTE, from, tag_now, comm, &said[0]));
        break;
    case 3:
        CHECK_OK(MPI_Recv_init(in, length, MPI_BYTE, from, tag_now, comm, &both[0]));
        CHECK_OK(MPI_Send_init(out, length, MPI_BYTE, to, tag_now, comm, &both[1]));
        for (int times = 0; times < 3; times++) {
            memset(in, 0xee, sizeof in);
            CHECK_OK(MPI_Startall(2, both));
            CHECK_OK(times == 1 ? MPI_Wait(&both[0], &said[0]) : MPI_Waitall(2, both, said));
            if (times == 1) CHECK_OK(MPI_Wait(&both[1], MPI_STATUS_IGNORE));
            CHECK(both[0] != MPI_REQUEST_NULL && both[1] != MPI_REQUEST_NULL);
            has_come(kind, length, from, from, &said[0]);
            CHECK_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        }
        CHECK_OK(MPI_Request_free(&both[0]));
        CHECK_OK(MPI_Request_free(&both[1]));
        break;
    case 4:
        CHECK_OK(MPI_Bsend(out, length, MPI_BYTE, to, tag_now, comm));
        while (!flag) CHECK_OK(MPI_Iprobe(from, tag_now, comm, &flag, &said[0]));
        CHECK_OK(MPI_Recv(in, length, MPI_BYTE, from, tag_now, comm, &said[0]));
        break;
    case 5:
        CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, MPI_ANY_SOURCE, tag_now, comm, &both[0]));
        CHECK_OK(MPI_Rsend(out, 0, MPI_BYTE, to, tag_now + 1, comm)); /* its receive waits, but for this one it does not matter */
        CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, from, tag_now + 1, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Send(out, length, MPI_BYTE, to, tag_now, comm));
        while (!flag) CHECK_OK(MPI_Test(&both[0], &flag, &said[0]));
        break;
    case 6:
        /* It has arrived, among others, before the probe. */
        if (is_first) CHECK_OK(MPI_Send(out, length, MPI_BYTE, to, tag_now, comm));
        CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, to, tag_now + 1, comm));
        if (!is_first) CHECK_OK(MPI_Send(out, length, MPI_BYTE, to, tag_now, comm));
        CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, from, tag_now + 1, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, from, tag_now, comm, &both[0]));
        CHECK_OK(MPI_Wait(&both[0], &said[0]));
        break;
    default:
        kinds = kind;
        return;
    }
    has_come(kind, length, from, from, &said[0]);
}

static void around(MPI_Comm comm, int length)
{
    int me, all;
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_size(comm, &all));
    for (int kind = 0; !kinds || kind < kinds; kind++)
        for (int step = 1; step < all && step < 3; step++)
            tag_now = 10 * kind + 2 * step, exchange(kind, length, (me + step) % all, (me + all - step) % all, me, comm);
}

static void is_refused(MPI_Comm comm)
{
    int me, all, flag;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    tag_now = 500;
    int to = (me + 1) % all, from = (me + all - 1) % all;
    CHECK_CLASS(MPI_Sendrecv(out, 8, MPI_BYTE, to, tag_now, in, 8, MPI_BYTE, all, tag_now, comm, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Sendrecv(out, 8, MPI_BYTE, to, tag_now, in, 8, MPI_BYTE, from, -7, comm, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Sendrecv(out, 8, MPI_BYTE, to, tag_now, in, -1, MPI_BYTE, from, tag_now, comm, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Send(out, 8, MPI_BYTE, -5, tag_now, comm), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(out, 8, MPI_BYTE, to, -1, comm), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Recv(in, 8, MPI_BYTE, all, tag_now, comm, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_OK(MPI_Barrier(comm));
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(comm));
    CHECK_OK(MPI_Sendrecv(out, 8, MPI_BYTE, MPI_PROC_NULL, tag_now, in, 8, MPI_BYTE, MPI_PROC_NULL, tag_now, comm, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_Sendrecv(out, 8, MPI_BYTE, to, tag_now, in, 4, MPI_BYTE, from, tag_now, comm, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
}

int main(int argc, char **argv)
{
    static char buffer[1 << 20];
    MPI_Comm reversed, many[MANY], halves, between, freed;
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Buffer_attach(buffer, sizeof buffer));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int at = 0; at < LENGTHS; at++) around(MPI_COMM_WORLD, lengths[at]);
    is_refused(MPI_COMM_WORLD);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
    for (int at = 0; at < LENGTHS; at++) around(reversed, lengths[at]);
    is_refused(reversed);
    /* More than are cached, some with the ranks in another order. */
    int count = scaled(MANY);
    for (int at = 0; at < count; at++)
        CHECK_OK(at % 3 ? MPI_Comm_dup(reversed, &many[at]) : MPI_Comm_split(MPI_COMM_WORLD, 0, rank ^ 1, &many[at]));
    for (int times = 0; times < 2; times++)
        for (int at = 0; at < count; at++) around(many[at], lengths[(at + times) % LENGTHS]);
    for (int at = 0; at < count; at++) {
        freed = many[at];
        CHECK_OK(MPI_Comm_free(&many[at]));
        if (at % 50 == 0) {
            /* Errors without a communicator go to the handler of MPI_COMM_SELF, or of
             * MPI_COMM_WORLD. */
            CHECK_CLASS(MPI_Send(out, 8, MPI_BYTE, 0, tag_now, freed), MPI_ERR_COMM);
            CHECK_CLASS(MPI_Recv(in, 8, MPI_BYTE, 0, tag_now, freed, MPI_STATUS_IGNORE), MPI_ERR_COMM);
        }
        if (at % 20 == 0) {
            MPI_Comm other;
            CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, at % 40 ? rank : -rank, &other));
            around(other, 8);
            CHECK_OK(MPI_Comm_free(&other));
        }
    }
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &halves));
    CHECK_OK(MPI_Intercomm_create(halves, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &between));
    int mine, others;
    CHECK_OK(MPI_Comm_rank(between, &mine));
    CHECK_OK(MPI_Comm_remote_size(between, &others));
    if (mine < others && mine < size / 2)
        for (int at = 0; at < LENGTHS; at++)
            for (int kind = 0; kind < kinds; kind++) exchange(kind, lengths[at], mine, mine, mine, between);
    CHECK_OK(MPI_Comm_free(&between));
    CHECK_OK(MPI_Comm_free(&halves));
    CHECK_OK(MPI_Comm_free(&reversed));
    void *detached;
    int length;
    CHECK_OK(MPI_Buffer_detach(&detached, &length));
    return check_end();
}
