// ranks: 1 2 4 7
// transports: all
// every day: nodes lamd ofi
/* Post, start, complete, wait and test: rings, all to one, empty groups, a rank with itself. */
#include "win.h"

static MPI_Group group_of(const int *ranks, int n)
{
    MPI_Group world, made;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, n, ranks, &made);
    MPI_Group_free(&world);
    return made;
}

static void free_group(MPI_Group group)
{
    if (group != MPI_GROUP_EMPTY) MPI_Group_free(&group);
}

static void ring(enum memory kind)
{
    struct window w = make_window(kind, 64, 8, MPI_COMM_WORLD);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Group targets = group_of(&to, 1), origins = group_of(&from, 1);
    for (int turn = 0; turn < scaled(60); turn++) {
        check_where("ring %d, %s", turn, memory_names[kind]);
        long value = 1000L * turn + rank, one = 1;
        int check = turn % 3 == 0 ? MPI_MODE_NOCHECK : 0;
        CHECK_OK(MPI_Win_post(origins, check | MPI_MODE_NOSTORE, w.win));
        if (check) MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Win_start(targets, check, w.win));
        CHECK_OK(MPI_Put(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win));
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, to, 1, 1, MPI_LONG, MPI_SUM, w.win));
        if (size > 1 && size != 2)
            CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, from, 0, 1, MPI_LONG, w.win), MPI_ERR_RMA_SYNC);
        CHECK_OK(MPI_Win_complete(w.win));
        if (turn % 2) {
            CHECK_OK(MPI_Win_wait(w.win));
        } else {
            for (int flag = 0; !flag;) CHECK_OK(MPI_Win_test(w.win, &flag));
        }
        CHECK_EQ(((long *) w.base)[0], 1000L * turn + from);
        CHECK_EQ(((long *) w.base)[1], turn + 1);
    }
    free_group(targets);
    free_group(origins);
    free_window(&w);
}

/* All ranks, rank 0 too, write to rank 0; the next exposure is open before the last origin has
 * begun. */
static void gather(enum memory kind)
{
    struct window w = make_window(kind, 8 * size, 8, MPI_COMM_WORLD);
    int zero = 0;
    MPI_Group root = group_of(&zero, 1), all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int turn = 0; turn < scaled(40); turn++) {
        check_where("gather %d, %s", turn, memory_names[kind]);
        if (rank == 0) CHECK_OK(MPI_Win_post(all, 0, w.win));
        long value = 100L * turn + rank;
        CHECK_OK(MPI_Win_start(root, 0, w.win));
        CHECK_OK(MPI_Put(&value, 1, MPI_LONG, 0, rank, 1, MPI_LONG, w.win));
        CHECK_OK(MPI_Win_complete(w.win));
        if (rank == 0) {
            CHECK_OK(MPI_Win_wait(w.win));
            for (int from = 0; from < size; from++) CHECK_EQ(((long *) w.base)[from], 100L * turn + from);
        }
    }
    check_where("empty groups, %s", memory_names[kind]);
    CHECK_OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, w.win));
    CHECK_OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, w.win));
    CHECK_OK(MPI_Win_complete(w.win));
    CHECK_OK(MPI_Win_wait(w.win));
    free_group(root);
    MPI_Group_free(&all);
    free_window(&w);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) {
        ring((enum memory) kind);
        gather((enum memory) kind);
    }
    return check_end();
}
