// ranks: 1 2 4 7
// transports: all
// every day: lamd ofi
/* MPI_THREAD_MULTIPLE: each thread starts persistent collectives and neighbourhood collectives
 * on its own communicator, in its own order, with operations of the program, during nonblocking
 * ones; and threads start requests that one thread made. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 40, COUNT = 900, MADE = 8 };

static MPI_Comm rings[THREADS];
static MPI_Op op;

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *len; i++) ((int *) inout)[i] += ((int *) in)[i];
}

static int value(int t, int from, int round, int i) { return t * 1000000 + from * 10000 + round * 100 + i; }

static void *own_communicator(void *argument)
{
    int t = (int) (intptr_t) argument, left = (rank + size - 1) % size, right = (rank + 1) % size;
    int *mine = allocate(4 * COUNT * sizeof(int)), *all = allocate(4 * COUNT * sizeof(int)), *sum = allocate(COUNT * sizeof(int));
    int counts[2] = {COUNT, COUNT / 3}, back[2] = {COUNT / 3, COUNT}, places[2] = {0, 2 * COUNT}, word = 0, words[2];
    MPI_Comm ring = rings[t];
    memset(mine, 0, 4 * COUNT * sizeof(int));
    MPI_Request requests[4], nonblocking;
    /* To the left COUNT elements, to the right a third: so COUNT come from the right, a third
     * from the left. */
    CHECK_OK(MPI_Neighbor_alltoallv_init(mine, counts, places, MPI_INT, all, back, places, MPI_INT, ring, MPI_INFO_NULL, &requests[0]));
    CHECK_OK(MPI_Neighbor_allgather_init(&word, 1, MPI_INT, words, 1, MPI_INT, ring, MPI_INFO_NULL, &requests[1]));
    CHECK_OK(MPI_Allreduce_init(mine, sum, COUNT, MPI_INT, op, ring, MPI_INFO_NULL, &requests[2]));
    CHECK_OK(MPI_Barrier_init(ring, MPI_INFO_NULL, &requests[3]));
    for (int round = 0; round < scaled(ROUNDS); round++) {
        int low = -1, own = rank + round;
        for (int i = 0; i < COUNT; i++) mine[i] = value(t, rank, round, i), mine[2 * COUNT + i] = -value(t, rank, round, i);
        memset(all, 0, 4 * COUNT * sizeof(int));
        word = value(t, rank, round, 0);
        for (int k = 0; k < 4; k++) {
            CHECK_OK(MPI_Start(&requests[(k + rank + round) % 4]));
            if (k == 1) CHECK_OK(MPI_Iallreduce(&own, &low, 1, MPI_INT, MPI_MIN, ring, &nonblocking));
        }
        CHECK_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
        CHECK_OK(MPI_Wait(&nonblocking, MPI_STATUS_IGNORE));
        CHECK_EQ(low, round);
        CHECK_EQ(words[0], value(t, left, round, 0));
        CHECK_EQ(words[1], value(t, right, round, 0));
        int wanted = 0;
        for (int r = 0; r < size; r++) wanted += value(t, r, round, 7);
        CHECK_EQ(sum[7], wanted);
        for (int i = 0; i < COUNT; i++) {
            if (i < COUNT / 3 && !CHECK_EQ(all[i], -value(t, left, round, i))) return NULL;
            if (!CHECK_EQ(all[2 * COUNT + i], value(t, right, round, i))) return NULL;
        }
    }
    for (int k = 0; k < 4; k++) CHECK_OK(MPI_Request_free(&requests[k]));
    free(mine);
    free(all);
    free(sum);
    return NULL;
}

static MPI_Request made[MADE];
static int inputs[MADE][COUNT], outputs[MADE][COUNT];

static void *others_requests(void *argument)
{
    int t = (int) (intptr_t) argument;
    for (int round = 0; round < scaled(ROUNDS); round++) {
        for (int n = 0; n < MADE / THREADS; n++) {
            int k = (n + rank + round) % (MADE / THREADS) * THREADS + t;
            for (int i = 0; i < COUNT; i++) inputs[k][i] = value(k, rank, round, i);
            CHECK_OK(MPI_Start(&made[k]));
        }
        for (int k = t; k < MADE; k += THREADS) {
            CHECK_OK(MPI_Wait(&made[k], MPI_STATUS_IGNORE));
            int wanted = 0;
            for (int r = 0; r < size; r++) wanted += value(k, r, round, 5);
            if (!CHECK_EQ(outputs[k][5], wanted)) return NULL;
        }
    }
    return NULL;
}

static void run(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t t = 0; t < THREADS; t++)
        if (!CHECK_EQ(pthread_create(&threads[t], NULL, body, (void *) t), 0)) exit(3);
    for (int t = 0; t < THREADS; t++) CHECK_EQ(pthread_join(threads[t], NULL), 0);
}

int main(int argc, char **argv)
{
    int level = -1, periodic = 1;
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    check_ranks();
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Op_create(add, 1, &op));
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &rings[t]));
    run(own_communicator);
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&rings[t]));

    for (int k = 0; k < MADE; k++)
        CHECK_OK(MPI_Allreduce_init(inputs[k], outputs[k], k % 2 ? COUNT : 8, MPI_INT, k % 3 ? op : MPI_SUM, MPI_COMM_WORLD,
                                    MPI_INFO_NULL, &made[k]));
    run(others_requests);
    for (int k = 0; k < MADE; k++) CHECK_OK(MPI_Request_free(&made[k]));
    CHECK_OK(MPI_Op_free(&op));
    return check_end();
}
