// ranks: 1 2 3 4 7
// transports: all
// every day: shm-denied shm-single-copy lamd ofi
/* Every send mode with every kind of receive, around the ring, at lengths on both sides of each
 * protocol change. */
#include "check.h"

enum { LARGEST = 100000, GUARD = 64 };

static unsigned char *out, *in;
static int right, left;

typedef int Starter(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
typedef int Sender(const void *, int, MPI_Datatype, int, int, MPI_Comm);

static const struct { const char *name; Sender *send; } senders[] = {
    {"Send", MPI_Send}, {"Ssend", MPI_Ssend}, {"Bsend", MPI_Bsend}, {"Rsend", MPI_Rsend}};
static const struct { const char *name; Starter *start; } starters[] = {
    {"Isend", MPI_Isend}, {"Issend", MPI_Issend}, {"Ibsend", MPI_Ibsend}, {"Irsend", MPI_Irsend}};

static void prepare(int bytes, unsigned seed)
{
    pattern_fill(out, bytes, seed + rank);
    memset(in, 0xee, bytes + GUARD);
}

static void verify(const MPI_Status *status, int tag, int bytes, unsigned seed)
{
    CHECK_STATUS(status, left, tag, bytes);
    CHECK_EQ(pattern_differs(in, bytes, seed + left), -1);
    CHECK_EQ(bytes_differ(in, bytes, bytes + GUARD, 0xee), -1);
    CHECK_EQ(pattern_differs(out, bytes, seed + rank), -1);
}

/* A message to the left neighbour says that the receive is posted, as a ready send requires; the
 * right one says the same. */
static void receives_are_posted(void)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, left, 999, NULL, 0, MPI_BYTE, right, 999, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ring(int bytes)
{
    MPI_Status status;
    MPI_Request requests[2];
    for (int i = 0; i < 4; i++) {
        check_where("%s of %d bytes", senders[i].name, bytes);
        prepare(bytes, bytes + i);
        CHECK_OK(MPI_Irecv(in, bytes + GUARD, MPI_BYTE, left, i, MPI_COMM_WORLD, &requests[0]));
        if (senders[i].send == MPI_Rsend) receives_are_posted();
        CHECK_OK(senders[i].send(out, bytes, MPI_BYTE, right, i, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&requests[0], &status));
        CHECK(requests[0] == MPI_REQUEST_NULL);
        verify(&status, i, bytes, bytes + i);
    }
    for (int i = 0; i < 4; i++) {
        check_where("%s of %d bytes", starters[i].name, bytes);
        prepare(bytes, bytes - i);
        CHECK_OK(MPI_Irecv(in, bytes, MPI_BYTE, left, i, MPI_COMM_WORLD, &requests[0]));
        if (starters[i].start == MPI_Irsend) receives_are_posted();
        CHECK_OK(starters[i].start(out, bytes, MPI_BYTE, right, i, MPI_COMM_WORLD, &requests[1]));
        MPI_Status both[2];
        CHECK_OK(MPI_Waitall(2, requests, both));
        verify(&both[0], i, bytes, bytes - i);
    }
    check_where("Sendrecv of %d bytes", bytes);
    prepare(bytes, bytes);
    CHECK_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, right, 77, in, bytes + GUARD, MPI_BYTE, left, 77, MPI_COMM_WORLD,
                          &status));
    verify(&status, 77, bytes, bytes);
}

static void blocking_chain(int bytes)
{
    if (size == 1) return;
    MPI_Status status;
    for (int i = 0; i < 3; i++) {
        check_where("blocking %s of %d bytes", senders[i].name, bytes);
        prepare(bytes, bytes + 5);
        if (rank % 2 == 0) CHECK_OK(senders[i].send(out, bytes, MPI_BYTE, right, 3, MPI_COMM_WORLD));
        CHECK_OK(MPI_Recv(in, bytes, MPI_BYTE, left, 3, MPI_COMM_WORLD, &status));
        if (rank % 2 == 1) CHECK_OK(senders[i].send(out, bytes, MPI_BYTE, right, 3, MPI_COMM_WORLD));
        verify(&status, 3, bytes, bytes + 5);
    }
}

