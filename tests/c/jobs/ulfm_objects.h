/* Work with windows and files for ulfm_kill.c, in which ranks fail anywhere. Each function makes
 * its window or file, uses it and frees it, and returns whether anything has failed. A rank with an
 * error revokes the communicator that it leaves, so that no rank waits for it.
 *
 * It uses step() and is_failure() of the program that includes it. */
#ifndef ULFM_OBJECTS_H
#define ULFM_OBJECTS_H

enum { OBJECT_KINDS = 11, CELLS = 20000 };

static int end_window(MPI_Win *win, int bad)
{
    if (bad) CHECK(MPIX_Win_revoke(*win) == MPI_SUCCESS);
    step();
    bad |= is_failure(MPI_Win_free(win));
    CHECK(*win == MPI_WIN_NULL);
    return bad;
}

static int allocate_window(MPI_Comm comm, int cells, int **memory, MPI_Win *win)
{
    step();
    *win = MPI_WIN_NULL;
    int bad = is_failure(MPI_Win_allocate(cells * (MPI_Aint)sizeof **memory, sizeof **memory, MPI_INFO_NULL, comm, memory, win));
    if (!bad) MPI_Win_set_errhandler(*win, MPI_ERRORS_RETURN);
    return bad;
}

static int fences(MPI_Comm comm, int rank, int size)
{
    int *memory, bad;
    MPI_Win win;
    if (allocate_window(comm, size, &memory, &win)) return 1;
    bad = is_failure(MPI_Win_fence(0, win));
    for (int i = 0; i < 30 && !bad; i++) {
        int value = 1000 * i + rank;
        for (int to = 0; to < size && !bad; to++) bad |= is_failure(MPI_Put(&value, 1, MPI_INT, to, rank, 1, MPI_INT, win));
        step();
        bad = bad || is_failure(MPI_Win_fence(0, win));
        for (int from = 0; from < size && !bad; from++) CHECK(memory[from] == 1000 * i + from);
        bad = bad || is_failure(MPI_Win_fence(0, win));
    }
    return end_window(&win, bad);
}

