// ranks: 1 2 4 7
// transports: all
/* Sessions of several threads at the same time, before, during and after the World Model; and
 * communicators that threads make of one group at the same time, with different tags. */
#include "sessions.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 25 };

static MPI_Session shared;

static void *cycles(void *number)
{
    char tag[32];
    snprintf(tag, sizeof tag, "thread %d", (int) (intptr_t) number);
    for (int i = 0; i < scaled(ROUNDS); i++) {
        MPI_Session session = open_session();
        MPI_Comm comm = comm_of(session, tag);
        int me, sum = 0;
        MPI_Comm_rank(comm, &me);
        CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
        if (i % 2) CHECK_OK(MPI_Comm_free(&comm));
        close_session(&session);
    }
    return NULL;
}

static void *creations(void *number)
{
    char tag[32];
    snprintf(tag, sizeof tag, "creation %d", (int) (intptr_t) number);
    for (int i = 0; i < scaled(ROUNDS); i++) {
        MPI_Comm comm = comm_of(shared, tag);
        int me, n, mine = (int) (intptr_t) number * 1000 + i, got = -1;
        MPI_Comm_rank(comm, &me);
        MPI_Comm_size(comm, &n);
        CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, (me + 1) % n, 0, &got, 1, MPI_INT, (me + n - 1) % n, 0, comm,
                              MPI_STATUS_IGNORE));
        CHECK_EQ(got, mine);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return NULL;
}

static void all(void *(*what)(void *))
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, what, (void *) i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    int level = -1;
    check_watch();
    check_where("before MPI_Init");
    all(cycles);
    shared = open_session();
    all(creations);
    close_session(&shared);
    check_where("during the World Model");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    check_ranks();
    all(cycles);
    MPI_Finalize();
    check_where("after MPI_Finalize");
    all(cycles);
    return sessions_end();
}
