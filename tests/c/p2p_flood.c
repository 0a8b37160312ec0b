// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy tcp-encrypted lamd ofi
/* Floods: far more messages in flight than any ring or queue holds, while the receiver does
 * other work. */
#include "check.h"

enum { MESSAGES = 20000, LONGEST = 64 };

static int length_of(int from, int i) { return (int) (drawn(from, 3, i) % (LONGEST + 1)); }

/* Isends to the right neighbour, a pause without MPI calls, then the receives. */
static void ring_flood(int messages, int tags, int backwards)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    check_where("ring flood, %d tags%s", tags, backwards ? ", read backwards" : "");
    unsigned char *outs = allocate((size_t) messages * LONGEST), in[LONGEST + 1];
    MPI_Request *sends = allocate(messages * sizeof *sends);
    for (int i = 0; i < messages; i++) {
        pattern_fill(outs + (size_t) i * LONGEST, length_of(rank, i), i + rank);
        CHECK_OK(MPI_Isend(outs + (size_t) i * LONGEST, length_of(rank, i), MPI_BYTE, to, i % tags, MPI_COMM_WORLD,
                           &sends[i]));
    }
    pause_ms(150);
    for (int k = 0; k < messages; k++) {
        int i = backwards ? messages - 1 - k : k;
        MPI_Status status;
        CHECK_OK(MPI_Recv(in, LONGEST, MPI_BYTE, from, i % tags, MPI_COMM_WORLD, &status));
        CHECK_STATUS(&status, from, i % tags, length_of(from, i));
        CHECK_EQ(pattern_differs(in, length_of(from, i), i + from), -1);
    }
    CHECK_OK(MPI_Waitall(messages, sends, MPI_STATUSES_IGNORE));
    free(outs);
    free(sends);
}

/* All ranks flood rank 0, which sleeps first; then it receives from any source. */
static void one_sink(int messages)
{
    check_where("one sink");
    if (rank == 0) {
        pause_ms(150);
        int *next = calloc(size, sizeof *next);
        for (int k = 0; k < messages * (size - 1); k++) {
            int value[2] = {-1, -1};
            MPI_Status status;
            CHECK_OK(MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status));
            if (!CHECK(value[0] > 0 && value[0] < size)) continue;
            CHECK_STATUS(&status, value[0], 2, 8);
            CHECK_EQ(value[1], next[value[0]]++);
        }
        free(next);
        return;
    }
    int *values = allocate((size_t) messages * 2 * sizeof *values);
    MPI_Request *sends = allocate(messages * sizeof *sends);
    for (int i = 0; i < messages; i++) {
        values[2 * i] = rank;
        values[2 * i + 1] = i;
        CHECK_OK(MPI_Isend(&values[2 * i], 2, MPI_INT, 0, 2, MPI_COMM_WORLD, &sends[i]));
    }
    CHECK_OK(MPI_Waitall(messages, sends, MPI_STATUSES_IGNORE));
    free(values);
    free(sends);
}

static void posted_flood(int messages)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    check_where("posted flood");
    int *outs = allocate(messages * sizeof *outs), *ins = allocate(messages * sizeof *ins);
    MPI_Request *requests = allocate(2 * (size_t) messages * sizeof *requests);
    for (int k = 0; k < messages; k++)
        CHECK_OK(MPI_Irecv(&ins[k], 1, MPI_INT, from, 1 + (messages - 1 - k) / 8, MPI_COMM_WORLD, &requests[k]));
    for (int i = 0; i < messages; i++) {
        outs[i] = i;
        CHECK_OK(MPI_Isend(&outs[i], 1, MPI_INT, to, 1 + i / 8, MPI_COMM_WORLD, &requests[messages + i]));
    }
    CHECK_OK(MPI_Waitall(2 * messages, requests, MPI_STATUSES_IGNORE));
    int *next = calloc(messages / 8 + 2, sizeof *next);
    for (int k = 0; k < messages; k++) {
        int group = (messages - 1 - k) / 8;
        CHECK_EQ(ins[k], 8 * group + next[group]++);
    }
    free(next);
    free(outs);
    free(ins);
    free(requests);
}

/* The sends are complete, the sender computes; its messages arrive without further calls or with
 * the next one. */
static void sender_computes(int messages)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    check_where("sender computes");
    int *outs = allocate(messages * sizeof *outs), value = -1;
    MPI_Request *sends = allocate(messages * sizeof *sends);
    if (rank % 2 == 0) {
        for (int i = 0; i < messages; i++) {
            outs[i] = i;
            CHECK_OK(MPI_Isend(&outs[i], 1, MPI_INT, to, 3, MPI_COMM_WORLD, &sends[i]));
        }
        pause_ms(200);
        CHECK_OK(MPI_Waitall(messages, sends, MPI_STATUSES_IGNORE));
    }
    if (from % 2 == 0) {
        for (int i = 0; i < messages; i++) {
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(value, i);
        }
    }
    free(outs);
    free(sends);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int messages = scaled(MESSAGES) / size + 1;
    ring_flood(messages, 1, 0);
    ring_flood(messages, 7, 0);
    ring_flood(scaled(2000), scaled(2000), 1);
    MPI_Barrier(MPI_COMM_WORLD);
    one_sink(messages);
    MPI_Barrier(MPI_COMM_WORLD); /* the sink receives from any source, so no other message may come meanwhile */
    posted_flood(messages / 4 + 8);
    if (size > 1) sender_computes(messages);
    return check_end();
}
