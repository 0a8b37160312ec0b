// ranks: 1 2 4 7
// transports: all
// every day: tcp-encrypted lamd ofi
/* MPI_THREAD_MULTIPLE: threads of a rank make partitions of one message ready, in any order and
 * at the same time, while its main thread waits for the message; threads of the receiver use
 * partitions as they arrive. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, PARTS = 24, ROUNDS = 30 };

static int elements, round_number, next, before;
static int *out, *in;
static MPI_Request send, receive;
static pthread_barrier_t line;

static int value(int from, int round, int i) { return from * 1000003 + round * 10007 + i; }

static void *produce(void *argument)
{
    int t = (int) (intptr_t) argument;
    for (int round = 0; round < scaled(ROUNDS); round++) {
        pthread_barrier_wait(&line); /* the round is started */
        int shift = (int) (drawn((unsigned) rank, (unsigned) round, (unsigned) t) % (PARTS / THREADS));
        for (int n = 0; n < PARTS / THREADS; n++) {
            int part = (n + shift) % (PARTS / THREADS) * THREADS + t;
            for (int i = part * elements; i < (part + 1) * elements; i++) out[i] = value(rank, round, i);
            if (n % 3 == 1)
                CHECK_OK(MPI_Pready_list(1, &part, send));
            else
                CHECK_OK(MPI_Pready(part, send));
        }
        pthread_barrier_wait(&line); /* the round is over */
    }
    return NULL;
}

static void *consume(void *argument)
{
    int t = (int) (intptr_t) argument;
    for (int round = 0; round < scaled(ROUNDS); round++) {
        pthread_barrier_wait(&line);
        for (int part = t; part < PARTS / 2; part += THREADS) {
            for (int flag = 0; !flag;) {
                CHECK_OK(MPI_Parrived(receive, part, &flag));
                if (!flag) sched_yield();
            }
            for (int i = 2 * part * elements; i < 2 * (part + 1) * elements; i++)
                if (!CHECK_EQ(in[i], value(before, round, i))) break;
        }
        pthread_barrier_wait(&line);
    }
    return NULL;
}

static void rounds(int length, int consumers)
{
    pthread_t threads[2 * THREADS];
    int count = THREADS + (consumers ? THREADS : 0);
    elements = length;
    out = allocate((size_t) (PARTS * elements) * sizeof(int));
    in = allocate((size_t) (PARTS * elements) * sizeof(int));
    CHECK_OK(MPI_Psend_init(out, PARTS, elements, MPI_INT, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(in, PARTS / 2, 2 * elements, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    pthread_barrier_init(&line, NULL, (unsigned) count + 1);
    for (intptr_t t = 0; t < count; t++) {
        void *(*body)(void *) = t < THREADS ? produce : consume;
        if (!CHECK_EQ(pthread_create(&threads[t], NULL, body, (void *) (t % THREADS)), 0)) exit(3);
    }
    for (int round = 0; round < scaled(ROUNDS); round++) {
        MPI_Request both[2] = {send, receive};
        MPI_Status status;
        memset(in, 0xff, (size_t) (PARTS * elements) * sizeof(int));
        CHECK_OK(MPI_Startall(2, both));
        pthread_barrier_wait(&line);
        /* The consumers test the receive, so it is not completed before; this thread waits for
         * the send. */
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        if (!consumers) {
            CHECK_OK(MPI_Wait(&receive, &status));
            CHECK_STATUS(&status, before, 1, PARTS * elements * (int) sizeof(int));
        }
        pthread_barrier_wait(&line);
        if (consumers) CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        for (int i = 0; i < PARTS * elements; i++)
            if (!CHECK_EQ(in[i], value(before, round, i))) break;
    }
    for (int t = 0; t < count; t++) CHECK_EQ(pthread_join(threads[t], NULL), 0);
    pthread_barrier_destroy(&line);
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    free(out);
    free(in);
}

/* Each thread has its own messages, made, started and freed at the same time; pairs of threads
 * have different tags. */
static void *alone(void *argument)
{
    enum { P = 5, N = 600 };
    int tag = (int) (intptr_t) argument + 10, mine[P * N], theirs[P * N];
    for (int i = 0; i < scaled(40); i++) {
        MPI_Request both[2];
        CHECK_OK(MPI_Precv_init(theirs, 1, P * N, MPI_INT, before, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
        CHECK_OK(MPI_Psend_init(mine, P, N, MPI_INT, next, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]));
        for (int again = 0; again < 2; again++) {
            for (int k = 0; k < P * N; k++) mine[k] = value(rank * THREADS + tag, i + again, k), theirs[k] = -1;
            CHECK_OK(MPI_Startall(2, both));
            CHECK_OK(MPI_Pready_range(1, P - 1, both[1]));
            CHECK_OK(MPI_Pready(0, both[1]));
            CHECK_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
            for (int k = 0; k < P * N; k++)
                if (!CHECK_EQ(theirs[k], value(before * THREADS + tag, i + again, k))) return NULL;
        }
        CHECK_OK(MPI_Request_free(&both[0]));
        CHECK_OK(MPI_Request_free(&both[1]));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int level = -1;
    pthread_t threads[THREADS];
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    check_ranks();
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    rounds(10, 0);
    rounds(5000, 0);
    rounds(10, 1);
    rounds(5000, 1);
    for (intptr_t t = 0; t < THREADS; t++)
        if (!CHECK_EQ(pthread_create(&threads[t], NULL, alone, (void *) t), 0)) exit(3);
    for (int t = 0; t < THREADS; t++) CHECK_EQ(pthread_join(threads[t], NULL), 0);
    return check_end();
}
