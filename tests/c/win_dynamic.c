// ranks: 1 2 4 7
// transports: all
/* Dynamic windows: memory of both kinds is attached and detached, and accessed by its address,
 * also in the middle; other memory is refused. */
#include "win.h"

enum { PIECES = 5, BYTES = 40000 };

static MPI_Win win;

static void use(void *mine, MPI_Aint *theirs, int to, int from, int turn)
{
    MPI_Aint address = (MPI_Aint) mine;
    MPI_Allgather(&address, 1, MPI_AINT, theirs, 1, MPI_AINT, MPI_COMM_WORLD);
    unsigned char out[3000], in[3000];
    pattern_fill(out, sizeof out, (unsigned) (rank + turn));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    CHECK_OK(MPI_Put(out, sizeof out, MPI_BYTE, to, MPI_Aint_add(theirs[to], 100), sizeof out, MPI_BYTE, win));
    CHECK_OK(MPI_Win_flush(to, win));
    CHECK_OK(MPI_Get(in, sizeof in, MPI_BYTE, to, MPI_Aint_add(theirs[to], 100), sizeof in, MPI_BYTE, win));
    long one = 1, old;
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, to, theirs[to], 1, MPI_LONG, MPI_SUM, win));
    CHECK_OK(MPI_Win_flush(to, win));
    CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, to, theirs[to], MPI_NO_OP, win));
    CHECK_OK(MPI_Win_unlock(to, win));
    CHECK_EQ(memcmp(out, in, sizeof out), 0);
    CHECK(old >= 1);
    MPI_Datatype two;
    MPI_Type_vector(2, 1, 500, MPI_LONG, &two);
    MPI_Type_commit(&two);
    long values[2] = {rank, rank + 1};
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(values, 2, MPI_LONG, to, theirs[to] + 8000, 1, two, win));
    CHECK_OK(MPI_Win_fence(0, win));
    MPI_Type_free(&two);
    CHECK_EQ(pattern_differs((char *) mine + 100, 3000, (unsigned) (from + turn)), -1);
    CHECK_EQ(*(long *) mine, 1);
    CHECK(((long *) mine)[1000] == from && ((long *) mine)[1500] == from + 1);
}

/* An access whose data are in several attached regions, some of which touch. Others have a hole
 * between them, where no data may be. */
