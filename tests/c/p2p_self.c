// ranks: 1 2 4 7
// transports: one
/* Messages of a rank to itself: every mode, short and long, expected and unexpected. */
#include "check.h"

enum { LONG = 1 << 20 };

static unsigned char *out, *in;

typedef int Starter(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
static Starter *const starters[] = {MPI_Isend, MPI_Issend, MPI_Ibsend, MPI_Irsend};
typedef int Sender(const void *, int, MPI_Datatype, int, int, MPI_Comm);
static Sender *const senders[] = {MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend};

static void prepare(int bytes, unsigned seed)
{
    pattern_fill(out, bytes, seed);
    memset(in, 0xee, bytes + 16);
}

static void verify(const MPI_Status *status, int me, int tag, int bytes, unsigned seed)
{
    CHECK_STATUS(status, me, tag, bytes);
    CHECK_EQ(pattern_differs(in, bytes, seed), -1);
    CHECK_EQ(bytes_differ(in, bytes, bytes + 16, 0xee), -1);
}

static void all_modes(MPI_Comm comm, int bytes)
{
    int me;
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Comm_rank(comm, &me);
    for (int mode = 0; mode < 4; mode++) {
        check_where("mode %d, %d bytes, receive first", mode, bytes);
        prepare(bytes, bytes + mode);
        CHECK_OK(MPI_Irecv(in, bytes + 16, MPI_BYTE, me, mode, comm, &requests[0]));
        CHECK_OK(senders[mode](out, bytes, MPI_BYTE, me, mode, comm));
        CHECK_OK(MPI_Wait(&requests[0], &status));
        verify(&status, me, mode, bytes, bytes + mode);

        prepare(bytes, bytes - mode);
        CHECK_OK(MPI_Irecv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]));
        CHECK_OK(starters[mode](out, bytes, MPI_BYTE, me, mode, comm, &requests[1]));
        CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&requests[0], &status));
        verify(&status, me, mode, bytes, bytes - mode);
    }
    for (int mode = 0; mode < 3; mode++) {
        check_where("mode %d, %d bytes, send first", mode, bytes);
        prepare(bytes, bytes + mode);
        CHECK_OK(starters[mode](out, bytes, MPI_BYTE, me, mode, comm, &requests[0]));
        if (mode == 1) {
            int flag = -1;
            CHECK_OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, 0);
        }
        CHECK_OK(MPI_Probe(me, mode, comm, &status));
        CHECK_STATUS(&status, me, mode, bytes);
        CHECK_OK(MPI_Recv(in, bytes + 16, MPI_BYTE, me, mode, comm, &status));
        verify(&status, me, mode, bytes, bytes + mode);
        CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    }
    check_where("Sendrecv, %d bytes", bytes);
    prepare(bytes, bytes);
    CHECK_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, me, 3, in, bytes + 16, MPI_BYTE, me, MPI_ANY_TAG, comm, &status));
    verify(&status, me, 3, bytes, bytes);
}

static void synchronous_waits(void)
{
    int value = 7, got = 0, flag = -1;
    MPI_Request send;
    check_where("Issend to self");
    CHECK_OK(MPI_Issend(&value, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &send));
    for (int i = 0; i < 50; i++) {
        CHECK_OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
    }
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 7);
}

static void queue(void)
{
    enum { COUNT = 1000 };
    static int values[COUNT];
    static MPI_Request sends[COUNT];
    check_where("queue to self");
    for (int i = 0; i < COUNT; i++) {
        values[i] = i;
        CHECK_OK(MPI_Isend(&values[i], 1, MPI_INT, rank, i % 2, MPI_COMM_WORLD, &sends[i]));
    }
    for (int tag = 1; tag >= 0; tag--)
        for (int i = tag; i < COUNT; i += 2) {
            int got = -1;
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(got, i);
        }
    CHECK_OK(MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE));
}

static void two_communicators(void)
{
    int a = 1, b = 2, got = 0;
    MPI_Request sends[2];
    check_where("two communicators");
    CHECK_OK(MPI_Isend(&a, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &sends[0]));
    CHECK_OK(MPI_Isend(&b, 1, MPI_INT, 0, 0, MPI_COMM_SELF, &sends[1]));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 2);
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 1);
    CHECK_OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
}

static void types(void)
{
    enum { N = 5000 };
    static int values[2 * N], got[N];
    MPI_Datatype every_other;
    MPI_Request request;
    check_where("types to self");
    for (int i = 0; i < 2 * N; i++) values[i] = i;
    CHECK_OK(MPI_Type_vector(N, 1, 2, MPI_INT, &every_other));
    CHECK_OK(MPI_Type_commit(&every_other));
    CHECK_OK(MPI_Isend(values, 1, every_other, rank, 0, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(got, N, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        if (!CHECK_EQ(got[i], 2 * i)) break;
    memset(values, 0, sizeof values);
    CHECK_OK(MPI_Sendrecv(got, N, MPI_INT, rank, 0, values, 1, every_other, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2 * N; i++)
        if (!CHECK_EQ(values[i], i % 2 ? 0 : i)) break;
    CHECK_OK(MPI_Type_free(&every_other));
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 1, 56, 57, 1000, 16384, 16385, 65536, 70000, LONG};
    check_begin(&argc, &argv);
    out = allocate(LONG + 16);
    in = allocate(LONG + 16);
    int space = 2 * (LONG + MPI_BSEND_OVERHEAD);
    CHECK_OK(MPI_Buffer_attach(allocate(space), space));
    MPI_Comm copy;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        all_modes(MPI_COMM_WORLD, sizes[i]);
        all_modes(MPI_COMM_SELF, sizes[i]);
        all_modes(copy, sizes[i]);
    }
    synchronous_waits();
    queue();
    two_communicators();
    types();
    CHECK_OK(MPI_Comm_free(&copy));
    void *buffer;
    CHECK_OK(MPI_Buffer_detach(&buffer, &space));
    free(buffer);
    free(out);
    free(in);
    return check_end();
}
