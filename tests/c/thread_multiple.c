// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy usysv sysv tcp-encrypted ofi
/* MPI_THREAD_MULTIPLE: several threads of a rank send, receive, wait and reduce at the same
 * time. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3, LARGEST = 60000 };

static int rounds;
static MPI_Comm comms[THREADS];

static void run(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t t = 0; t < THREADS; t++)
        if (!CHECK_EQ(pthread_create(&threads[t], NULL, body, (void *) t), 0)) exit(3);
    for (int t = 0; t < THREADS; t++) CHECK_EQ(pthread_join(threads[t], NULL), 0);
}

static int length_of(int tag, int i)
{
    unsigned x = drawn(11, tag, i);
    return i % 50 == 0 ? (int) (x % LARGEST) : (int) (x % 100);
}

/* Thread t and thread t of the neighbour exchange messages with tag t; a rank without a
 * neighbour uses itself. */
static void *ping_pong(void *argument)
{
    int tag = (int) (intptr_t) argument, peer = (rank ^ 1) < size ? rank ^ 1 : rank;
    unsigned char *out = allocate(LARGEST), *in = allocate(LARGEST);
    for (int i = 0; i < rounds; i++) {
        int length = length_of(tag, i);
        MPI_Status status;
        pattern_fill(out, length, 1000 * rank + 10 * i + tag);
        if (peer == rank) {
            CHECK_OK(MPI_Sendrecv(out, length, MPI_BYTE, peer, tag, in, LARGEST, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
        } else {
            if (rank < peer) CHECK_OK(MPI_Send(out, length, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
            CHECK_OK(MPI_Recv(in, LARGEST, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &status));
            if (rank > peer) CHECK_OK(MPI_Send(out, length, MPI_BYTE, peer, tag, MPI_COMM_WORLD));
        }
        CHECK_STATUS(&status, peer, tag, length);
        if (!CHECK_EQ(pattern_differs(in, length, 1000 * peer + 10 * i + tag), -1)) break;
    }
    free(out);
    free(in);
    return NULL;
}

static void *windows(void *argument)
{
    enum { WINDOW = 20 };
    int tag = (int) (intptr_t) argument, to = (rank + 1) % size, from = (rank + size - 1) % size;
    int outs[WINDOW], ins[WINDOW];
    MPI_Request requests[2 * WINDOW];
    for (int i = 0; i < rounds / 10; i++) {
        for (int k = 0; k < WINDOW; k++) {
            outs[k] = i * WINDOW + k;
            CHECK_OK(MPI_Irecv(&ins[k], 1, MPI_INT, from, tag, MPI_COMM_WORLD, &requests[k]));
            CHECK_OK(MPI_Isend(&outs[k], 1, MPI_INT, to, tag, MPI_COMM_WORLD, &requests[WINDOW + k]));
        }
        CHECK_OK(MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE));
        for (int k = 0; k < WINDOW; k++)
            if (!CHECK_EQ(ins[k], i * WINDOW + k)) return NULL;
    }
    return NULL;
}

static void *collectives(void *argument)
{
    int t = (int) (intptr_t) argument;
    for (int i = 0; i < rounds / 10; i++) {
        int mine = rank + i + t, sum = -1, word = rank == i % size ? i * 8 + t : -1;
        CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[t]));
        CHECK_EQ(sum, size * (size - 1) / 2 + size * (i + t));
        CHECK_OK(MPI_Bcast(&word, 1, MPI_INT, i % size, comms[t]));
        CHECK_EQ(word, i * 8 + t);
        if (i % 10 == 0) CHECK_OK(MPI_Barrier(comms[t]));
    }
    return NULL;
}

static int taken[THREADS], taken_sum;

static void *take_any(void *argument)
{
    int t = (int) (intptr_t) argument;
    for (int i = 0; i < rounds / 10; i++) {
        int value = -1;
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        taken[t] += value;
    }
    return NULL;
}

static void *give(void *argument)
{
    int t = (int) (intptr_t) argument, to = (rank + 1) % size;
    for (int i = 0; i < rounds / 10; i++) {
        int value = t * 100000 + i;
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, to, 40, MPI_COMM_WORLD));
    }
    return NULL;
}

static void *take_and_give(void *argument)
{
    pthread_t giver;
    if (!CHECK_EQ(pthread_create(&giver, NULL, give, argument), 0)) exit(3);
    take_any(argument);
    CHECK_EQ(pthread_join(giver, NULL), 0);
    return NULL;
}

static void *sleeper(void *argument)
{
    int t = (int) (intptr_t) argument, got = -1;
    MPI_Status status;
    if (t == 0) {
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, rank, 50, MPI_COMM_WORLD, &status));
    } else if (t == 1) {
        MPI_Request request;
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 51, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, &status));
    } else {
        CHECK_OK(MPI_Probe(rank, 52, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, rank, 52, MPI_COMM_WORLD, &status));
    }
    CHECK_STATUS(&status, rank, 50 + t, 4);
    CHECK_EQ(got, 7 + t);
    return NULL;
}

static void self_send_wakes(void)
{
    pthread_t threads[THREADS];
    for (intptr_t t = 0; t < THREADS; t++)
        if (!CHECK_EQ(pthread_create(&threads[t], NULL, sleeper, (void *) t), 0)) exit(3);
    pause_ms(100);
    for (int t = 0; t < THREADS; t++) {
        int value = 7 + t;
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, rank, 50 + t, MPI_COMM_WORLD));
        CHECK_EQ(pthread_join(threads[t], NULL), 0);
    }
}

static void *not_main(void *argument)
{
    int flag = -1;
    (void) argument;
    CHECK_OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(flag, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1, flag = -1;
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    if (CHECK_EQ(provided, MPI_THREAD_MULTIPLE)) {
        rounds = scaled(600);
        for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
        CHECK_OK(MPI_Is_thread_main(&flag));
        CHECK_EQ(flag, 1);
        run(not_main);
        run(ping_pong);
        run(windows);
        run(collectives);
        run(take_and_give);
        int n = rounds / 10, want = 0;
        for (int t = 0; t < THREADS; t++) {
            want += n * t * 100000 + n * (n - 1) / 2;
            taken_sum += taken[t];
        }
        CHECK_EQ(taken_sum, want);
        self_send_wakes();
        for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&comms[t]));
    }
    return check_end();
}
