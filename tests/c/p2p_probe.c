// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy tcp-encrypted lamd ofi
/* Probe and Iprobe return source, tag and length of the message that the same receive would
 * take, and receive nothing. */
#include "check.h"

static int to, from;

static void unknown_lengths(int messages, int asking, int any_source, int any_tag)
{
    check_where("%s, source %s, tag %s", asking ? "Iprobe" : "Probe", any_source ? "any" : "given",
                any_tag ? "any" : "given");
    enum { LARGEST = 40000 };
    unsigned char *outs[4];
    MPI_Request sends[4];
    for (int i = 0; i < 4; i++) outs[i] = allocate(LARGEST);
    for (int first = 0; first < messages; first += 4) {
        for (int k = 0; k < 4; k++) {
            int i = first + k, length = (int) (drawn(rank, 9, i) % (i % 3 ? 200 : LARGEST));
            pattern_fill(outs[k], length, rank + i);
            CHECK_OK(MPI_Isend(outs[k], length, MPI_BYTE, to, i % 5, MPI_COMM_WORLD, &sends[k]));
        }
        for (int k = 0; k < 4; k++) {
            int i = first + k, length = (int) (drawn(from, 9, i) % (i % 3 ? 200 : LARGEST));
            int source = any_source ? MPI_ANY_SOURCE : from, tag = any_tag ? MPI_ANY_TAG : i % 5;
            MPI_Status status, again;
            int flag = 0;
            if (asking) {
                while (!flag) CHECK_OK(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, &status));
            } else {
                CHECK_OK(MPI_Probe(source, tag, MPI_COMM_WORLD, &status));
            }
            CHECK_STATUS(&status, from, i % 5, length);
            CHECK_OK(MPI_Probe(source, tag, MPI_COMM_WORLD, &again)); /* still there */
            CHECK_STATUS(&again, from, i % 5, length);
            flag = 0;
            CHECK_OK(MPI_Iprobe(source, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, 1);
            unsigned char *in = allocate(length);
            CHECK_OK(MPI_Recv(in, length, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &again));
            CHECK_STATUS(&again, from, i % 5, length);
            CHECK_EQ(pattern_differs(in, length, from + i), -1);
            free(in);
        }
        CHECK_OK(MPI_Waitall(4, sends, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; i < 4; i++) free(outs[i]);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void nothing_there(void)
{
    int flag = -1, value = 3, got = 0;
    MPI_Request send;
    check_where("nothing there");
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Isend(&value, 1, MPI_INT, to, 3, MPI_COMM_WORLD, &send));
    CHECK_OK(MPI_Probe(from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Iprobe(from, 4, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    if (size > 1) {
        CHECK_OK(MPI_Iprobe(rank, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
    }
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 3);
    CHECK_OK(MPI_Iprobe(from, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void behind_a_posted_receive(int bytes)
{
    check_where("behind a posted receive, %d bytes", bytes);
    unsigned char *memory = allocate(4 * (size_t) bytes + 8);
    MPI_Request sends[2], receive;
    MPI_Status status;
    for (int i = 0; i < 2; i++) {
        pattern_fill(memory + i * (bytes + 1), bytes + i, rank + i);
        CHECK_OK(MPI_Isend(memory + i * (bytes + 1), bytes + i, MPI_BYTE, to, 1, MPI_COMM_WORLD, &sends[i]));
    }
    unsigned char *in = memory + 2 * bytes + 2;
    CHECK_OK(MPI_Irecv(in, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, &receive));
    CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, from, 1, bytes + 1);
    CHECK_OK(MPI_Wait(&receive, &status));
    CHECK_STATUS(&status, from, 1, bytes);
    CHECK_EQ(pattern_differs(in, bytes, from), -1);
    CHECK_OK(MPI_Recv(in, bytes + 1, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(pattern_differs(in, bytes + 1, from + 1), -1);
    CHECK_OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    free(memory);
}

/* A specific probe skips earlier messages; a probe does not complete a synchronous send. */
static void skipping(void)
{
    int values[3] = {10, 11, 12}, got = 0, flag = -1;
    MPI_Request sends[3];
    MPI_Status status;
    check_where("skipping");
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Issend(values, i + 1, MPI_INT, to, i, MPI_COMM_WORLD, &sends[i]));
    CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, from, 2, 12);
    CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, from, 0, 4);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Testall(3, sends, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 2; i >= 0; i--) {
        int in[3] = {0};
        CHECK_OK(MPI_Recv(in, 3, MPI_INT, from, i, MPI_COMM_WORLD, &status));
        CHECK_STATUS(&status, from, i, 4 * (i + 1));
        got = in[i];
        CHECK_EQ(got, 10 + i);
    }
    CHECK_OK(MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void server(void)
{
    check_where("server");
    int each = scaled(50);
    if (rank != 0) {
        int *message = allocate(64 * sizeof *message);
        for (int i = 0; i < each; i++) {
            for (int k = 0; k < 64; k++) message[k] = rank * 1000 + i;
            CHECK_OK(MPI_Send(message, 1 + i % 64, MPI_INT, 0, rank, MPI_COMM_WORLD));
            int answer = -1;
            CHECK_OK(MPI_Recv(&answer, 1, MPI_INT, 0, 500, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(answer, (rank * 1000 + i) * (1 + i % 64));
        }
        free(message);
        return;
    }
    for (int i = 0; i < each * (size - 1); i++) {
        MPI_Status status;
        int count = 0, sum = 0, message[64];
        CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK_EQ(status.MPI_TAG, status.MPI_SOURCE);
        if (!CHECK(count >= 1 && count <= 64)) return;
        CHECK_OK(MPI_Recv(message, count, MPI_INT, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int k = 0; k < count; k++) sum += message[k];
        CHECK_OK(MPI_Send(&sum, 1, MPI_INT, status.MPI_SOURCE, 500, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    for (int asking = 0; asking < 2; asking++)
        for (int any = 0; any < 4; any++) unknown_lengths(scaled(80), asking, any & 1, any >> 1);
    nothing_there();
    behind_a_posted_receive(4);
    behind_a_posted_receive(3000);
    behind_a_posted_receive(100000);
    skipping();
    server();
    return check_end();
}
