// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy usysv sysv tcp-encrypted lamd ofi
/* Buffered sends: they return with and without a receive, detach and finalize deliver, and space
 * is used again. */
#include "check.h"

static int to, from;

static char *attach(int bytes)
{
    char *buffer = allocate(bytes);
    CHECK_OK(MPI_Buffer_attach(buffer, bytes));
    return buffer;
}

static void detach(char *buffer, int bytes)
{
    void *got = NULL;
    int got_bytes = -1;
    CHECK_OK(MPI_Buffer_detach(&got, &got_bytes));
    CHECK(got == buffer);
    CHECK_EQ(got_bytes, bytes);
    free(buffer);
}

/* Every rank buffers all its messages before any receive: a send that waits for its receiver
 * would hang here. */
static void nobody_receives_yet(int messages, int bytes)
{
    check_where("%d messages of %d bytes", messages, bytes);
    int space = messages * (bytes + MPI_BSEND_OVERHEAD);
    char *buffer = attach(space);
    unsigned char *memory = allocate(bytes);
    for (int i = 0; i < messages; i++) {
        pattern_fill(memory, bytes, 50 * rank + i);
        if (i % 2) {
            CHECK_OK(MPI_Bsend(memory, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD));
        } else {
            MPI_Request request;
            CHECK_OK(MPI_Ibsend(memory, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        memset(memory, 0, bytes); /* the message is a copy by now */
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < messages; i++) {
        MPI_Status status;
        CHECK_OK(MPI_Recv(memory, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, &status));
        CHECK_STATUS(&status, from, 1, bytes);
        CHECK_EQ(pattern_differs(memory, bytes, 50 * from + i), -1);
    }
    detach(buffer, space);
    free(memory);
}

static void detach_delivers(int bytes)
{
    enum { MESSAGES = 6 };
    check_where("detach with %d bytes a message", bytes);
    unsigned char *memory = allocate(bytes);
    if (rank % 2 == 0 && rank + 1 < size) {
        int space = MESSAGES * (bytes + MPI_BSEND_OVERHEAD);
        char *buffer = attach(space);
        for (int i = 0; i < MESSAGES; i++) {
            pattern_fill(memory, bytes, i);
            CHECK_OK(MPI_Bsend(memory, bytes, MPI_BYTE, rank + 1, 2, MPI_COMM_WORLD));
        }
        void *got;
        int got_bytes;
        CHECK_OK(MPI_Buffer_detach(&got, &got_bytes));
        CHECK(got == buffer);
        memset(buffer, 0xff, space);
        free(buffer);
    } else if (rank % 2 == 1) {
        pause_ms(30);
        for (int i = 0; i < MESSAGES; i++) {
            CHECK_OK(MPI_Recv(memory, bytes, MPI_BYTE, rank - 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(pattern_differs(memory, bytes, i), -1);
        }
    }
    free(memory);
}

static void space_comes_back(int rounds)
{
    enum { BYTES = 3000 };
    check_where("space comes back");
    int space = 8 * (BYTES + MPI_BSEND_OVERHEAD);
    char *buffer = attach(space);
    unsigned char out[BYTES], in[BYTES];
    for (int i = 0; i < rounds; i++) {
        int bytes = (int) (drawn(7, 7, i) % (BYTES + 1));
        pattern_fill(out, bytes, rank + i);
        CHECK_OK(MPI_Bsend(out, bytes, MPI_BYTE, to, 3, MPI_COMM_WORLD));
        CHECK_OK(MPI_Recv(in, BYTES, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(in, bytes, from + i), -1);
        if (i % 4 == 3) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD)); /* no rank is ahead of its receiver */
    }
    detach(buffer, space);
}

static void overflow(void)
{
    static char big[10000];
    int small = 42, got = 0;
    check_where("overflow");
    int space = 100 + MPI_BSEND_OVERHEAD;
    char *buffer = attach(space);
    CHECK_CLASS(MPI_Bsend(big, sizeof big, MPI_BYTE, to, 4, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_OK(MPI_Bsend(&small, 1, MPI_INT, to, 4, MPI_COMM_WORLD));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 42);
    CHECK(MPI_Buffer_attach(big, sizeof big) != MPI_SUCCESS); /* one is attached: no class is prescribed */
    detach(buffer, space);
    CHECK_CLASS(MPI_Bsend(big, sizeof big, MPI_BYTE, to, 4, MPI_COMM_WORLD), MPI_ERR_BUFFER);
}

static void strided(void)
{
    enum { N = 1000 };
    int values[3 * N], got[N];
    MPI_Datatype third;
    check_where("strided");
    for (int i = 0; i < 3 * N; i++) values[i] = rank * 10000 + i;
    CHECK_OK(MPI_Type_vector(N, 1, 3, MPI_INT, &third));
    CHECK_OK(MPI_Type_commit(&third));
    int space = N * (int) sizeof(int) + MPI_BSEND_OVERHEAD;
    char *buffer = attach(space);
    CHECK_OK(MPI_Bsend(values, 1, third, to, 5, MPI_COMM_WORLD));
    CHECK_OK(MPI_Type_free(&third));
    memset(values, 0, sizeof values);
    CHECK_OK(MPI_Recv(got, N, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        if (!CHECK_EQ(got[i], from * 10000 + 3 * i)) break;
    detach(buffer, space);
}

/* Programs for other libraries are compiled with a smaller overhead; that of Intel MPI is least. */
static void overhead_of_another_library(void)
{
    static char data[1000];
    check_where("the overhead of another library");
    int space = (int) sizeof data + 88;
    char *buffer = attach(space);
    CHECK_OK(MPI_Bsend(data, sizeof data, MPI_BYTE, to, 8, MPI_COMM_WORLD));
    CHECK_OK(MPI_Recv(data, sizeof data, MPI_BYTE, from, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    detach(buffer, space);
}

static void automatic(void)
{
#ifdef MPI_BUFFER_AUTOMATIC
    enum { MESSAGES = 20, BYTES = 40000 };
    check_where("automatic buffer");
    unsigned char *memory = allocate(BYTES);
    CHECK_OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    for (int i = 0; i < MESSAGES; i++) {
        pattern_fill(memory, BYTES, rank + i);
        CHECK_OK(MPI_Bsend(memory, BYTES, MPI_BYTE, to, 6, MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_OK(MPI_Recv(memory, BYTES, MPI_BYTE, from, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(memory, BYTES, from + i), -1);
    }
    void *got = NULL;
    int bytes;
    CHECK_OK(MPI_Buffer_detach(&got, &bytes));
    CHECK(got == MPI_BUFFER_AUTOMATIC);
    free(memory);
#endif
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    /* Attaching a second buffer is an error without a communicator, so it is raised on
     * MPI_COMM_SELF. */
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    nobody_receives_yet(scaled(3000), 16);
    nobody_receives_yet(100, 10000);
    nobody_receives_yet(30, 100000);
    detach_delivers(100);
    detach_delivers(100000);
    space_comes_back(scaled(400));
    overflow();
    strided();
    overhead_of_another_library();
    automatic();

    /* Finalize delivers too. The verdict is printed by then, so a failure is in the exit code. */
    static unsigned char last[50000];
    int space = (int) sizeof last + MPI_BSEND_OVERHEAD;
    char *buffer = attach(space);
    pattern_fill(last, sizeof last, rank);
    CHECK_OK(MPI_Bsend(last, sizeof last, MPI_BYTE, to, 7, MPI_COMM_WORLD));
    int total = check_total();
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    fflush(stdout);
    if (rank % 2) pause_ms(50);
    CHECK_OK(MPI_Recv(last, sizeof last, MPI_BYTE, from, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(pattern_differs(last, sizeof last, from), -1);
    MPI_Finalize();
    free(buffer);
    return total != 0 || check_failures != 0;
}
