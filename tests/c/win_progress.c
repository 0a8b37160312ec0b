// ranks: 2 3
// transports: all
/* The target of one-sided access makes progress in each call in which it waits or tests:
 * accumulates, gets, compare-and-swaps and locks of the others are complete before its wait
 * ends. */
#include "places.h"

static struct window w;

static void access_all(void)
{
    int one = 1, old, got[2], none = -1;
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
    CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_INT, target, 1, MPI_SUM, w.win));
    CHECK_OK(MPI_Win_flush(target, w.win));
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, target, 1, 1, MPI_INT, MPI_SUM, w.win));
    CHECK_OK(MPI_Compare_and_swap(&none, &one, &old, MPI_INT, target, 2, w.win));
    CHECK_OK(MPI_Win_unlock(target, w.win));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
    CHECK_OK(MPI_Get(got, 2, MPI_INT, target, 1, 2, MPI_INT, w.win));
    CHECK_OK(MPI_Win_unlock(target, w.win));
    CHECK(got[0] >= 2 && got[1] == 0);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w.win));
    CHECK_OK(MPI_Put(bytes, LONG / 2, MPI_BYTE, target, 8, LONG / 2, MPI_BYTE, w.win));
    CHECK_OK(MPI_Win_unlock(target, w.win));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    places_begin();
    for (enum memory kind = 0; kind < KINDS; kind++) {
        w = make_window(kind, LONG, 4, MPI_COMM_WORLD);
        struct window second = make_window(kind, 4096, 4, MPI_COMM_WORLD);
        for (int place = 0; place < PLACES; place++) {
            check_where("place %d, %s", place, memory_names[kind]);
            memset(bytes, 0, LONG);
            MPI_Barrier(MPI_COMM_WORLD);
            if (is_epoch(place)) {
                epochs(place, &second, access_all);
                continue;
            }
            if (rank != target) {
                access_all();
                if (size > 2) {
                    int word = 0;
                    if (rank == 1) CHECK_OK(MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
                    else CHECK_OK(MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                }
            }
            if (place == INACTIVE) {
                /* The target polls its memory, which this message changes only with its
                 * progress. */
                struct window seen = w;
                if (rank == target) {
                    MPI_Request idle;
                    int flag, value;
                    CHECK_OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &idle));
                    while (((volatile int *) seen.base)[4] != 77) CHECK_OK(MPI_Test(&idle, &flag, MPI_STATUS_IGNORE));
                    CHECK_OK(MPI_Request_free(&idle));
                } else if (rank == 0) {
                    int value = 77;
                    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, seen.win));
                    CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, 4, 1, MPI_INT, seen.win));
                    CHECK_OK(MPI_Win_unlock(target, seen.win));
                }
                continue;
            }
            if (rank == 0 || rank == target || is_for_all(place)) together(place);
        }
        free_window(&second);
        free_window(&w);
    }
    places_end();
    return check_end();
}
