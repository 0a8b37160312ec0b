// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy usysv sysv tcp-encrypted nodes lamd ofi
/* Any source and any tag: which messages match, in which order, and that no fast path overtakes
 * them. */
#include "check.h"

enum { TAG = 5, LARGEST = 60000 };

/* All ranks send to rank 0, which receives from any source; each sender's messages arrive in its
 * order. */
static void many_to_one(void)
{
    int each = scaled(300);
    check_where("many to one");
    if (rank != 0) {
        for (int i = 0; i < each; i++) {
            int message[2] = {rank, i};
            CHECK_OK(MPI_Send(message, 2, MPI_INT, 0, 10 + i % 3, MPI_COMM_WORLD));
        }
        return;
    }
    int *next = calloc(size, sizeof *next);
    for (int i = 0; i < each * (size - 1); i++) {
        int message[2] = {-1, -1};
        MPI_Status status;
        CHECK_OK(MPI_Recv(message, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        if (!CHECK(message[0] > 0 && message[0] < size)) continue;
        CHECK_STATUS(&status, message[0], 10 + message[1] % 3, 8);
        CHECK_EQ(message[1], next[message[0]]++);
    }
    free(next);
}

/* Two receives in this order that both match messages of the left neighbour: the first posted
 * takes the first sent. The second one is a blocking call: it must not overtake the posted one.
 * `any` gives a wildcard source. */
static void posted_before(int first_any, int first_tag, int second_any, int second_tag, int bytes, int synchronized)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    check_where("receives (%d, %d) then (%d, %d), %d bytes%s", first_any, first_tag, second_any, second_tag, bytes,
                synchronized ? ", posted before the send" : "");
    unsigned char *memory = allocate(4 * (size_t) bytes), *first = memory + 2 * bytes, *second = memory + 3 * bytes;
    MPI_Request sends[2], receive;
    MPI_Status status;
    if (!synchronized)
        for (int i = 0; i < 2; i++) {
            pattern_fill(memory + i * bytes, bytes, 100 * rank + i);
            CHECK_OK(MPI_Isend(memory + i * bytes, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &sends[i]));
        }
    CHECK_OK(MPI_Irecv(first, bytes, MPI_BYTE, first_any ? MPI_ANY_SOURCE : from, first_tag, MPI_COMM_WORLD,
                       &receive));
    if (synchronized) {
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 2; i++) {
            pattern_fill(memory + i * bytes, bytes, 100 * rank + i);
            CHECK_OK(MPI_Isend(memory + i * bytes, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &sends[i]));
        }
    }
    CHECK_OK(MPI_Recv(second, bytes, MPI_BYTE, second_any ? MPI_ANY_SOURCE : from, second_tag, MPI_COMM_WORLD,
                      &status));
    CHECK_STATUS(&status, from, TAG, bytes);
    CHECK_OK(MPI_Wait(&receive, &status));
    CHECK_STATUS(&status, from, TAG, bytes);
    CHECK_EQ(pattern_differs(first, bytes, 100 * from), -1);
    CHECK_EQ(pattern_differs(second, bytes, 100 * from + 1), -1);
    CHECK_OK(MPI_Waitall(2, sends, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    free(memory);
}

/* A specific receive posted first does not take other messages, and is before the later
 * wildcards. */
static void specific_before_wild(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int values[3] = {90, 80, 81}, got[3] = {0};
    MPI_Request receives[3], sends[3];
    MPI_Status statuses[3];
    check_where("specific before wild");
    CHECK_OK(MPI_Irecv(&got[0], 1, MPI_INT, from, 8, MPI_COMM_WORLD, &receives[0]));
    CHECK_OK(MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receives[1]));
    CHECK_OK(MPI_Irecv(&got[2], 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &receives[2]));
    CHECK_OK(MPI_Isend(&values[0], 1, MPI_INT, to, 9, MPI_COMM_WORLD, &sends[0]));
    CHECK_OK(MPI_Isend(&values[1], 1, MPI_INT, to, 8, MPI_COMM_WORLD, &sends[1]));
    CHECK_OK(MPI_Isend(&values[2], 1, MPI_INT, to, 8, MPI_COMM_WORLD, &sends[2]));
    CHECK_OK(MPI_Waitall(3, receives, statuses));
    CHECK_OK(MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));
    CHECK_EQ(got[0], 80);
    CHECK_EQ(got[1], 90);
    CHECK_EQ(got[2], 81);
    CHECK_STATUS(&statuses[0], from, 8, 4);
    CHECK_STATUS(&statuses[1], from, 9, 4);
    CHECK_STATUS(&statuses[2], from, 8, 4);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void collectives_invisible(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int got = -1, sum = 0, root_value = rank == 0 ? 42 : 0;
    MPI_Request receive;
    MPI_Status status;
    check_where("collectives under a posted wildcard");
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_OK(MPI_Bcast(&root_value, 1, MPI_INT, 0, MPI_COMM_WORLD));
    CHECK_EQ(sum, size * (size - 1) / 2);
    CHECK_EQ(root_value, 42);
    int flag = -1;
    CHECK_OK(MPI_Test(&receive, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Send(&rank, 1, MPI_INT, to, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&receive, &status));
    CHECK_STATUS(&status, from, 0, 4);
    CHECK_EQ(got, from);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void everyone_to_everyone(void)
{
    enum { EACH = 20 };
    int total = size * EACH;
    int *got = allocate(total * sizeof *got), *seen = calloc(total, sizeof *seen);
    int outs[EACH];
    MPI_Request *receives = allocate(total * sizeof *receives), *sends = allocate(total * sizeof *sends);
    MPI_Status *statuses = allocate(total * sizeof *statuses);
    check_where("everyone to everyone");
    for (int k = 0; k < total; k++)
        CHECK_OK(MPI_Irecv(&got[k], 1, MPI_INT, MPI_ANY_SOURCE, k % 2 ? MPI_ANY_TAG : TAG, MPI_COMM_WORLD, &receives[k]));
    for (int i = 0; i < EACH; i++) {
        outs[i] = rank * EACH + i;
        for (int to = 0; to < size; to++)
            CHECK_OK(MPI_Isend(&outs[i], 1, MPI_INT, to, TAG, MPI_COMM_WORLD, &sends[i * size + to]));
    }
    CHECK_OK(MPI_Waitall(total, receives, statuses));
    CHECK_OK(MPI_Waitall(total, sends, MPI_STATUSES_IGNORE));
    int last[64];
    for (int i = 0; i < 64; i++) last[i] = -1;
    for (int k = 0; k < total; k++) {
        if (!CHECK(got[k] >= 0 && got[k] < total)) continue;
        CHECK_EQ(seen[got[k]]++, 0);
        CHECK_STATUS(&statuses[k], got[k] / EACH, TAG, 4);
        /* Receives were posted in the order of k: one sender's messages fill them in its order. */
        if (got[k] / EACH < 64) {
            CHECK(got[k] % EACH > last[got[k] / EACH]);
            last[got[k] / EACH] = got[k] % EACH;
        }
    }
    free(got);
    free(seen);
    free(receives);
    free(sends);
    free(statuses);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 57, 4000, 17000, LARGEST};
    check_begin(&argc, &argv);
    many_to_one();
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int repeat = 0; repeat < scaled(10); repeat++)
        for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int synchronized = 0; synchronized < 2; synchronized++) {
                posted_before(1, TAG, 0, TAG, sizes[i], synchronized);
                posted_before(0, MPI_ANY_TAG, 0, TAG, sizes[i], synchronized);
                posted_before(1, MPI_ANY_TAG, 0, TAG, sizes[i], synchronized);
                posted_before(0, TAG, 1, MPI_ANY_TAG, sizes[i], synchronized);
            }
    specific_before_wild();
    collectives_invisible();
    everyone_to_everyone();
    return check_end();
}
