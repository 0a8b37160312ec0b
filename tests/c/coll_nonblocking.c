// ranks: 1 2 3 4 7
// transports: all
// every day: tcp-encrypted nodes lamd ofi
/* Nonblocking collectives: many outstanding, completed in any order, together with messages and
 * blocking collectives. */
#include "check.h"

static int sum_of_ranks(void) { return size * (size - 1) / 2; }

static void one_of_each(int n, int root)
{
    check_where("one of each, %d ints, root %d", n, root);
    size_t bytes = (n + 1) * sizeof(int);
    int *mine = allocate(bytes), *word = allocate(bytes), *sum = allocate(bytes), *all_sum = allocate(bytes);
    int *gathered = allocate(bytes * size), *all = allocate(bytes * size);
    MPI_Request requests[6];
    for (int i = 0; i < n; i++) {
        mine[i] = rank + i;
        word[i] = rank == root ? root * 10 + i : -1;
    }
    memset(gathered, 0xff, bytes * size);
    CHECK_OK(MPI_Ibcast(word, n, MPI_INT, root, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Ireduce(mine, sum, n, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Iallreduce(mine, all_sum, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]));
    CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]));
    CHECK_OK(MPI_Igather(mine, n, MPI_INT, gathered, n, MPI_INT, root, MPI_COMM_WORLD, &requests[4]));
    CHECK_OK(MPI_Iallgather(mine, n, MPI_INT, all, n, MPI_INT, MPI_COMM_WORLD, &requests[5]));
    for (int k = 5; k >= 0; k--) {
        CHECK(requests[k] != MPI_REQUEST_NULL);
        CHECK_OK(MPI_Wait(&requests[k], MPI_STATUS_IGNORE));
        CHECK(requests[k] == MPI_REQUEST_NULL);
    }
    for (int i = 0; i < n; i++) {
        if (!CHECK_EQ(word[i], root * 10 + i)) break;
        if (rank == root && !CHECK_EQ(sum[i], sum_of_ranks() + size * i)) break;
        if (!CHECK_EQ(all_sum[i], sum_of_ranks() + size * i)) break;
    }
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++) {
            if (!CHECK_EQ(all[r * n + i], r + i)) return;
            if (!CHECK_EQ(gathered[r * n + i], rank == root ? r + i : -1)) return;
        }
    free(mine);
    free(word);
    free(sum);
    free(all_sum);
    free(gathered);
    free(all);
}

static void in_place(int n)
{
    check_where("in place, %d ints", n);
    int *sum = allocate((n + 1) * sizeof *sum), *all = allocate((size_t) (n + 1) * size * sizeof *all);
    int *to_root = allocate((n + 1) * sizeof *to_root);
    MPI_Request requests[3];
    for (int i = 0; i < n; i++) sum[i] = to_root[i] = all[rank * n + i] = rank + i;
    CHECK_OK(MPI_Iallreduce(MPI_IN_PLACE, sum, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Ireduce(rank == 0 ? MPI_IN_PLACE : (void *) to_root, rank == 0 ? to_root : NULL, n, MPI_INT, MPI_MAX, 0,
                         MPI_COMM_WORLD, &requests[2]));
    CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n; i++) {
        if (!CHECK_EQ(sum[i], sum_of_ranks() + size * i)) break;
        if (rank == 0 && !CHECK_EQ(to_root[i], size - 1 + i)) break;
        for (int r = 0; r < size; r++)
            if (!CHECK_EQ(all[r * n + i], r + i)) break;
    }
    free(sum);
    free(all);
    free(to_root);
}

static void thousands(int outstanding)
{
    check_where("%d outstanding", outstanding);
    int *in = allocate(outstanding * sizeof *in), *out = allocate(outstanding * sizeof *out);
    MPI_Request *requests = allocate(outstanding * sizeof *requests);
    for (int i = 0; i < outstanding; i++) {
        in[i] = rank + i;
        out[i] = i % 3 == 1 ? (rank == i % size ? i : -1) : -1;
        if (i % 3 == 0)
            CHECK_OK(MPI_Iallreduce(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]));
        else if (i % 3 == 1)
            CHECK_OK(MPI_Ibcast(&out[i], 1, MPI_INT, i % size, MPI_COMM_WORLD, &requests[i]));
        else
            CHECK_OK(MPI_Ireduce(&in[i], &out[i], 1, MPI_INT, MPI_MAX, i % size, MPI_COMM_WORLD, &requests[i]));
    }
    for (int i = outstanding - 1; i >= 0; i--) {
        CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        if (i % 3 == 0) CHECK_EQ(out[i], sum_of_ranks() + size * i);
        if (i % 3 == 1) CHECK_EQ(out[i], i);
        if (i % 3 == 2) CHECK_EQ(out[i], rank == i % size ? size - 1 + i : -1);
    }
    free(in);
    free(out);
    free(requests);
}

