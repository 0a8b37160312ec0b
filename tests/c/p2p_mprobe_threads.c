// ranks: 2
// transports: all
// every day: shm-single-copy nodes lamd ofi
/* Threads that probe for the same messages: each message is found by one of them, whole. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, MESSAGES = 400 };
static int got[MESSAGES];

static int length_of(int n) { return n % 7 == 0 ? 20000 : n % 50 + 1; }

static void *receive(void *nothing)
{
    (void) nothing;
    for (;;) {
        MPI_Message message;
        MPI_Status status;
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        int count;
        MPI_Get_count(&status, MPI_INT, &count);
        int *data = allocate(sizeof(int) * (size_t) count);
        MPI_Mrecv(data, count, MPI_INT, &message, &status);
        int last = count == 0;
        for (int i = 0; i < count; i++) CHECK_EQ(data[i], status.MPI_TAG + i);
        if (!last) {
            CHECK_EQ(count, length_of(status.MPI_TAG));
            __atomic_fetch_add(&got[status.MPI_TAG], 1, __ATOMIC_RELAXED);
        }
        free(data);
        if (last) return NULL;
    }
}

int main(int argc, char **argv)
{
    check_watch();
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    if (rank == 0) {
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, receive, NULL);
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
        for (int n = 0; n < MESSAGES; n++) CHECK_EQ(got[n], 1);
    } else {
        static int data[20000];
        for (int n = 0; n < MESSAGES; n++) {
            for (int i = 0; i < length_of(n); i++) data[i] = n + i;
            MPI_Send(data, length_of(n), MPI_INT, 0, n, MPI_COMM_WORLD);
        }
        for (int t = 0; t < THREADS; t++) MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    return check_end();
}
