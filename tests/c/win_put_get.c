// ranks: 1 2 4 7
// transports: all
// every day: shm-denied usysv sysv
/* Puts and gets of all lengths, by fence, with derived datatypes on both sides, absolute
 * addresses, and no process. */
#include "win.h"

enum { ROOM = 1 << 20 };

static void lengths(enum memory kind)
{
    static const int all[] = {0, 1, 3, 8, 100, 4096, 16384, 16385, 70000, ROOM};
    struct window w = make_window(kind, ROOM, 1, MPI_COMM_WORLD);
    unsigned char *out = allocate(ROOM), *in = allocate(ROOM);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        check_where("%d bytes, %s", all[i], memory_names[kind]);
        pattern_fill(out, (size_t) all[i], (unsigned) (rank + 3 * (int) i));
        memset(in, 0, ROOM);
        CHECK_OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
        CHECK_OK(MPI_Put(out, all[i], MPI_BYTE, to, ROOM - all[i], all[i], MPI_BYTE, w.win));
        CHECK_OK(MPI_Win_fence(0, w.win));
        CHECK_EQ(pattern_differs((char *) w.base + ROOM - all[i], (size_t) all[i], (unsigned) (from + 3 * (int) i)), -1);
        CHECK_OK(MPI_Get(in, all[i], MPI_BYTE, to, ROOM - all[i], all[i], MPI_BYTE, w.win));
        CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED | MPI_MODE_NOPUT, w.win));
        CHECK_EQ(pattern_differs(in, (size_t) all[i], (unsigned) (rank + 3 * (int) i)), -1);
    }
    free(out);
    free(in);
    free_window(&w);
}

static void derived(enum memory kind)
{
    enum { N = 40 };
    check_where("derived, %s", memory_names[kind]);
    struct window w = make_window(kind, N * N * 4, 4, MPI_COMM_WORLD);
    int *matrix = w.base, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Datatype column, reversed;
    MPI_Type_vector(N, 1, N, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_create_hvector(N, 1, -4, MPI_INT, &reversed);
    MPI_Type_commit(&reversed);
    int row[N], back[N];
    for (int c = 0; c < N; c++) {
        CHECK_OK(MPI_Win_fence(0, w.win));
        for (int i = 0; i < N; i++) row[i] = rank * 10000 + c * 100 + i;
        CHECK_OK(MPI_Put(&row[N - 1], 1, reversed, to, c, 1, column, w.win));
        CHECK_OK(MPI_Win_fence(0, w.win));
        for (int i = 0; i < N; i++) CHECK_EQ(matrix[i * N + c], from * 10000 + c * 100 + N - 1 - i);
        memset(back, 0, sizeof back);
        CHECK_OK(MPI_Get(&back[N - 1], 1, reversed, to, c, 1, column, w.win));
        CHECK_OK(MPI_Win_fence(0, w.win));
        for (int i = 0; i < N; i++) CHECK_EQ(back[i], row[i]);
    }
    check_where("negative lower bound, %s", memory_names[kind]);
    CHECK_OK(MPI_Win_fence(0, w.win));
    MPI_Put(row, N, MPI_INT, to, N - 1, 1, reversed, w.win);
    CHECK_CLASS(MPI_Put(row, N, MPI_INT, to, N - 2, 1, reversed, w.win), MPI_ERR_RMA_RANGE);
    CHECK_OK(MPI_Win_fence(0, w.win));
    for (int i = 0; i < N; i++) CHECK_EQ(matrix[N - 1 - i], from * 10000 + (N - 1) * 100 + i);
    check_where("types freed early, %s", memory_names[kind]);
    memset(back, 0, sizeof back);
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK_OK(MPI_Get(back, N, MPI_INT, to, 0, 1, column, w.win));
    MPI_Type_free(&column);
    MPI_Type_free(&reversed);
    CHECK_OK(MPI_Win_fence(0, w.win));
    check_where("absolute addresses, %s", memory_names[kind]);
    MPI_Aint places[2];
    int lengths[2] = {1, 2}, values[8] = {0};
    MPI_Get_address(&values[5], &places[0]);
    MPI_Get_address(&values[1], &places[1]);
    MPI_Datatype absolute;
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    values[5] = 50 + rank;
    values[1] = 10 + rank;
    values[2] = 20 + rank;
    CHECK_OK(MPI_Put(MPI_BOTTOM, 1, absolute, to, 0, 3, MPI_INT, w.win));
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK(matrix[0] == 50 + from && matrix[1] == 10 + from && matrix[2] == 20 + from);
    memset(values, 0, sizeof values);
    CHECK_OK(MPI_Get(MPI_BOTTOM, 1, absolute, to, 0, 3, MPI_INT, w.win));
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK(values[5] == 50 + rank && values[1] == 10 + rank && values[2] == 20 + rank && values[0] == 0);
    MPI_Type_free(&absolute);
    check_where("no process, %s", memory_names[kind]);
    int kept = 77;
    CHECK_OK(MPI_Put(&kept, 1, MPI_INT, MPI_PROC_NULL, 1 << 30, 1, MPI_INT, w.win));
    CHECK_OK(MPI_Get(&kept, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, w.win));
    CHECK_OK(MPI_Accumulate(&kept, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, w.win));
    CHECK_OK(MPI_Fetch_and_op(&kept, &kept, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, w.win));
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK_EQ(kept, 77);
    check_where("less data than room, %s", memory_names[kind]);
    matrix[0] = matrix[1] = matrix[2] = -1;
    CHECK_OK(MPI_Win_fence(0, w.win));
    int two[2] = {1, 2};
    CHECK_OK(MPI_Put(two, 2, MPI_INT, to, 0, 3, MPI_INT, w.win));
    CHECK_CLASS(MPI_Put(two, 2, MPI_INT, to, 0, 1, MPI_INT, w.win), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Get(two, 2, MPI_INT, to, 0, 3, MPI_INT, w.win), MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Win_fence(0, w.win));
    CHECK(matrix[0] == 1 && matrix[1] == 2 && matrix[2] == -1);
    free_window(&w);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < KINDS; kind++) {
        lengths((enum memory) kind);
        derived((enum memory) kind);
    }
    return check_end();
}
