// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy usysv sysv ofi
/* Matched probes: only the prober receives the found message, in every length, from any source,
 * once; it cannot be cancelled. */
#include "check.h"

enum { LENGTHS = 9, LONGEST = 1 << 20 };
static const int lengths[LENGTHS] = {0, 1, 56, 57, 500, 4096, 65536, 65537, LONGEST};
static unsigned char out[LONGEST], in[LONGEST];

static void every_length(int to, int from)
{
    for (int n = 0; n < LENGTHS; n++) {
        check_where("length %d", lengths[n]);
        pattern_fill(out, (size_t) lengths[n], (unsigned) (rank * 10 + n));
        MPI_Request sent;
        MPI_Isend(out, lengths[n], MPI_BYTE, to, n, MPI_COMM_WORLD, &sent);
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        if (n % 2) {
            MPI_Mprobe(from, n, MPI_COMM_WORLD, &message, &status);
        } else {
            int flag = 0;
            while (!flag) MPI_Improbe(MPI_ANY_SOURCE, n, MPI_COMM_WORLD, &flag, &message, &status);
        }
        CHECK_STATUS(&status, from, n, lengths[n]);
        CHECK(message != MPI_MESSAGE_NULL && message != MPI_MESSAGE_NO_PROC);
        CHECK(MPI_Message_fromint(MPI_Message_toint(message)) == message);
        int flag = 1;
        MPI_Iprobe(from, n, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK_EQ(flag, 0);
        memset(in, 0, sizeof in);
        if (n % 3) {
            MPI_Mrecv(in, lengths[n], MPI_BYTE, &message, &status);
        } else {
            MPI_Request received;
            MPI_Imrecv(in, lengths[n], MPI_BYTE, &message, &received);
            CHECK(message == MPI_MESSAGE_NULL);
            MPI_Wait(&received, &status);
        }
        CHECK(message == MPI_MESSAGE_NULL);
        CHECK_STATUS(&status, from, n, lengths[n]);
        CHECK_EQ(pattern_differs(in, (size_t) lengths[n], (unsigned) (from * 10 + n)), -1);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
}

/* The first of three messages of one tag is found; the others come in order, and before it. */
static void order(int to, int from)
{
    check_where("order");
    MPI_Request sent[3];
    int data[3] = {1, 2, 3}, got = 0;
    for (int i = 0; i < 3; i++) MPI_Issend(&data[i], 1, MPI_INT, to, 50, MPI_COMM_WORLD, &sent[i]);
    MPI_Message first;
    MPI_Mprobe(from, 50, MPI_COMM_WORLD, &first, MPI_STATUS_IGNORE);
    for (int want = 2; want <= 3; want++) {
        MPI_Recv(&got, 1, MPI_INT, from, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQ(got, want);
    }
    /* It is synchronous, and matched but not received. */
    MPI_Mrecv(&got, 1, MPI_INT, &first, MPI_STATUS_IGNORE);
    CHECK_EQ(got, 1);
    MPI_Waitall(3, sent, MPI_STATUSES_IGNORE);
}

static void errors(int to, int from)
{
    check_where("errors");
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int data[2] = {7, 8}, got[2] = {0, 0};
    MPI_Message message = MPI_MESSAGE_NULL;
    CHECK_CLASS(MPI_Mrecv(got, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Mprobe(size, 0, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Mprobe(0, -7, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    MPI_Request sent;
    MPI_Isend(data, 2, MPI_INT, to, 60, MPI_COMM_WORLD, &sent);
    MPI_Mprobe(from, 60, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    CHECK_CLASS(MPI_Mrecv(got, -1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Mrecv(got, 1, MPI_DATATYPE_NULL, &message, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    MPI_Message copy = message;
    CHECK_CLASS(MPI_Mrecv(got, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_EQ(got[0], 7);
    CHECK_EQ(got[1], 0);
    CHECK_CLASS(MPI_Mrecv(got, 2, MPI_INT, &copy, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

static void nobody(void)
{
    check_where("MPI_PROC_NULL");
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int flag = 0;
    MPI_Improbe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &message, &status);
    CHECK_EQ(flag, 1);
    CHECK(message == MPI_MESSAGE_NO_PROC);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    in[0] = 77;
    MPI_Mrecv(in, 10, MPI_BYTE, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL);
    CHECK_EQ(in[0], 77);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Request request;
    MPI_Imrecv(in, 10, MPI_BYTE, &message, &request);
    MPI_Wait(&request, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    every_length(to, from);
    order(to, from);
    nobody();
    errors(to, from);
    return check_end();
}