static void several_regions(int heap, MPI_Aint *theirs, int to, int from)
{
    enum { A = 0, B = 8000, HOLE = 16000, C = 16800, END = 24000, ACROSS = 12000, START = 2000 };
    check_where("several regions, %s", heap ? "MPI_Alloc_mem" : "malloc");
    char *mine, *out = allocate(ACROSS), *in = allocate(ACROSS);
    if (heap) CHECK_OK(MPI_Alloc_mem(END, MPI_INFO_NULL, &mine));
    else mine = allocate(END);
    memset(mine, 0, END);
    CHECK_OK(MPI_Win_attach(win, mine + C, END - C));
    CHECK_OK(MPI_Win_attach(win, mine + A, B - A));
    CHECK_OK(MPI_Win_attach(win, mine + B, HOLE - B));
    MPI_Aint address = (MPI_Aint) mine;
    MPI_Allgather(&address, 1, MPI_AINT, theirs, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Datatype apart, into_hole;
    MPI_Type_create_hindexed(2, (int[]){1000, 1000}, (MPI_Aint[]){A, C + 8}, MPI_BYTE, &apart);
    MPI_Type_create_hindexed(2, (int[]){1000, 1000}, (MPI_Aint[]){A, HOLE - 8}, MPI_BYTE, &into_hole);
    MPI_Type_commit(&apart);
    MPI_Type_commit(&into_hole);
    long ones[] = {1, 1, 1, 1};

    pattern_fill(out, ACROSS, (unsigned) rank);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    CHECK_OK(MPI_Put(out, ACROSS, MPI_BYTE, to, theirs[to] + START, ACROSS, MPI_BYTE, win));
    CHECK_OK(MPI_Win_flush(to, win));
    CHECK_OK(MPI_Get(in, ACROSS, MPI_BYTE, to, theirs[to] + START, ACROSS, MPI_BYTE, win));
    CHECK_OK(MPI_Win_unlock(to, win));
    CHECK_EQ(pattern_differs(in, ACROSS, (unsigned) rank), -1);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(pattern_differs(mine + START, ACROSS, (unsigned) from), -1);
    memset(mine + B - 16, 0, 32);
    MPI_Barrier(MPI_COMM_WORLD);

    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    CHECK_OK(MPI_Accumulate(ones, 4, MPI_LONG, to, theirs[to] + B - 16, 4, MPI_LONG, MPI_SUM, win));
    CHECK_OK(MPI_Put(out, 2000, MPI_BYTE, to, theirs[to], 1, apart, win));
    CHECK_OK(MPI_Win_flush(to, win));
    memset(in, 0, 2000);
    CHECK_OK(MPI_Get(in, 2000, MPI_BYTE, to, theirs[to], 1, apart, win));
    CHECK_OK(MPI_Win_unlock(to, win));
    CHECK_EQ(memcmp(out, in, 2000), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) CHECK_EQ(((long *) (mine + B - 16))[i], 1);
    pattern_fill(out, ACROSS, (unsigned) from);
    CHECK_EQ(memcmp(mine, out, 1000), 0);
    CHECK_EQ(memcmp(mine + C + 8, out + 1000, 1000), 0);
    for (int i = HOLE; i < C + 8; i++) CHECK_EQ(mine[i], 0);

    for (int how = 0; how < 2; how++) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
        int code = how == 0 ? MPI_Put(out, 2000, MPI_BYTE, to, theirs[to], 1, into_hole, win)
                            : MPI_Put(out, 1000, MPI_BYTE, to, theirs[to] + HOLE - 8, 1000, MPI_BYTE, win);
        int unlocked = MPI_Win_unlock(to, win);
        CHECK_CLASS(code != MPI_SUCCESS ? code : unlocked, MPI_ERR_RMA_RANGE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = HOLE; i < C + 8; i++) CHECK_EQ(mine[i], 0);
    CHECK_OK(MPI_Win_detach(win, mine + A));
    CHECK_OK(MPI_Win_detach(win, mine + B));
    CHECK_OK(MPI_Win_detach(win, mine + C));
    MPI_Type_free(&apart);
    MPI_Type_free(&into_hole);
    if (heap) MPI_Free_mem(mine);
    else free(mine);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Aint *theirs = allocate(sizeof(MPI_Aint) * (size_t) size);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    for (int heap = 0; heap < 2; heap++) {
        void *all[PIECES];
        for (int i = 0; i < PIECES; i++) {
            check_where("piece %d, %s", i, heap ? "MPI_Alloc_mem" : "malloc");
            if (heap) CHECK_OK(MPI_Alloc_mem(BYTES, MPI_INFO_NULL, &all[i]));
            else all[i] = allocate(BYTES);
            memset(all[i], 0, BYTES);
            CHECK_OK(MPI_Win_attach(win, all[i], BYTES));
            CHECK_CLASS(MPI_Win_attach(win, (char *) all[i] + 10, 10), MPI_ERR_RMA_ATTACH);
        }
        for (int i = 0; i < PIECES; i++) use(all[i], theirs, to, from, i);
        check_where("what is not attached, %s", heap ? "MPI_Alloc_mem" : "malloc");
        CHECK_OK(MPI_Win_detach(win, all[2]));
        CHECK_CLASS(MPI_Win_detach(win, all[2]), MPI_ERR_BASE);
        MPI_Aint gone = (MPI_Aint) all[2], edge = (MPI_Aint) all[1] + BYTES - 4;
        MPI_Allgather(&gone, 1, MPI_AINT, theirs, 1, MPI_AINT, MPI_COMM_WORLD);
        long value = -1;
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
        int code = MPI_Get(&value, 1, MPI_LONG, to, theirs[to], 1, MPI_LONG, win), class = code;
        int flushed = MPI_Win_flush(to, win);
        CHECK_CLASS(code != MPI_SUCCESS ? code : flushed, MPI_ERR_RMA_RANGE);
        code = MPI_Accumulate(&value, 1, MPI_LONG, to, theirs[to], 1, MPI_LONG, MPI_SUM, win);
        flushed = MPI_Win_unlock(to, win);
        CHECK_CLASS(code != MPI_SUCCESS ? code : flushed, MPI_ERR_RMA_RANGE);
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
        CHECK_CLASS(MPI_Put(&value, 1, MPI_LONG, rank, edge, 1, MPI_LONG, win), MPI_ERR_RMA_RANGE);
        CHECK_OK(MPI_Win_unlock(rank, win));
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < PIECES; i++) {
            if (i != 2) CHECK_OK(MPI_Win_detach(win, all[i]));
            if (heap) MPI_Free_mem(all[i]);
            else free(all[i]);
        }
    }
    for (int heap = 0; heap < 2; heap++) several_regions(heap, theirs, to, from);
    check_where("long data without a place");
    enum { LONG = 10000 };
    long *numbers = allocate(LONG * sizeof(long)), *before = allocate(LONG * sizeof(long));
    memset(numbers, 0, LONG * sizeof(long));
    for (int how = 0; how < 4; how++) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
        int code = how == 0   ? MPI_Put(numbers, LONG, MPI_LONG, to, 4096, LONG, MPI_LONG, win)
                   : how == 1 ? MPI_Get(numbers, LONG, MPI_LONG, to, 4096, LONG, MPI_LONG, win)
                   : how == 2 ? MPI_Accumulate(numbers, LONG, MPI_LONG, to, 4096, LONG, MPI_LONG, MPI_SUM, win)
                              : MPI_Get_accumulate(numbers, LONG, MPI_LONG, before, LONG, MPI_LONG, to, 4096, LONG,
                                                   MPI_LONG, MPI_SUM, win);
        int unlocked = MPI_Win_unlock(to, win);
        CHECK_CLASS(code != MPI_SUCCESS ? code : unlocked, MPI_ERR_RMA_RANGE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    free(numbers);
    free(before);
    check_where("more regions than are listed");
    enum { MANY = 300 };
    char *many = allocate(MANY * 16);
    memset(many, 0, MANY * 16);
    for (int i = 0; i < MANY; i++) CHECK_OK(MPI_Win_attach(win, many + 16 * i, 8));
    MPI_Aint address = (MPI_Aint) many;
    MPI_Allgather(&address, 1, MPI_AINT, theirs, 1, MPI_AINT, MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < MANY; i++) {
        long value = i + rank;
        CHECK_OK(MPI_Put(&value, 1, MPI_LONG, to, theirs[to] + 16 * i, 1, MPI_LONG, win));
    }
    CHECK_OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) CHECK_EQ(*(long *) (many + 16 * i), i + from);
    for (int i = MANY; i-- > 0;) CHECK_OK(MPI_Win_detach(win, many + 16 * i));
    free(many);
    int *unused;
    MPI_Aint bytes;
    CHECK_CLASS(MPI_Win_shared_query(win, 0, &bytes, &to, &unused), MPI_ERR_RMA_FLAVOR);
    CHECK_OK(MPI_Win_free(&win));
    free(theirs);
    return check_end();
}
