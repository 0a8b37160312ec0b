// ranks: 1 2 4 7
// transports: near
/* Windows in shared memory: in one piece or not, loads and stores, queries, different sizes,
 * empty ones. */
#include "win.h"

static void shared(int apart)
{
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    int ranks, me;
    MPI_Comm_size(node, &ranks);
    MPI_Comm_rank(node, &me);
    CHECK_EQ(ranks, size);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", apart ? "true" : "false");
    check_where(apart ? "apart" : "in one piece");
    MPI_Win win;
    long *mine = NULL;
    MPI_Aint elements = ranks > 1 ? me * 3 : 2;
    CHECK_OK(MPI_Win_allocate_shared(elements * 8, 8, info, node, &mine, &win));
    MPI_Info_free(&info);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    for (int i = 0; i < elements; i++) mine[i] = 100 * me + i;
    CHECK_OK(MPI_Win_sync(win));
    MPI_Barrier(node);
    CHECK_OK(MPI_Win_sync(win));
    long *next = NULL;
    for (int r = 0; r < ranks; r++) {
        MPI_Aint bytes = -1, unit = -1;
        int int_unit = -1;
        long *theirs = NULL;
        CHECK_OK(MPI_Win_shared_query(win, r, &bytes, &int_unit, &theirs));
        CHECK_EQ(bytes, 8 * (ranks > 1 ? r * 3 : 2));
        CHECK_EQ(int_unit, 8);
        for (int i = 0; i < bytes / 8; i++) CHECK_EQ(theirs[i], 100 * r + i);
        CHECK((theirs == NULL) == (apart && bytes == 0));
        if (!apart && next) CHECK(theirs == next);
        next = theirs + bytes / 8;
        if (r == me) {
            CHECK(theirs == mine);
            void *base = NULL;
            int flag = 0;
            CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
            CHECK(flag && base == mine);
        }
        CHECK_OK(MPI_Win_shared_query_c(win, r, &bytes, &unit, &theirs));
        CHECK_EQ(unit, 8);
    }
    long *lowest = NULL;
    MPI_Aint bytes = -1;
    int unit = -1;
    CHECK_OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &lowest));
    CHECK(lowest[0] == (ranks > 1 ? 100 : 0) && bytes == (ranks > 1 ? 24 : 16));
    CHECK_CLASS(MPI_Win_shared_query(win, ranks, &bytes, &unit, &lowest), MPI_ERR_RANK);
    MPI_Barrier(node);
    /* Stores of one and accumulates of another access the same memory. */
    int to = ranks > 1 ? 1 + me % (ranks - 1) : 0;
    long one = 1;
    if (me == to) mine[1] = 0;
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, ranks - 1, 1, 1, MPI_LONG, MPI_SUM, win));
    CHECK_OK(MPI_Win_fence(0, win));
    if (me == ranks - 1) CHECK_EQ(mine[1], (ranks > 1 ? 100 * me + 1 - (me == to ? 100 * me + 1 : 0) : 0) + ranks);
    CHECK_OK(MPI_Win_free(&win));
    check_where("no memory at all");
    CHECK_OK(MPI_Win_allocate_shared(0, 4, MPI_INFO_NULL, node, &mine, &win));
    CHECK_OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &lowest));
    CHECK_EQ(bytes, 0);
    CHECK_OK(MPI_Win_free(&win));
    MPI_Comm_free(&node);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    shared(0);
    shared(1);
    return check_end();
}
