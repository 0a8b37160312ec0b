// ranks: 1 2 4 7
// transports: all
// every day: tcp-encrypted nodes lamd ofi
/* Passive target: locks exclude each other, flushes complete, the target is in different calls
 * or none; both lock each other. */
#include "win.h"

static void exclusion(enum memory kind)
{
    check_where("exclusion, %s", memory_names[kind]);
    struct window w = make_window(kind, 64, 8, MPI_COMM_WORLD);
    int turns = scaled(40);
    for (int turn = 0; turn < turns; turn++) {
        int to = (rank + turn) % size;
        long value = -1;
        CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, w.win));
        CHECK_OK(MPI_Get(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win));
        CHECK_OK(MPI_Win_flush(to, w.win));
        value++;
        CHECK_OK(MPI_Put(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win));
        CHECK_OK(MPI_Win_unlock(to, w.win));
        if (turn % 5 == 0) {
            CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w.win));
            CHECK_OK(MPI_Get(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win));
            CHECK_OK(MPI_Win_unlock(to, w.win));
            CHECK(value > 0);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
    long here = *(long *) w.base, total = 0;
    CHECK_OK(MPI_Win_unlock(rank, w.win));
    MPI_Allreduce(&here, &total, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(total, (long) turns * size);
    free_window(&w);
}

static void several(enum memory kind)
{
    check_where("several, %s", memory_names[kind]);
    struct window w = make_window(kind, 8 * size, 8, MPI_COMM_WORLD);
    for (int turn = 0; turn < scaled(10); turn++) {
        for (int to = 0; to < size; to++) CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w.win));
        long value = turn;
        for (int to = 0; to < size; to++) CHECK_OK(MPI_Put(&value, 1, MPI_LONG, to, rank, 1, MPI_LONG, w.win));
        CHECK_OK(MPI_Win_flush_all(w.win));
        CHECK_OK(MPI_Win_flush_local_all(w.win));
        for (int to = 0; to < size; to++) {
            long back = -1;
            CHECK_OK(MPI_Get(&back, 1, MPI_LONG, to, rank, 1, MPI_LONG, w.win));
            CHECK_OK(MPI_Win_flush_local(to, w.win));
            CHECK_EQ(back, turn);
        }
        for (int to = size; to-- > 0;) CHECK_OK(MPI_Win_unlock((to + rank) % size, w.win));
        CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank ^ 1 ? (rank ^ 1) % size : 0, 0, w.win));
        CHECK_OK(MPI_Win_unlock(rank ^ 1 ? (rank ^ 1) % size : 0, w.win));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (rank + 1) % size, MPI_MODE_NOCHECK, w.win));
    long value = 99;
    CHECK_OK(MPI_Put(&value, 1, MPI_LONG, (rank + 1) % size, 0, 1, MPI_LONG, w.win));
    CHECK_OK(MPI_Win_unlock((rank + 1) % size, w.win));
    CHECK_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
    CHECK_OK(MPI_Win_unlock_all(w.win));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, w.win));
    CHECK_OK(MPI_Win_unlock(MPI_PROC_NULL, w.win));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(*(long *) w.base, 99);
    free_window(&w);
}

static void progress(enum memory kind)
{
    enum { RECV, BARRIER, TEST, PROBE, SYNC, SITS };
    struct window w = make_window(kind, 1 << 18, 1, MPI_COMM_WORLD);
    char *big = allocate(1 << 17);
    int target = size - 1;
    for (int sits = 0; sits < SITS; sits++) {
        check_where("target sits in %d, %s", sits, memory_names[kind]);
        memset(w.base, 0, 1 << 18);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == target) {
            MPI_Request request;
            char nothing;
            int flag = 0;
            switch (sits) {
            case RECV:
                for (int from = 0; from < size - 1; from++)
                    MPI_Recv(&nothing, 1, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                break;
            case BARRIER: break;
            case TEST:
                for (int from = 0; from < size - 1; from++) {
                    MPI_Irecv(&nothing, 1, MPI_CHAR, from, 1, MPI_COMM_WORLD, &request);
                    for (flag = 0; !flag;) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
                }
                break;
            case PROBE:
                for (int from = 0; from < size - 1; from++) {
                    for (flag = 0; !flag;) MPI_Iprobe(from, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
                    MPI_Recv(&nothing, 1, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                }
                break;
            default:
                /* Loads of its own memory, until all have put something there. */
                for (int from = 0; from < size - 1; from++)
                    while (((volatile char *) w.base)[(1 << 17) + from] == 0) MPI_Win_sync(w.win);
            }
        } else {
            CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w.win));
            memset(big, rank + 1, 1 << 17);
            CHECK_OK(MPI_Put(big, 1 << 17, MPI_BYTE, target, 0, 1 << 17, MPI_BYTE, w.win));
            CHECK_OK(MPI_Win_flush(target, w.win));
            memset(big, 0, 1 << 17);
            CHECK_OK(MPI_Get(big, 1 << 17, MPI_BYTE, target, 0, 1 << 17, MPI_BYTE, w.win));
            CHECK_OK(MPI_Win_flush(target, w.win));
            CHECK_EQ(bytes_differ(big, 0, 1 << 17, (unsigned char) (rank + 1)), -1);
            char done = 1;
            CHECK_OK(MPI_Put(&done, 1, MPI_CHAR, target, (1 << 17) + rank, 1, MPI_CHAR, w.win));
            CHECK_OK(MPI_Win_unlock(target, w.win));
            if (sits == RECV || sits == TEST || sits == PROBE)
                MPI_Send(&done, 1, MPI_CHAR, target, 1, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == target)
            for (int from = 0; from < size - 1; from++) CHECK_EQ(((char *) w.base)[(1 << 17) + from], 1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(big);
    free_window(&w);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) {
        exclusion((enum memory) kind);
        several((enum memory) kind);
        progress((enum memory) kind);
    }
    return check_end();
}