static int counters(MPI_Comm comm, int rank, int size, int shared)
{
    int *memory, bad = 0;
    MPI_Win win;
    if (allocate_window(comm, 2, &memory, &win)) return 1;
    for (int i = 0; i < 60 && !bad; i++) {
        int to = (rank + i) % size, value = 0, one = 1;
        step();
        if (shared && i % 3) {
            bad = is_failure(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
            if (bad) break;
            step();
            bad |= is_failure(MPI_Accumulate(&one, 1, MPI_INT, to, 1, 1, MPI_INT, MPI_SUM, win));
            bad |= is_failure(MPI_Win_flush(to, win));
        } else {
            bad = is_failure(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
            if (bad) break;
            bad |= is_failure(MPI_Get(&value, 1, MPI_INT, to, 0, 1, MPI_INT, win));
            bad |= is_failure(MPI_Win_flush(to, win));
            step();
            value++;
            bad |= is_failure(MPI_Put(&value, 1, MPI_INT, to, 0, 1, MPI_INT, win));
        }
        step();
        bad |= is_failure(MPI_Win_unlock(to, win));
    }
    return end_window(&win, bad);
}

static int tickets(MPI_Comm comm, int rank, int size)
{
    int *memory, bad;
    MPI_Win win;
    if (allocate_window(comm, 1, &memory, &win)) return 1;
    step();
    memory[0] = 0;
    bad = is_failure(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    bad = bad || is_failure(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 60 && !bad; i++) {
        int one = 1, before = -1, to = (rank + i) % size;
        step();
        bad |= is_failure(MPI_Fetch_and_op(&one, &before, MPI_INT, to, 0, MPI_SUM, win));
        bad |= is_failure(i % 8 ? MPI_Win_flush(to, win) : MPI_Win_flush_all(win));
        CHECK(bad || before >= 0);
    }
    step();
    if (!bad) bad = is_failure(MPI_Win_unlock_all(win));
    return end_window(&win, bad);
}

static int neighbours(MPI_Comm comm, int rank, int size)
{
    int *memory, bad = 0, left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Win win;
    MPI_Group all, from, to;
    if (allocate_window(comm, 1, &memory, &win)) return 1;
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, 1, &left, &from);
    MPI_Group_incl(all, 1, &right, &to);
    for (int i = 0; i < 40 && !bad; i++) {
        int value = 1000 * i + rank, over = 0;
        step();
        bad |= is_failure(MPI_Win_post(from, 0, win));
        if (bad) break;
        step();
        bad |= is_failure(MPI_Win_start(to, 0, win));
        if (bad) break;
        bad |= is_failure(MPI_Put(&value, 1, MPI_INT, right, 0, 1, MPI_INT, win));
        step();
        bad |= is_failure(MPI_Win_complete(win));
        step();
        if (i % 4) bad |= is_failure(MPI_Win_wait(win));
        else while (!bad && !over) bad |= is_failure(MPI_Win_test(win, &over));
        CHECK(bad || memory[0] == 1000 * i + left);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&from);
    MPI_Group_free(&to);
    return end_window(&win, bad);
}

/* Memory of the program, so that long data go by messages or through the kernel. */
static int requests(MPI_Comm comm, int rank, int size)
{
    int bad, *memory = malloc(CELLS * sizeof *memory), *data = malloc(CELLS * sizeof *data);
    MPI_Win win;
    step();
    bad = is_failure(MPI_Win_create(memory, CELLS * sizeof *memory, sizeof *memory, MPI_INFO_NULL, comm, &win));
    if (!bad) {
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        bad = is_failure(MPI_Win_lock_all(0, win));
        for (int i = 0; i < 12 && !bad; i++) {
            int to = (rank + 1 + i) % size, count = i % 3 ? CELLS : 3;
            MPI_Request request = MPI_REQUEST_NULL;
            for (int at = 0; at < count; at++) data[at] = rank;
            step();
            if (i % 4 == 1) bad |= is_failure(MPI_Rput(data, count, MPI_INT, to, 0, count, MPI_INT, win, &request));
            else if (i % 4 == 2) bad |= is_failure(MPI_Raccumulate(data, count, MPI_INT, to, 0, count, MPI_INT, MPI_MAX, win, &request));
            else bad |= is_failure(MPI_Rget(data, count, MPI_INT, to, 0, count, MPI_INT, win, &request));
            step();
            bad |= is_failure(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (i % 2) bad |= is_failure(MPI_Win_flush(to, win));
        }
        step();
        if (!bad) bad = is_failure(MPI_Win_unlock_all(win));
        bad = end_window(&win, bad);
    }
    free(memory);
    free(data);
    return bad;
}

static int shared_memory(MPI_Comm comm, int rank, int size)
{
    int *memory, bad;
    MPI_Win win;
    (void)size;
    step();
    int class, code = MPI_Win_allocate_shared(sizeof *memory, sizeof *memory, MPI_INFO_NULL, comm, &memory, &win);
    MPI_Error_class(code, &class);
    if (class == MPI_ERR_RMA_SHARED) return 0;
    if (is_failure(code)) return 1;
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    step();
    memory[0] = rank;
    bad = is_failure(MPI_Win_fence(0, win));
    step();
    return end_window(&win, bad);
}

static int end_file(MPI_File *file, int bad)
{
    if (bad) CHECK(MPIX_File_revoke(*file) == MPI_SUCCESS);
    step();
    bad |= is_failure(MPI_File_close(file));
    CHECK(*file == MPI_FILE_NULL);
    return bad;
}

static int blocks(MPI_Comm comm, int rank, int size, int way)
{
    char name[64];
    MPI_File file;
    int bad, *data = malloc(CELLS * sizeof *data);
    snprintf(name, sizeof name, "ulfm-objects-%d", round);
    step();
    bad = is_failure(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    if (bad) goto end;
    MPI_Datatype lattice = MPI_DATATYPE_NULL;
    MPI_Type_vector(CELLS / 100, 100, 100 * size, MPI_INT, &lattice);
    MPI_Type_commit(&lattice);
    MPI_Offset here = way == 1 ? 100 * rank : 0;
    bad |= is_failure(MPI_File_set_view(file, here * (MPI_Offset)sizeof *data, MPI_INT, way == 1 ? lattice : MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < 4 && !bad; i++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int count = i % 2 ? CELLS : 17;
        MPI_Offset at = way == 1 ? 0 : (MPI_Offset)rank * CELLS;
        for (int c = 0; c < CELLS; c++) data[c] = 100 * i + rank;
        step();
        switch (way) {
        case 0:
        case 1: bad |= is_failure(MPI_File_write_at_all(file, at, data, count, MPI_INT, MPI_STATUS_IGNORE)); break;
        case 2:
            bad |= is_failure(MPI_File_iwrite_at_all(file, at, data, count, MPI_INT, &request));
            step();
            bad |= is_failure(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        case 3:
            for (int c = 0; c < 20 && !bad; c++) {
                step();
                bad |= is_failure(MPI_File_write_shared(file, data, 7, MPI_INT, MPI_STATUS_IGNORE));
            }
            bad |= is_failure(MPI_File_write_ordered(file, data, count, MPI_INT, MPI_STATUS_IGNORE));
            break;
        default:
            bad |= is_failure(MPI_File_write_at_all_begin(file, at, data, count, MPI_INT));
            step();
            if (!bad) bad |= is_failure(MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE));
        }
        step();
        if (way != 3 && !bad) {
            bad |= is_failure(MPI_File_read_at_all(file, at, data, count, MPI_INT, MPI_STATUS_IGNORE));
            for (int c = 0; c < count && !bad; c++) CHECK(data[c] == 100 * i + rank);
        }
        if (!bad) bad |= is_failure(MPI_File_sync(file));
    }
    MPI_Type_free(&lattice);
    bad = end_file(&file, bad);
end:
    free(data);
    return bad;
}

static int work_with_objects(MPI_Comm comm, uint64_t dice)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    switch (dice % OBJECT_KINDS) {
    case 0: return fences(comm, rank, size);
    case 1: return counters(comm, rank, size, 0);
    case 2: return counters(comm, rank, size, 1);
    case 3: return tickets(comm, rank, size);
    case 4: return neighbours(comm, rank, size);
    case 5: return requests(comm, rank, size);
    case 6: return blocks(comm, rank, size, (int)(dice >> 20) % 2);
    case 7: return blocks(comm, rank, size, 2);
    case 8: return blocks(comm, rank, size, 3);
    case 9: return blocks(comm, rank, size, 4);
    default: return shared_memory(comm, rank, size);
    }
}

#endif
