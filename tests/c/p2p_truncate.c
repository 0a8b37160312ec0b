// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy usysv sysv tcp-encrypted lamd ofi
/* A message longer than its receive: MPI_ERR_TRUNCATE at the receiver, nothing written past the
 * buffer, and later messages are whole. */
#include "check.h"

static int to, from;

typedef int Starter(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* One message too long among good ones, by a blocking receive or a posted one, posted before the
 * send or after. */
static void among_good_ones(Starter *start, int sent, int room, int blocking, int posted_first)
{
    check_where("%d bytes into %d, %s, %s", sent, room, blocking ? "Recv" : "Irecv",
                posted_first ? "posted first" : "sent first");
    unsigned char *outs[3], *in = allocate(sent + 64);
    MPI_Request sends[3], receive = MPI_REQUEST_NULL;
    MPI_Status status;
    memset(in, 0xee, sent + 64);
    if (posted_first) {
        CHECK_OK(MPI_Irecv(in, room, MPI_BYTE, from, 1, MPI_COMM_WORLD, &receive));
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int i = 0; i < 3; i++) {
        outs[i] = allocate(sent);
        pattern_fill(outs[i], sent, 10 * rank + i);
        CHECK_OK(start(outs[i], sent, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[i]));
    }
    if (!posted_first) pause_ms(1);
    if (!posted_first && blocking) {
        CHECK_CLASS(MPI_Recv(in, room, MPI_BYTE, from, 1, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
    } else {
        if (!posted_first) CHECK_OK(MPI_Irecv(in, room, MPI_BYTE, from, 1, MPI_COMM_WORLD, &receive));
        CHECK_CLASS(MPI_Wait(&receive, &status), MPI_ERR_TRUNCATE);
        CHECK(receive == MPI_REQUEST_NULL);
    }
    CHECK_EQ(status.MPI_SOURCE, from);
    CHECK_EQ(status.MPI_TAG, 1);
    CHECK_EQ(bytes_differ(in, room, sent + 64, 0xee), -1);
    for (int i = 1; i < 3; i++) {
        memset(in, 0xee, sent + 64);
        CHECK_OK(MPI_Recv(in, sent + 64, MPI_BYTE, from, 1, MPI_COMM_WORLD, &status));
        CHECK_STATUS(&status, from, 1, sent);
        CHECK_EQ(pattern_differs(in, sent, 10 * from + i), -1);
        CHECK_EQ(bytes_differ(in, sent, sent + 64, 0xee), -1);
    }
    for (int i = 0; i < 3; i++) { /* the sender made no error */
        CHECK_OK(MPI_Wait(&sends[i], MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(outs[i], sent, 10 * rank + i), -1);
        free(outs[i]);
    }
    free(in);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void within_waitall(int bytes)
{
    enum { N = 6 };
    check_where("Waitall, %d bytes", bytes);
    unsigned char *outs = allocate(bytes), *ins[N];
    MPI_Request sends[N], receives[N];
    MPI_Status statuses[N];
    pattern_fill(outs, bytes, 3);
    for (int i = 0; i < N; i++) {
        ins[i] = allocate(bytes);
        int room = i % 3 == 1 ? bytes / 2 : bytes;
        CHECK_OK(MPI_Irecv(ins[i], room, MPI_BYTE, from, i, MPI_COMM_WORLD, &receives[i]));
    }
    for (int i = 0; i < N; i++) CHECK_OK(MPI_Isend(outs, bytes, MPI_BYTE, to, i, MPI_COMM_WORLD, &sends[i]));
    int code = MPI_Waitall(N, receives, statuses);
    CHECK_CLASS(code, MPI_ERR_IN_STATUS);
    for (int i = 0; i < N; i++) {
        /* After an error Waitall may leave others pending, which are waited for separately. */
        if (receives[i] != MPI_REQUEST_NULL) {
            CHECK_CLASS(statuses[i].MPI_ERROR, MPI_ERR_PENDING);
            statuses[i].MPI_ERROR = MPI_Wait(&receives[i], &statuses[i]);
        }
        if (i % 3 == 1) {
            CHECK_CLASS(statuses[i].MPI_ERROR, MPI_ERR_TRUNCATE);
        } else {
            CHECK_OK(statuses[i].MPI_ERROR);
            CHECK_STATUS(&statuses[i], from, i, bytes);
            CHECK_EQ(pattern_differs(ins[i], bytes, 3), -1);
        }
        free(ins[i]);
    }
    CHECK_OK(MPI_Waitall(N, sends, MPI_STATUSES_IGNORE));
    free(outs);
}

static void derived(void)
{
    enum { N = 2000 };
    static int values[N], got[4 * N];
    MPI_Datatype every_other;
    MPI_Request send;
    check_where("derived");
    memset(got, 0x55, sizeof got);
    CHECK_OK(MPI_Type_vector(N - 1, 1, 2, MPI_INT, &every_other));
    CHECK_OK(MPI_Type_commit(&every_other));
    CHECK_OK(MPI_Isend(values, N, MPI_INT, to, 0, MPI_COMM_WORLD, &send));
    CHECK_CLASS(MPI_Recv(got, 1, every_other, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_EQ(bytes_differ(got, (2 * (N - 2) + 1) * sizeof(int), sizeof got, 0x55), -1);
    for (int i = 0; i < N - 1; i++)
        if (!CHECK_EQ(got[2 * i + 1], 0x55555555)) break;
    CHECK_OK(MPI_Type_free(&every_other));
}

int main(int argc, char **argv)
{
    static const int cases[][2] = {{1, 0}, {8, 7}, {57, 56}, {100, 0}, {1000, 10}, {16384, 16383},
                                   {20000, 100}, {70000, 0}, {200000, 100000}, {200000, 199999}};
    check_begin(&argc, &argv);
    return_errors();
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int how = 0; how < 3; how++) {
            among_good_ones(MPI_Isend, cases[i][0], cases[i][1], how == 0, how == 2);
            among_good_ones(MPI_Issend, cases[i][0], cases[i][1], how == 0, how == 2);
        }
    within_waitall(64);
    within_waitall(100000);
    derived();
    return check_end();
}
