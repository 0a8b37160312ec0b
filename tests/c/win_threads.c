// ranks: 1 2 4
// transports: all
/* Threads of all ranks use the same windows at once: direct accesses and messages change the
 * same elements. */
#include "win.h"

#include <pthread.h>

enum { THREADS = 3, TURNS = 60 };

static struct window shared, ordinary;

static void *work(void *argument)
{
    int me = (int) (intptr_t) argument, to;
    long one = 1, old;
    double half = 0.5;
    for (int turn = 0; turn < scaled(TURNS); turn++) {
        struct window *w = turn % 2 ? &shared : &ordinary;
        to = (rank + turn + me) % size;
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, w->win));
        CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, to, 0, MPI_SUM, w->win));
        CHECK_OK(MPI_Accumulate(&half, 1, MPI_DOUBLE, to, 1, 1, MPI_DOUBLE, MPI_SUM, w->win));
        CHECK_OK(MPI_Win_flush(to, w->win));
        long now = 0, next, seen = -1;
        for (;;) {
            next = now + 1;
            CHECK_OK(MPI_Compare_and_swap(&next, &now, &seen, MPI_LONG, to, 2, w->win));
            CHECK_OK(MPI_Win_flush(to, w->win));
            if (seen == now) break;
            now = seen;
        }
        if (turn % 8 == me) {
            int from = (rank + size - 1) % size;
            MPI_Sendrecv(&one, 1, MPI_LONG, (rank + 1) % size, me, &old, 1, MPI_LONG, from, me, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    check_watch();
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    shared = make_window(ALLOCATED, 64, 8, MPI_COMM_WORLD);
    ordinary = make_window(ORDINARY, 64, 8, MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, shared.win));
    CHECK_OK(MPI_Win_lock_all(0, ordinary.win));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *) (intptr_t) i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_OK(MPI_Win_unlock_all(shared.win));
    CHECK_OK(MPI_Win_unlock_all(ordinary.win));
    MPI_Barrier(MPI_COMM_WORLD);
    long sums[3] = {0, 0, 0}, all[3];
    double halves = 0;
    struct window *both[2] = {&shared, &ordinary};
    for (int i = 0; i < 2; i++) {
        sums[0] += ((long *) both[i]->base)[0];
        sums[1] += (long) (2 * ((double *) both[i]->base)[1]);
        sums[2] += ((long *) both[i]->base)[2];
    }
    MPI_Allreduce(sums, all, 3, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    long expected = (long) size * THREADS * scaled(TURNS);
    CHECK_EQ(all[0], 2 * expected);
    CHECK_EQ(all[1], expected);
    CHECK_EQ(all[2], expected);
    free_window(&shared);
    free_window(&ordinary);
    return check_end();
}
