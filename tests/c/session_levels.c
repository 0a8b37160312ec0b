// ranks: 1 2 4 7
// flags: -pthread
/* Threads each with a session of its own, of which each has promised one thread (MPI_THREAD_SINGLE), beside a World Model that was
 * initialised for one thread, whose thread waits meanwhile, or is in the library all the time, or computes and sleeps in turn. */
#include "sessions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 2, ROUNDS = 100 };

static atomic_int left;

static void *own_session(void *number)
{
    char tag[32], text[32];
    int me, n, flag = 0, length = sizeof text;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info;
    MPI_Datatype pair;
    snprintf(tag, sizeof tag, "thread %d", (int) (intptr_t) number);
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SINGLE");
    CHECK_OK(MPI_Session_init(info, RETURN, &session));
    MPI_Info_free(&info);
    CHECK_OK(MPI_Session_get_info(session, &info));
    MPI_Info_get_string(info, "thread_level", &length, text, &flag);
    CHECK(flag && !strcmp(text, "MPI_THREAD_SINGLE"));
    MPI_Info_free(&info);
    MPI_Comm comm = comm_of(session, tag);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int i = 0; i < scaled(ROUNDS); i++) {
        int mine[2] = {i, me}, got[2] = {-1, -1}, sum = -1;
        CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
        CHECK_OK(MPI_Type_commit(&pair));
        CHECK_OK(MPI_Sendrecv(mine, 1, pair, (me + 1) % n, 0, got, 1, pair, (me + n - 1) % n, 0, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(got[0], i);
        CHECK_EQ(got[1], (me + n - 1) % n);
        CHECK_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, n * i);
        CHECK_OK(MPI_Type_free(&pair));
    }
    exercise(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    close_session(&session);
    atomic_fetch_sub(&left, 1);
    return NULL;
}

/* One call on the communicators of the World Model; all ranks do it equally often. */
static void world_step(MPI_Comm copy)
{
    int me, n, sum = -1;
    MPI_Comm_rank(copy, &me);
    MPI_Comm_size(copy, &n);
    CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, copy));
    CHECK_EQ(sum, n * (n - 1) / 2);
    CHECK_OK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 3, &sum, 1, MPI_INT, (me + n - 1) % n, 3, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
}

/* Whether any rank has threads that are not done. */
static int any_left(MPI_Comm copy)
{
    int mine = atomic_load(&left), all = -1;
    CHECK_OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, copy));
    return all > 0;
}

int main(int argc, char **argv)
{
    static const char *const ways[] = {"waits", "calls", "computes"};
    pthread_t threads[THREADS];
    MPI_Comm copy;
    int level = -1;
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    CHECK_EQ(level, MPI_THREAD_SINGLE);
    check_ranks();
    int way = (rank + size) % 3;
    check_where(ways[way]);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    world_step(copy);
    atomic_store(&left, THREADS);
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, own_session, (void *) i);
    if (way == 2) {
        volatile double x = 1;
        struct timespec brief = {0, 100000};
        while (atomic_load(&left) > 0) {
            for (int i = 0; i < 100000; i++) x = x * 1.0000001 + 1e-9;
            nanosleep(&brief, NULL);
        }
    } else if (way == 0) {
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    }
    while (any_left(copy)) world_step(copy);
    if (way != 0) for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    MPI_Query_thread(&level);
    CHECK_EQ(level, MPI_THREAD_SINGLE);
    world_step(copy);
    MPI_Comm_free(&copy);
    return check_end();
}
