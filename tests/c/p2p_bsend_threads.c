// ranks: 2
// transports: near
/* Buffered sends of several threads at once: none is refused while the buffer has room for all
 * undelivered messages. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, MESSAGES = 8, ROUNDS = 40, BYTES = 1 << 20 };

static char *data;
static pthread_barrier_t all_there;

static void *send_all(void *kind)
{
    MPI_Request request;
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < MESSAGES; i++) {
        switch ((i + *(int *) kind) % 3) {
        case 0: CHECK_OK(MPI_Bsend(data, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD)); break;
        case 1:
            CHECK_OK(MPI_Ibsend(data, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        default:
            CHECK_OK(MPI_Bsend_init(data, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Start(&request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Request_free(&request));
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, room = THREADS * MESSAGES * (BYTES + MPI_BSEND_OVERHEAD), bytes, rounds = scaled(ROUNDS);
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    data = allocate(BYTES);
    pthread_barrier_init(&all_there, NULL, THREADS);
    void *buffer = allocate((size_t) room);
    CHECK_OK(MPI_Buffer_attach(buffer, room));
    for (int round = 0; round < rounds; round++) {
        check_where("round %d", round);
        int before = check_failures;
        if (rank == 0) {
            pthread_t threads[THREADS];
            int kinds[THREADS];
            for (int t = 0; t < THREADS; t++) {
                kinds[t] = t;
                pthread_create(&threads[t], NULL, send_all, &kinds[t]);
            }
            for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
        }
        /* A thread with a refusal has sent less. */
        int there = THREADS * MESSAGES - (check_failures - before);
        MPI_Bcast(&there, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (rank == 1)
            for (int i = 0; i < there; i++)
                CHECK_OK(MPI_Recv(data, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK_OK(MPI_Buffer_detach(&buffer, &bytes));
    CHECK_EQ(bytes, room);
    free(buffer);
    free(data);
    return check_end();
}
