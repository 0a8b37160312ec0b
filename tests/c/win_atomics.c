// ranks: 1 2 4 7
// transports: all
/* Compare-and-swap of all lengths, a lock made of it, and tickets by fetch-and-op. */
#include "win.h"

#include <sched.h>

static void swaps(enum memory kind)
{
    struct window w = make_window(kind, 256, 1, MPI_COMM_WORLD);
#define SWAP(type, datatype, at)                                                                          \
    do {                                                                                                  \
        check_where("%s, %s", #datatype, memory_names[kind]);                                             \
        type mine = (type) (rank + 1), none = 0, seen = 77;                                               \
        CHECK_OK(MPI_Win_fence(0, w.win));                                                                \
        CHECK_OK(MPI_Compare_and_swap(&mine, &none, &seen, datatype, 0, at, w.win));                      \
        CHECK_OK(MPI_Win_fence(0, w.win));                                                                \
        int won = seen == 0, winners = 0;                                                                 \
        MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);                               \
        CHECK_EQ(winners, 1);                                                                             \
        type there = 0;                                                                                   \
        CHECK_OK(MPI_Get(&there, 1, datatype, 0, at, 1, datatype, w.win));                                \
        CHECK_OK(MPI_Win_fence(0, w.win));                                                                \
        CHECK(won ? there == mine : there == seen);                                                       \
    } while (0)
    SWAP(char, MPI_CHAR, 1);
    SWAP(int8_t, MPI_INT8_T, 3);
    SWAP(short, MPI_SHORT, 10);
    SWAP(int, MPI_INT, 20);
    SWAP(long, MPI_LONG, 32);
    SWAP(long, MPI_AINT, 41);
    SWAP(unsigned char, MPI_BYTE, 100);
    free_window(&w);
}

static void tickets(enum memory kind)
{
    check_where("tickets, %s", memory_names[kind]);
    struct window w = make_window(kind, 64, 8, MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, w.win));
    long one = 1, mine, now, value;
    int turns = scaled(20);
    for (int turn = 0; turn < turns; turn++) {
        CHECK_OK(MPI_Fetch_and_op(&one, &mine, MPI_LONG, 0, 0, MPI_SUM, w.win));
        CHECK_OK(MPI_Win_flush(0, w.win));
        do {
            CHECK_OK(MPI_Fetch_and_op(NULL, &now, MPI_LONG, 0, 1, MPI_NO_OP, w.win));
            CHECK_OK(MPI_Win_flush(0, w.win));
            if (now != mine) sched_yield();
        } while (now != mine);
        CHECK_OK(MPI_Get(&value, 1, MPI_LONG, 0, 2, 1, MPI_LONG, w.win));
        CHECK_OK(MPI_Win_flush(0, w.win));
        value += 3;
        CHECK_OK(MPI_Put(&value, 1, MPI_LONG, 0, 2, 1, MPI_LONG, w.win));
        CHECK_OK(MPI_Win_flush(0, w.win));
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, w.win));
        CHECK_OK(MPI_Win_flush(0, w.win));
    }
    CHECK_OK(MPI_Win_unlock_all(w.win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) CHECK_EQ(((long *) w.base)[2], 3L * size * turns);
    free_window(&w);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) {
        swaps((enum memory) kind);
        tickets((enum memory) kind);
    }
    return check_end();
}
