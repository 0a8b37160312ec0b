// ranks: 1 2 4 7
// transports: all
// every day: shm-denied
/* Windows of all flavors are made and freed; their attributes; different displacement units. */
#include "win.h"

static MPI_Aint size_of(MPI_Win win)
{
    MPI_Aint *bytes = NULL;
    int flag = 0;
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &bytes, &flag));
    return flag ? *bytes : -1;
}

static int int_of(MPI_Win win, int keyval)
{
    int *value = NULL, flag = 0;
    CHECK_OK(MPI_Win_get_attr(win, keyval, &value, &flag));
    return flag ? *value : -1;
}

static void *base_of(MPI_Win win)
{
    void *base = NULL;
    int flag = 0;
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag);
    return base;
}

static void flavors(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_where("%s", memory_names[kind]);
        struct window w = make_window((enum memory) kind, 100 + rank, 1 + rank % 3, MPI_COMM_WORLD);
        CHECK_EQ(size_of(w.win), 100 + rank);
        CHECK_EQ(int_of(w.win, MPI_WIN_DISP_UNIT), 1 + rank % 3);
        CHECK_EQ(int_of(w.win, MPI_WIN_CREATE_FLAVOR), kind == ALLOCATED ? MPI_WIN_FLAVOR_ALLOCATE : MPI_WIN_FLAVOR_CREATE);
        CHECK_EQ(int_of(w.win, MPI_WIN_MODEL), MPI_WIN_UNIFIED);
        CHECK(base_of(w.win) == w.base);
        free_window(&w);
    }
    MPI_Win win;
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK(base_of(win) == MPI_BOTTOM);
    CHECK_EQ(size_of(win), 0);
    CHECK_EQ(int_of(win, MPI_WIN_CREATE_FLAVOR), MPI_WIN_FLAVOR_DYNAMIC);
    CHECK_OK(MPI_Win_free(&win));
    check_where("no memory at some ranks");
    long *base = NULL;
    CHECK_OK(MPI_Win_allocate_c(rank % 2 ? 0 : 80, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    CHECK_OK(MPI_Win_fence(0, win));
    long value = 7;
    for (int to = 0; to < size; to++) {
        CHECK_OK(MPI_Put(&value, 0, MPI_LONG, to, 0, 0, MPI_LONG, win));
        if (to % 2 == 0) CHECK_OK(MPI_Put(&value, 1, MPI_LONG, to, 9, 1, MPI_LONG, win));
    }
    CHECK_OK(MPI_Win_fence(0, win));
    if (rank % 2 == 0) CHECK_EQ(base[9], 7);
    CHECK_OK(MPI_Win_free(&win));
}

static void units(void)
{
    static const int unit[] = {1, 4, 8, 2, 16, 3, 5};
    for (int kind = 0; kind < KINDS; kind++) {
        check_where("units, %s", memory_names[kind]);
        struct window w = make_window((enum memory) kind, 256, unit[rank % 7], MPI_COMM_WORLD);
        CHECK_OK(MPI_Win_fence(0, w.win));
        unsigned char mine = (unsigned char) (rank + 1);
        for (int to = 0; to < size; to++) CHECK_OK(MPI_Put(&mine, 1, MPI_BYTE, to, rank, 1, MPI_BYTE, w.win));
        CHECK_OK(MPI_Win_fence(0, w.win));
        unsigned char *bytes = w.base;
        for (int from = 0; from < size; from++) CHECK_EQ(bytes[from * unit[rank % 7]], from + 1);
        free_window(&w);
    }
}

static void many(void)
{
    enum { MANY = 20 };
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int ranks, mine;
    MPI_Comm_size(half, &ranks);
    MPI_Comm_rank(half, &mine);
    struct window all[MANY];
    for (int i = 0; i < MANY; i++) {
        check_where("window %d", i);
        all[i] = make_window((enum memory) (i % KINDS), 64, 8, i % 2 ? half : MPI_COMM_WORLD);
    }
    MPI_Comm_free(&half);
    for (int i = 0; i < MANY; i++) {
        check_where("use of window %d", i);
        int others = i % 2 ? ranks : size, me = i % 2 ? mine : rank;
        CHECK_OK(MPI_Win_fence(0, all[i].win));
        long value = 1000 * i + me;
        CHECK_OK(MPI_Put(&value, 1, MPI_LONG, (me + 1) % others, i % 8, 1, MPI_LONG, all[i].win));
        CHECK_OK(MPI_Win_fence(0, all[i].win));
        CHECK_EQ(((long *) all[i].base)[i % 8], 1000 * i + (me + others - 1) % others);
    }
    for (int i = 0; i < MANY; i++) free_window(&all[i * 7 % MANY]);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    flavors();
    units();
    many();
    return check_end();
}
