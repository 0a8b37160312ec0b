// ranks: 1 2 4 7
// transports: all
/* Accesses with requests: many at once, waited for in any order, tested, long and short. */
#include "win.h"

enum { MANY = 24, ROOM = 1 << 16 };

static void requests(enum memory kind)
{
    struct window w = make_window(kind, (MPI_Aint) MANY * ROOM, 1, MPI_COMM_WORLD);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *out = allocate((size_t) MANY * ROOM), *in = allocate((size_t) MANY * ROOM);
    MPI_Request all[MANY];
    CHECK_OK(MPI_Win_lock_all(0, w.win));
    check_where("Rput, %s", memory_names[kind]);
    for (int i = 0; i < MANY; i++) {
        int bytes = i % 3 == 0 ? 8 : i % 3 == 1 ? 5000 : ROOM;
        pattern_fill(out + i * ROOM, (size_t) bytes, (unsigned) (rank * 100 + i));
        CHECK_OK(MPI_Rput(out + i * ROOM, bytes, MPI_BYTE, to, (MPI_Aint) i * ROOM, bytes, MPI_BYTE, w.win, &all[i]));
    }
    CHECK_OK(MPI_Waitall(MANY, all, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK(all[i] == MPI_REQUEST_NULL);
    /* Only the origin's memory is free again; the data have arrived after the flush. */
    memset(out, 0, (size_t) MANY * ROOM);
    CHECK_OK(MPI_Win_flush(to, w.win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        int bytes = i % 3 == 0 ? 8 : i % 3 == 1 ? 5000 : ROOM;
        CHECK_EQ(pattern_differs((char *) w.base + i * ROOM, (size_t) bytes, (unsigned) (from * 100 + i)), -1);
    }
    check_where("Rget, %s", memory_names[kind]);
    for (int i = 0; i < MANY; i++) {
        int bytes = i % 3 == 0 ? 8 : i % 3 == 1 ? 5000 : ROOM;
        CHECK_OK(MPI_Rget_c(in + i * ROOM, bytes, MPI_BYTE, to, (MPI_Aint) i * ROOM, bytes, MPI_BYTE, w.win, &all[i]));
    }
    for (int i = MANY; i-- > 0;) {
        int bytes = i % 3 == 0 ? 8 : i % 3 == 1 ? 5000 : ROOM, flag = 0;
        while (!flag) CHECK_OK(MPI_Test(&all[i], &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(in + i * ROOM, (size_t) bytes, (unsigned) (rank * 100 + i)), -1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check_where("Raccumulate, %s", memory_names[kind]);
    long *numbers = (long *) out, *before = (long *) in, n = ROOM / 8;
    for (long i = 0; i < n; i++) numbers[i] = i;
    CHECK_OK(MPI_Rput(numbers, (int) n, MPI_LONG, rank, 0, (int) n, MPI_LONG, w.win, &all[0]));
    CHECK_OK(MPI_Wait(&all[0], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Win_flush_all(w.win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 5; i++)
        CHECK_OK(MPI_Raccumulate(numbers, (int) n, MPI_LONG, to, 0, (int) n, MPI_LONG, MPI_SUM, w.win, &all[i]));
    CHECK_OK(MPI_Rget_accumulate(numbers, (int) n, MPI_LONG, before, (int) n, MPI_LONG, to, 0, (int) n, MPI_LONG, MPI_SUM, w.win, &all[5]));
    CHECK_OK(MPI_Rget_accumulate(numbers, 1, MPI_LONG, before + n, 1, MPI_LONG, to, 8, 1, MPI_LONG, MPI_NO_OP, w.win, &all[6]));
    CHECK_OK(MPI_Waitall(7, all, MPI_STATUSES_IGNORE));
    for (long i = 0; i < n; i++)
        if (!CHECK_EQ(before[i], 6 * i)) break;
    CHECK_EQ(before[n], 7);
    check_where("no process, %s", memory_names[kind]);
    CHECK_OK(MPI_Rput(out, 1, MPI_BYTE, MPI_PROC_NULL, 0, 1, MPI_BYTE, w.win, &all[0]));
    CHECK_OK(MPI_Rget(in, 1, MPI_BYTE, MPI_PROC_NULL, 0, 1, MPI_BYTE, w.win, &all[1]));
    CHECK_OK(MPI_Waitall(2, all, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Win_unlock_all(w.win));
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK_CLASS(MPI_Rput(out, 1, MPI_BYTE, to, 0, 1, MPI_BYTE, w.win, &all[0]), MPI_ERR_RMA_SYNC);
    CHECK_OK(MPI_Win_fence(0, w.win));
    free(out);
    free(in);
    free_window(&w);
}

/* The error of a request goes to the handler of its window, not to that of MPI_COMM_WORLD, which
 * would end the job. */
static void failing(void)
{
    MPI_Win win;
    MPI_Request request;
    MPI_Aint here, there;
    int to = (rank + 1) % size, from = (rank + size - 1) % size, value;
    check_where("failing");
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    char *memory = allocate(128);
    CHECK_OK(MPI_Win_attach(win, memory, 128));
    MPI_Get_address(memory, &here);
    MPI_Sendrecv(&here, 1, MPI_AINT, from, 0, &there, 1, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    int error = MPI_Rget(&value, 1, MPI_INT, to, there + 126, 1, MPI_INT, win, &request);
    if (error == MPI_SUCCESS) error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_CLASS(error, MPI_ERR_RMA_RANGE);
    MPI_Win_unlock(to, win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_detach(win, memory));
    CHECK_OK(MPI_Win_free(&win));
    free(memory);
}

/* A rank waits in a loop of calls without anything to wait for, while a long message arrives,
 * with the flag behind it. */
static void waiting(int how)
{
    static const char *const names[] = {"MPI_Rget", "MPI_Win_lock with MPI_MODE_NOCHECK", "MPI_Win_lock_all", "MPI_Test"};
    enum { N = 100000 };
    check_where("waiting with %s", names[how]);
    struct window w = make_window(ALLOCATED, 64, 4, MPI_COMM_WORLD);
    int *numbers = allocate(N * sizeof *numbers), other = rank ^ 1, own_lock = how == 0 || how == 3;
    if (rank < 2 && size > 1) {
        if (rank == 0) {
            MPI_Request message, get, none = MPI_REQUEST_NULL;
            int flag = 0, done;
            MPI_Irecv(numbers, N, MPI_INT, other, 0, MPI_COMM_WORLD, &message);
            if (own_lock) CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, other, MPI_MODE_NOCHECK, w.win));
            while (!flag) {
                if (how == 1) CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, other, MPI_MODE_NOCHECK, w.win));
                if (how == 2) CHECK_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
                if (how == 0 || how == 3) {
                    CHECK_OK(MPI_Rget(&flag, 1, MPI_INT, other, 0, 1, MPI_INT, w.win, &get));
                    CHECK_OK(MPI_Wait(&get, MPI_STATUS_IGNORE));
                } else {
                    CHECK_OK(MPI_Get(&flag, 1, MPI_INT, other, 0, 1, MPI_INT, w.win));
                }
                if (how == 1) CHECK_OK(MPI_Win_unlock(other, w.win));
                if (how == 2) CHECK_OK(MPI_Win_unlock_all(w.win));
                if (how == 3) CHECK_OK(MPI_Test(&none, &done, MPI_STATUS_IGNORE));
            }
            if (own_lock) CHECK_OK(MPI_Win_unlock(other, w.win));
            CHECK_OK(MPI_Wait(&message, MPI_STATUS_IGNORE));
            for (int i = 0; i < N; i++)
                if (!CHECK_EQ(numbers[i], i)) break;
        } else {
            int one = 1;
            for (int i = 0; i < N; i++) numbers[i] = i;
            MPI_Ssend(numbers, N, MPI_INT, other, 0, MPI_COMM_WORLD);
            CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, MPI_MODE_NOCHECK, w.win));
            CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_REPLACE, w.win));
            CHECK_OK(MPI_Win_unlock(rank, w.win));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(numbers);
    free_window(&w);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) requests((enum memory) kind);
    failing();
    for (int how = 0; how < 4; how++) waiting(how);
    return check_end();
}
