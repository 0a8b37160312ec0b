// ranks: 2 3 4
// transports: near
// every day: shm-denied
/* Accumulates to memory of the program, of all lengths and without a flush between them, keep
 * their order and are atomic; and puts and gets end while the target computes, or is in another
 * call. */
#include "win.h"

enum { WORDS = 40000, ROUNDS = 30 };

static long long *memory, *values, *old;
static MPI_Win window;

static const int lengths[] = {1, 4, 5, 100, 1, 8192, 8193, 2, WORDS};

/* All replace the same words by whole vectors of one number: the last one wins, and each fetches
 * the previous one. */
static void order(int round)
{
    int target = (rank + 1 + round) % size, last = 0;
    check_where("order, round %d", round);
    memset(memory, 0, WORDS * sizeof *memory);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, window));
    for (int k = 0; k < 9; k++) {
        int n = lengths[(k + round) % 9];
        for (int i = 0; i < n; i++) values[k * WORDS + i] = 10 * round + k + 1;
        if (k % 2) {
            CHECK_OK(MPI_Accumulate(values + k * WORDS, n, MPI_LONG_LONG, target, 0, n, MPI_LONG_LONG, MPI_REPLACE, window));
        } else {
            CHECK_OK(MPI_Get_accumulate(values + k * WORDS, n, MPI_LONG_LONG, old + k * WORDS, n, MPI_LONG_LONG, target, 0, n,
                                        MPI_LONG_LONG, MPI_REPLACE, window));
        }
        if (k == round % 9) CHECK_OK(MPI_Win_flush(target, window));
    }
    CHECK_OK(MPI_Win_unlock_all(window));
    for (int k = 0; k < 9; k += 2) {
        CHECK_EQ(old[k * WORDS], last);
        last = 10 * round + k + 1;
        if (k + 1 < 9) last++;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(memory[0], 10 * round + 9);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void counting(void)
{
    long long one = 1, before, all = 0;
    check_where("counting");
    memset(memory, 0, WORDS * sizeof *memory);
    for (int i = 0; i < 1000; i++) values[i] = 1;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, window));
    for (int i = 0; i < 200; i++)
        for (int r = 0; r < size; r++) {
            CHECK_OK(MPI_Fetch_and_op(&one, &before, MPI_LONG_LONG, r, 0, MPI_SUM, window));
            CHECK_OK(MPI_Accumulate(values, 1000, MPI_LONG_LONG, r, 0, 1000, MPI_LONG_LONG, MPI_SUM, window));
            if (i % 7 == 0) CHECK_OK(MPI_Win_flush(r, window));
        }
    CHECK_OK(MPI_Win_unlock_all(window));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(memory[0], 400 * size);
    for (int i = 1; i < 1000; i++) all += memory[i] == 200 * size;
    CHECK_EQ(all, 999);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void swapping(void)
{
    check_where("swapping");
    memory[3] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, window));
    for (int i = 0; i < 100;) {
        long long was = 0, next, found;
        CHECK_OK(MPI_Fetch_and_op(NULL, &was, MPI_LONG_LONG, 0, 3, MPI_NO_OP, window));
        CHECK_OK(MPI_Win_flush(0, window));
        next = was + 1;
        CHECK_OK(MPI_Compare_and_swap(&next, &was, &found, MPI_LONG_LONG, 0, 3, window));
        CHECK_OK(MPI_Win_flush(0, window));
        i += found == was;
    }
    CHECK_OK(MPI_Win_unlock_all(window));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) CHECK_EQ(memory[3], 100 * size);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void put_and_get(void)
{
    int target = size - 1;
    check_where("put and get");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == target) {
        for (double end = MPI_Wtime() + 0.05; MPI_Wtime() < end;) ;
    } else {
        int place = rank * 10000;
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window));
        for (int n = 1; n < 6000; n = n * 3 + 1) {
            for (int i = 0; i < n; i++) values[i] = n + i;
            CHECK_OK(MPI_Put(values, n, MPI_LONG_LONG, target, place, n, MPI_LONG_LONG, window));
            CHECK_OK(MPI_Win_flush(target, window));
            CHECK_OK(MPI_Get(old, n, MPI_LONG_LONG, target, place, n, MPI_LONG_LONG, window));
            CHECK_OK(MPI_Win_flush(target, window));
            CHECK(memcmp(values, old, n * sizeof *values) == 0);
        }
        CHECK_OK(MPI_Win_unlock(target, window));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void outside(void)
{
    long long one = 1;
    check_where("outside");
    return_errors();
    CHECK_OK(MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_lock_all(0, window));
    CHECK_CLASS(MPI_Accumulate(&one, 1, MPI_LONG_LONG, (rank + 1) % size, WORDS, 1, MPI_LONG_LONG, MPI_SUM, window), MPI_ERR_RMA_RANGE);
    CHECK_OK(MPI_Win_unlock_all(window));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    memory = calloc(WORDS, sizeof *memory);
    values = calloc(9 * WORDS, sizeof *values);
    old = calloc(9 * WORDS, sizeof *old);
    CHECK_OK(MPI_Win_create(memory, WORDS * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    for (int round = 0; round < ROUNDS; round++) order(round);
    counting();
    swapping();
    put_and_get();
    outside();
    CHECK_OK(MPI_Win_free(&window));
    free(memory);
    free(values);
    free(old);
    return check_end();
}