static void large_count_forms(int bytes)
{
#if MPI_VERSION >= 4
    check_where("_c forms with %d bytes", bytes);
    MPI_Status status;
    MPI_Request requests[2];
    prepare(bytes, bytes);
    CHECK_OK(MPI_Irecv_c(in, bytes + GUARD, MPI_BYTE, left, 8, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Isend_c(out, bytes, MPI_BYTE, right, 8, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&requests[0], &status));
    verify(&status, 8, bytes, bytes);
    MPI_Count count = -1;
    CHECK_OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
    CHECK_EQ(count, bytes);

    prepare(bytes, bytes + 1);
    CHECK_OK(MPI_Isend(out, bytes, MPI_BYTE, right, 9, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Recv_c(in, bytes + GUARD, MPI_BYTE, left, 9, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    verify(&status, 9, bytes, bytes + 1);

    prepare(bytes, bytes + 2);
    CHECK_OK(MPI_Irecv(in, bytes, MPI_BYTE, left, 10, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Send_c(out, bytes, MPI_BYTE, right, 10, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&requests[0], &status));
    verify(&status, 10, bytes, bytes + 2);
#else
    (void) bytes;
#endif
}

static void all_pairs(int bytes)
{
    check_where("all pairs with %d bytes", bytes);
    unsigned char *outs = allocate((size_t) size * bytes), *ins = allocate((size_t) size * bytes);
    MPI_Request *requests = allocate(2 * size * sizeof *requests);
    for (int peer = 0; peer < size; peer++) {
        pattern_fill(outs + (size_t) peer * bytes, bytes, 100 * rank + peer);
        CHECK_OK(MPI_Irecv(ins + (size_t) peer * bytes, bytes, MPI_BYTE, peer, 4, MPI_COMM_WORLD, &requests[peer]));
    }
    for (int i = 0; i < size; i++) {
        int peer = (rank + i) % size;
        CHECK_OK(MPI_Isend(outs + (size_t) peer * bytes, bytes, MPI_BYTE, peer, 4, MPI_COMM_WORLD,
                           &requests[size + i]));
    }
    CHECK_OK(MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE));
    for (int peer = 0; peer < size; peer++)
        CHECK_EQ(pattern_differs(ins + (size_t) peer * bytes, bytes, 100 * peer + rank), -1);
    free(outs);
    free(ins);
    free(requests);
}

static void elements(void)
{
    check_where("elements");
    MPI_Status status;
    double values[9], received[9] = {0};
    for (int i = 0; i < 9; i++) values[i] = rank + i / 8.0;
    CHECK_OK(MPI_Sendrecv(values, 9, MPI_DOUBLE, right, 1, received, 9, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &status));
    int count = -1;
    CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK_EQ(count, 9);
    for (int i = 0; i < 9; i++) CHECK(received[i] == left + i / 8.0);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0,    1,    2,    3,    4,    7,    8,     9,     15,    16,    17,    31,    32,
                                33,   40,   47,   48,   49,   55,   56,    57,    63,    64,    65,    96,    120,
                                127,  128,  129,  191,  192,  193,  255,   256,   257,   511,   512,   513,   1000,
                                1023, 1024, 1025, 2048, 4031, 4032, 4095,  4096,  4097,  8191,  8192,  8193,  12000,
                                16320, 16383, 16384, 16385, 16448, 32767, 32768, 32769, 65535, 65536, 65537, LARGEST};
    check_begin(&argc, &argv);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    out = allocate(LARGEST + GUARD);
    in = allocate(LARGEST + GUARD);
    int space = 4 * (LARGEST + MPI_BSEND_OVERHEAD);
    CHECK_OK(MPI_Buffer_attach(allocate(space), space));
    int step = scaled(100) == 100 ? 1 : 7;
    for (int i = 0; i < (int) (sizeof sizes / sizeof sizes[0]); i += step) {
        ring(sizes[i]);
        blocking_chain(sizes[i]);
        large_count_forms(sizes[i]);
    }
    for (int bytes = 0; bytes < 300; bytes += 4 * step - 1) ring(bytes);
    all_pairs(40);
    all_pairs(5000);
    all_pairs(50000);
    elements();
    void *buffer;
    CHECK_OK(MPI_Buffer_detach(&buffer, &space));
    free(buffer);
    free(out);
    free(in);
    return check_end();
}
