// ranks: 2 4
// transports: all
// every day: nodes
/* Other accumulates see the change of one accumulate to a piece of up to a cache line as a
 * whole, with every type of elements. (The standard promises that for each element alone;
 * programs keep structs in such memory.) */
#include "win.h"

enum { LINE = 64, ROOM = 4 * LINE };

/* All bytes of a piece are the same, or all numbers. */
static void bytes(struct window *w, const char *name, int target)
{
    static const struct { int at, length; } pieces[] = {{0, 16}, {LINE, LINE}, {2 * LINE + 40, 48}, {8, 24}, {13, 33}};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        int at = pieces[p].at, length = pieces[p].length, torn = 0, turns = scaled(400);
        unsigned char mine[LINE], seen[LINE], before[LINE];
        check_where("%d bytes at %d of rank %d, %s", length, at, target, name);
        if (rank == target) memset(w->base, 0, ROOM);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Win_lock_all(0, w->win));
        for (int turn = 0; turn < turns; turn++) {
            memset(mine, (turn * size + rank) % 256, sizeof mine);
            if (rank % 2)
                CHECK_OK(MPI_Accumulate(mine, length, MPI_BYTE, target, at, length, MPI_BYTE, MPI_REPLACE, w->win));
            else if (turn % 4 == 3)
                CHECK_OK(MPI_Get_accumulate(mine, length, MPI_BYTE, seen, length, MPI_BYTE, target, at, length, MPI_BYTE,
                                            MPI_REPLACE, w->win));
            else
                CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, seen, length, MPI_BYTE, target, at, length, MPI_BYTE,
                                            MPI_NO_OP, w->win));
            CHECK_OK(MPI_Win_flush(target, w->win));
            if (rank % 2 == 0) {
                memset(before, seen[0], sizeof before);
                torn += memcmp(seen, before, (size_t) length) != 0;
            }
        }
        CHECK_OK(MPI_Win_unlock_all(w->win));
        CHECK_EQ(torn, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

/* Sums of several numbers, which grow together, while single ones are added to one of them and
 * subtracted again: these take no lock, and nothing is lost. */
static void numbers(struct window *w, const char *name, int target)
{
    enum { N = LINE / 8 };
    int torn = 0, turns = scaled(400);
    int64_t ones[N], seen[N], one = 1, less = -1, *here = w->base;
    check_where("numbers of rank %d, %s", target, name);
    for (int i = 0; i < N; i++) ones[i] = 1;
    if (rank == target) memset(w->base, 0, ROOM);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, w->win));
    for (int turn = 0; turn < turns; turn++) {
        CHECK_OK(MPI_Get_accumulate(ones, N, MPI_INT64_T, seen, N, MPI_INT64_T, target, 0, N, MPI_INT64_T, MPI_SUM, w->win));
        CHECK_OK(MPI_Win_flush(target, w->win));
        for (int i = 1; i < N - 1; i++) torn += seen[i] != seen[0];
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT64_T, target, 8 * (N - 1), 1, MPI_INT64_T, MPI_SUM, w->win));
        CHECK_OK(MPI_Fetch_and_op(&less, &seen[0], MPI_INT64_T, target, 8 * (N - 1), MPI_SUM, w->win));
        CHECK_OK(MPI_Win_flush(target, w->win));
    }
    CHECK_OK(MPI_Win_unlock_all(w->win));
    CHECK_EQ(torn, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == target)
        for (int i = 0; i < N; i++) CHECK_EQ(here[i], (long long) size * turns);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = make_window((enum memory) kind, ROOM, 1, MPI_COMM_WORLD);
        for (int target = 0; target < 2; target++) {
            bytes(&w, memory_names[kind], target);
            numbers(&w, memory_names[kind], target);
        }
        free_window(&w);
    }
    MPI_Comm node;
    int all = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &all);
    if (all == size) {
        struct window w = {MPI_WIN_NULL, NULL, ALLOCATED};
        CHECK_OK(MPI_Win_allocate_shared(ROOM, 1, MPI_INFO_NULL, node, &w.base, &w.win));
        bytes(&w, "MPI_Win_allocate_shared", 1);
        numbers(&w, "MPI_Win_allocate_shared", 0);
        free_window(&w);
    }
    MPI_Comm_free(&node);
    return check_end();
}
