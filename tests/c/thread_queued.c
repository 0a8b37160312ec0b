// ranks: 2 4
// transports: all
/* MPI_THREAD_MULTIPLE: a thread leaves more messages in the backlog than there is room for and
 * calls MPI no more; the thread that sleeps in a receive has to send them when there is room. */
#include "check.h"

#include <pthread.h>

enum { MESSAGES = 400, LENGTH = 30000 };

static unsigned char *out;
static MPI_Request sends[MESSAGES];
static pthread_barrier_t line;

static void *leave_behind(void *argument)
{
    int peer = *(int *) argument;
    pause_ms(50); /* the other thread sleeps by now */
    for (int i = 0; i < MESSAGES; i++)
        CHECK_OK(MPI_Isend(out + i % 100, LENGTH, MPI_BYTE, peer, i % 7, MPI_COMM_WORLD, &sends[i]));
    pthread_barrier_wait(&line);
    return NULL;
}

int main(int argc, char **argv)
{
    int level = -1, word = -1;
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    check_ranks();
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    int peer = rank ^ 1;
    out = allocate(LENGTH + 100);
    pattern_fill(out, LENGTH + 100, 3);
    unsigned char *both = allocate(LENGTH);
    for (int i = 0; i < 200; i++)
        CHECK_OK(MPI_Sendrecv(out, LENGTH, MPI_BYTE, peer, 1, both, LENGTH, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    free(both);
    if (rank % 2 == 0) {
        pthread_t thread;
        pthread_barrier_init(&line, NULL, 2);
        CHECK_EQ(pthread_create(&thread, NULL, leave_behind, &peer), 0);
        CHECK_OK(MPI_Recv(&word, 1, MPI_INT, peer, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(word, MESSAGES);
        pthread_barrier_wait(&line);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_OK(MPI_Waitall(MESSAGES, sends, MPI_STATUSES_IGNORE));
        pthread_barrier_destroy(&line);
    } else {
        unsigned char *in = allocate(LENGTH);
        pause_ms(200); /* there is no room any more */
        for (int i = 0; i < MESSAGES; i++) {
            CHECK_OK(MPI_Recv(in, LENGTH, MPI_BYTE, peer, i % 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(memcmp(in, out + i % 100, LENGTH), 0);
        }
        word = MESSAGES;
        CHECK_OK(MPI_Send(&word, 1, MPI_INT, peer, 9, MPI_COMM_WORLD));
        free(in);
    }
    free(out);
    return check_end();
}
