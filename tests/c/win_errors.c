// ranks: 1 2 4 7
// transports: one
/* Errors are raised on the window, and nothing is lost by them; a wrong collective call fails at
 * all ranks. */
#include "win.h"

static MPI_Win handled;
static int handled_code, handled_times;

static void handler(MPI_Win *win, int *code, ...)
{
    handled = *win;
    handled_code = *code;
    handled_times++;
}

static int deleted;

static int on_delete(MPI_Win win, int keyval, void *value, void *state)
{
    (void) win, (void) keyval, (void) state;
    deleted++;
    return *(int *) value;
}

static void creation(void)
{
    MPI_Win win = MPI_WIN_NULL;
    void *base = NULL;
    long memory[4];
    check_where("creation");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int wrong = rank == size - 1;
    CHECK_CLASS(MPI_Win_create(memory, wrong ? -1 : 32, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_SIZE);
    CHECK_CLASS(MPI_Win_allocate(32, wrong ? 0 : 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win), MPI_ERR_DISP);
    CHECK_CLASS(MPI_Win_create(wrong ? NULL : memory, 32, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_BASE);
    CHECK_CLASS(MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, wrong ? NULL : &base, &win), MPI_ERR_ARG);
    CHECK(win == MPI_WIN_NULL);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", wrong ? "48" : "4096");
    CHECK_CLASS(MPI_Win_allocate(8, 8, info, MPI_COMM_WORLD, &base, &win), MPI_ERR_INFO_VALUE);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096");
    CHECK_OK(MPI_Win_allocate(8, 8, info, MPI_COMM_WORLD, &base, &win));
    CHECK_EQ((uintptr_t) base % 4096, 0);
    CHECK_OK(MPI_Win_free(&win));
    MPI_Info_free(&info);
    CHECK_CLASS(MPI_Win_create(memory, 32, 8, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    CHECK_CLASS(MPI_Win_free(&win), MPI_ERR_WIN);
}

static void use(enum memory kind)
{
    check_where("use, %s", memory_names[kind]);
    struct window w = make_window(kind, 64, 8, MPI_COMM_WORLD);
    long value = 1, old = 5;
    int to = (rank + 1) % size, flag;
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Get(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Fetch_and_op(&value, &old, MPI_LONG, to, 0, MPI_SUM, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Compare_and_swap(&value, &value, &old, MPI_LONG, to, 0, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock(to, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock_all(w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush(to, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush_all(w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_complete(w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_wait(w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_test(w.win, &flag), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_lock(77, to, 0, w.win), MPI_ERR_LOCKTYPE);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, w.win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, -9, 0, w.win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, to, MPI_MODE_NOPUT, w.win), MPI_ERR_ASSERT);
    CHECK_CLASS(MPI_Win_start(world, MPI_MODE_NOPRECEDE, w.win), MPI_ERR_ASSERT);
    CHECK_CLASS(MPI_Win_post(world, 1, w.win), MPI_ERR_ASSERT);
    CHECK_CLASS(MPI_Win_fence(3, w.win), MPI_ERR_ASSERT);
    CHECK_CLASS(MPI_Win_start(MPI_GROUP_NULL, 0, w.win), MPI_ERR_GROUP);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w.win));
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_lock_all(0, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_start(world, 0, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, -1, 1, MPI_LONG, w.win), MPI_ERR_DISP);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, 8, 1, MPI_LONG, w.win), MPI_ERR_RMA_RANGE);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, 1L << 61, 1, MPI_LONG, w.win), MPI_ERR_RMA_RANGE);
    CHECK_CLASS(MPI_Get(&old, 1, MPI_LONG, to, 7, 3, MPI_INT, w.win), MPI_ERR_RMA_RANGE);
    CHECK_CLASS(MPI_Put(&value, -1, MPI_LONG, to, 0, 1, MPI_LONG, w.win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, 0, -1, MPI_LONG, w.win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Put(NULL, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, 0, 1, MPI_DATATYPE_NULL, w.win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, size, 0, 1, MPI_LONG, w.win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Accumulate(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_OP_NULL, w.win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Accumulate(&value, 1, MPI_DOUBLE, to, 0, 1, MPI_DOUBLE, MPI_BAND, w.win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Accumulate(&value, 1, MPI_LONG, to, 0, 2, MPI_INT, MPI_SUM, w.win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Compare_and_swap(&value, &value, &old, MPI_DOUBLE, to, 0, w.win), MPI_ERR_TYPE);
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    CHECK_CLASS(MPI_Put(&value, 1, pair, to, 0, 1, pair, w.win), MPI_ERR_TYPE);
    MPI_Type_commit(&pair);
    CHECK_CLASS(MPI_Fetch_and_op(&value, &old, pair, to, 0, MPI_SUM, w.win), MPI_ERR_TYPE);
    MPI_Datatype freed = pair;
    MPI_Type_free(&pair);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, 0, 1, freed, w.win), MPI_ERR_TYPE);
    MPI_Op mine;
    MPI_Op_create((MPI_User_function *) abort, 1, &mine);
    CHECK_CLASS(MPI_Accumulate(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, mine, w.win), MPI_ERR_OP);
    MPI_Op_free(&mine);
    CHECK_CLASS(MPI_Win_attach(w.win, &value, 8), MPI_ERR_RMA_FLAVOR);
    CHECK_CLASS(MPI_Rput(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Win_unlock(to, w.win));
    CHECK_EQ(old, 5);
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK_OK(MPI_Put(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win));
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w.win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win), MPI_ERR_ASSERT);
    CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, to, 0, 1, MPI_LONG, w.win), MPI_ERR_RMA_SYNC);
    MPI_Group_free(&world);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(((long *) w.base)[0], 1);
    check_where("freed with an open epoch, %s", memory_names[kind]);
    if (rank == 0) CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
    MPI_Win kept = w.win;
    CHECK_CLASS(MPI_Win_free(&w.win), MPI_ERR_RMA_SYNC);
    CHECK(w.win == kept);
    if (rank == 0) CHECK_OK(MPI_Win_unlock(0, w.win));
    free_window(&w);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Win_fence(0, kept), MPI_ERR_WIN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

static void handlers(void)
{
    check_where("handlers");
    struct window w = make_window(ALLOCATED, 64, 8, MPI_COMM_WORLD);
    MPI_Errhandler made, got;
    CHECK_OK(MPI_Win_create_errhandler(handler, &made));
    CHECK_OK(MPI_Win_set_errhandler(w.win, made));
    CHECK_OK(MPI_Errhandler_free(&made));
    CHECK_CLASS(MPI_Win_unlock(0, w.win), MPI_ERR_RMA_SYNC);
    CHECK(handled == w.win && handled_code == MPI_ERR_RMA_SYNC && handled_times == 1);
    CHECK_OK(MPI_Win_call_errhandler(w.win, MPI_ERR_OTHER));
    CHECK(handled_code == MPI_ERR_OTHER && handled_times == 2);
    CHECK_OK(MPI_Win_get_errhandler(w.win, &got));
    CHECK_OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&got));
    CHECK_CLASS(MPI_Win_set_errhandler(w.win, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    free_window(&w);
}

/* A window whose free is refused keeps its attributes; one whose attributes cannot be deleted
 * stays at all ranks. */
static void refused(void)
{
    check_where("refused");
    struct window w = make_window(ALLOCATED, 64, 8, MPI_COMM_WORLD);
    int key, flag = 0, answer = MPI_SUCCESS, *value = NULL;
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL));
    CHECK_OK(MPI_Win_set_attr(w.win, key, &answer));
    MPI_Win kept = w.win;
    if (rank == 0) CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
    CHECK_CLASS(MPI_Win_free(&w.win), MPI_ERR_RMA_SYNC);
    CHECK_EQ(deleted, 0);
    CHECK_OK(MPI_Win_get_attr(w.win, key, &value, &flag));
    CHECK(flag && value == &answer);
    if (rank == 0) CHECK_OK(MPI_Win_unlock(0, w.win));
    if (rank == size - 1) answer = MPI_ERR_OTHER;
    CHECK_CLASS(MPI_Win_free(&w.win), MPI_ERR_OTHER);
    CHECK(w.win == kept);
    CHECK_OK(MPI_Win_get_attr(w.win, key, &value, &flag));
    CHECK_EQ(flag, rank == size - 1);
    answer = MPI_SUCCESS;
    free_window(&w);
    CHECK_EQ(deleted, rank == size - 1 ? 2 : 1);
    CHECK_OK(MPI_Win_free_keyval(&key));
}

static void nothing(void)
{
    check_where("nothing");
    struct window w = make_window(ALLOCATED, rank ? 64 : 0, 8, MPI_COMM_WORLD);
    long value = 1;
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK_OK(MPI_Put(&value, 0, MPI_LONG, 0, 100, 0, MPI_LONG, w.win));
    CHECK_OK(MPI_Get(&value, 0, MPI_LONG, 0, 100, 0, MPI_LONG, w.win));
    CHECK_OK(MPI_Accumulate(&value, 0, MPI_LONG, 0, 100, 0, MPI_LONG, MPI_SUM, w.win));
    CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, 0, 100, 1, MPI_LONG, w.win), MPI_ERR_RMA_RANGE);
    CHECK_OK(MPI_Win_fence(0, w.win));
    free_window(&w);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    creation();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    for (int kind = 0; kind < KINDS; kind++) use((enum memory) kind);
    handlers();
    refused();
    nothing();
    return check_end();
}
