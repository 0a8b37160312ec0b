// ranks: 1 2 4 7
// transports: one
/* A session that requests threads, next to a World Model without them. */
#include "sessions.h"

#include <pthread.h>

enum { THREADS = 3, ROUNDS = 200 };

static MPI_Session session;

static void *ring(void *number)
{
    char tag[32];
    snprintf(tag, sizeof tag, "ring %d", (int) (intptr_t) number);
    MPI_Comm comm = comm_of(session, tag);
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int i = 0; i < scaled(ROUNDS); i++) {
        int got = -1;
        CHECK_OK(MPI_Sendrecv(&i, 1, MPI_INT, (me + 1) % n, 0, &got, 1, MPI_INT, (me + n - 1) % n, 0, comm,
                              MPI_STATUS_IGNORE));
        CHECK_EQ(got, i);
    }
    CHECK_OK(MPI_Comm_free(&comm));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    MPI_Info info;
    int level = -1, flag = 0, length = 32;
    char text[32];
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    CHECK_EQ(level, MPI_THREAD_FUNNELED);
    check_ranks();
    exercise(MPI_COMM_WORLD);
    session = open_session();
    MPI_Session_get_info(session, &info);
    MPI_Info_get_string(info, "thread_level", &length, text, &flag);
    CHECK(flag && !strcmp(text, "MPI_THREAD_FUNNELED"));
    MPI_Info_free(&info);
    close_session(&session);
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    CHECK_OK(MPI_Session_init(info, RETURN, &session));
    MPI_Info_free(&info);
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, ring, (void *) i);
    for (int i = 0; i < 20; i++) exercise(MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    close_session(&session);
    MPI_Query_thread(&level);
    CHECK_EQ(level, MPI_THREAD_FUNNELED);
    exercise(MPI_COMM_WORLD);
    return check_end();
}