static void long_series(int rounds)
{
    check_where("%d in a row", rounds);
    for (int i = 0; i < rounds; i++) {
        MPI_Request request;
        int word = rank == i % size ? i : -1;
        CHECK_OK(MPI_Ibcast(&word, 1, MPI_INT, i % size, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (!CHECK_EQ(word, i)) return;
    }
}

static void mixed(int rounds)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    check_where("mixed with messages");
    for (int i = 0; i < rounds; i++) {
        MPI_Request requests[5];
        int got = -1, word = rank == i % size ? i : -1, sum = -1, mine = rank + i, blocking = -1, late = -1;
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Ibcast(&word, 1, MPI_INT, i % size, MPI_COMM_WORLD, &requests[1]));
        CHECK_OK(MPI_Isend(&mine, 1, MPI_INT, to, i, MPI_COMM_WORLD, &requests[2]));
        CHECK_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]));
        CHECK_OK(MPI_Allreduce(&mine, &blocking, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        CHECK_OK(MPI_Iallreduce(&mine, &late, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &requests[4]));
        if (i % 2) {
            CHECK_OK(MPI_Waitall(5, requests, MPI_STATUSES_IGNORE));
        } else {
            for (int k = 0; k < 5; k++) {
                int index = -1;
                CHECK_OK(MPI_Waitany(5, requests, &index, MPI_STATUS_IGNORE));
                CHECK(index >= 0 && index < 5);
            }
        }
        CHECK_EQ(got, from + i);
        CHECK_EQ(word, i);
        CHECK_EQ(sum, sum_of_ranks() + size * i);
        CHECK_EQ(blocking, i);
        CHECK_EQ(late, size - 1 + i);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* A blocking receive makes progress for outstanding collectives: its message comes from a
 * neighbour that needs them complete. */
static void progress_in_receive(void)
{
    int sum = -1, token = 0;
    MPI_Request request;
    check_where("progress in Recv");
    int *big = allocate(50000 * sizeof *big), *big_sum = allocate(50000 * sizeof *big_sum);
    for (int i = 0; i < 50000; i++) big[i] = rank;
    for (int waiting = 0; waiting < size && size > 1; waiting++) {
        MPI_Request second;
        int neighbour = (waiting + 1) % size;
        CHECK_OK(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Iallreduce(big, big_sum, 50000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &second));
        if (rank == waiting) CHECK_OK(MPI_Recv(&token, 1, MPI_INT, neighbour, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (rank == neighbour) CHECK_OK(MPI_Send(&rank, 1, MPI_INT, waiting, 1, MPI_COMM_WORLD));
        CHECK_EQ(sum, sum_of_ranks());
        CHECK_EQ(big_sum[49999], sum_of_ranks());
    }
    free(big);
    free(big_sum);
}

/* Started in one order on each communicator, but interleaved differently and completed in
 * another order by each rank. */
static void several_communicators(void)
{
    enum { COMMS = 4 };
    MPI_Comm comms[COMMS];
    MPI_Request requests[COMMS];
    int sums[COMMS], mine[COMMS];
    check_where("several communicators");
    for (int k = 0; k < COMMS; k++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[k]));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < COMMS; i++) {
            int k = (i + rank) % COMMS;
            mine[k] = rank * (k + 1);
            CHECK_OK(MPI_Iallreduce(&mine[k], &sums[k], 1, MPI_INT, MPI_SUM, comms[k], &requests[k]));
        }
        for (int i = 0; i < COMMS; i++) CHECK_OK(MPI_Wait(&requests[(3 * i + rank + round) % COMMS], MPI_STATUS_IGNORE));
        for (int k = 0; k < COMMS; k++) CHECK_EQ(sums[k], sum_of_ranks() * (k + 1));
    }
    for (int k = 0; k < COMMS; k++) CHECK_OK(MPI_Comm_free(&comms[k]));
}

/* Ibarrier does not complete before all have called it; Test completes it in time. */
static void ibarrier(void)
{
    check_where("Ibarrier");
    for (int late = 0; late < size && size > 1; late++) {
        MPI_Request request;
        int flag = 0, go = 0;
        int witness = (late + 1) % size;
        if (rank != late) {
            CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
            for (int i = 0; i < 20 && rank == witness; i++) {
                CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                CHECK_EQ(flag, 0);
            }
            if (rank == witness) CHECK_OK(MPI_Send(&go, 1, MPI_INT, late, 2, MPI_COMM_WORLD));
        } else { /* enters only after the witness has seen that it is not complete */
            CHECK_OK(MPI_Recv(&go, 1, MPI_INT, witness, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
        }
        while (!flag) CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(request == MPI_REQUEST_NULL);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 5, 100, 3000, 40000};
    check_begin(&argc, &argv);
    for (unsigned k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        for (int root = 0; root < size; root++) one_of_each(counts[k], root);
        in_place(counts[k]);
    }
    thousands(scaled(3000));
    long_series(scaled(5000));
    mixed(scaled(50));
    progress_in_receive();
    several_communicators();
    ibarrier();
    return check_end();
}
