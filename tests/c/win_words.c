// ranks: 1 2 4
// transports: all
/* Accumulates to words of eight bytes, which an adapter may carry out, in windows with the hint
 * that accumulates are short: counters of all ranks at all ranks, also at themselves, all
 * operations and types of that length, elements at odd places next to words, and requests. With
 * CHECK_ATOMICS set the adapter must have changed words (--mca rpi ib); with CHECK_ATOMICS=0 it
 * must not have. */
#include "mpit.h"
#include "win.h"

#include <sched.h>

static void counters(struct window *w)
{
    enum { DRAWN = 12 };
    int64_t one = 1, mine[DRAWN], *all = calloc((size_t) (DRAWN * size), sizeof *all);
    CHECK_OK(MPI_Win_lock_all(0, w->win));
    for (int to = 0; to < size; to++) {
        for (int i = 0; i < DRAWN; i++) {
            CHECK_OK(MPI_Fetch_and_op(&one, &mine[i], MPI_INT64_T, to, 0, MPI_SUM, w->win));
            if (i % 3 == 0) CHECK_OK(MPI_Win_flush(to, w->win));
        }
        CHECK_OK(MPI_Win_flush(to, w->win));
        for (int i = 1; i < DRAWN; i++) CHECK(mine[i] > mine[i - 1]);
        MPI_Allgather(mine, DRAWN, MPI_INT64_T, all, DRAWN, MPI_INT64_T, MPI_COMM_WORLD);
        char *drawn = calloc((size_t) (DRAWN * size), 1);
        for (int i = 0; i < DRAWN * size; i++)
            if (CHECK(all[i] >= 0 && all[i] < DRAWN * size)) drawn[all[i]]++;
        for (int i = 0; i < DRAWN * size; i++) CHECK_EQ(drawn[i], 1);
        free(drawn);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK_OK(MPI_Win_unlock_all(w->win));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(*(int64_t *) w->base, DRAWN * size);
    free(all);
}

static void operations(struct window *w)
{
    enum { WORDS = 20 };
    int64_t *own = w->base, values[WORDS];
    double halves[WORDS], *points = (double *) (own + 2 * WORDS);
    uint64_t bits[WORDS];
    memset(own, 0, 64 * sizeof *own);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < WORDS; i++) values[i] = i * 100 + rank, halves[i] = 0.5, bits[i] = 1ull << (rank + i);
    CHECK_OK(MPI_Win_fence(0, w->win));
    CHECK_OK(MPI_Accumulate(values, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, MPI_MAX, w->win));
    CHECK_OK(MPI_Accumulate(bits, WORDS, MPI_UINT64_T, 0, WORDS, WORDS, MPI_UINT64_T, MPI_BXOR, w->win));
    CHECK_OK(MPI_Accumulate(halves, WORDS, MPI_DOUBLE, 0, 2 * WORDS, WORDS, MPI_DOUBLE, MPI_SUM, w->win));
    int64_t first = -1, second = 1000 + rank;
    CHECK_OK(MPI_Accumulate(&first, 1, MPI_INT64_T, 0, 3 * WORDS, 1, MPI_INT64_T, MPI_REPLACE, w->win));
    CHECK_OK(MPI_Accumulate(&second, 1, MPI_INT64_T, 0, 3 * WORDS, 1, MPI_INT64_T, MPI_REPLACE, w->win));
    int one = 1;
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 3 * WORDS + 1, 1, MPI_INT, MPI_SUM, w->win));
    CHECK_OK(MPI_Win_fence(0, w->win));
    if (rank == 0) {
        for (int i = 0; i < WORDS; i++) {
            uint64_t mixed = 0;
            for (int from = 0; from < size; from++) mixed ^= 1ull << (from + i);
            CHECK_EQ(own[i], i * 100 + size - 1);
            CHECK_EQ(own[WORDS + i], mixed);
            CHECK(points[i] == 0.5 * size);
        }
        CHECK(own[3 * WORDS] >= 1000 && own[3 * WORDS] < 1000 + size);
        CHECK_EQ(*(int *) (own + 3 * WORDS + 1), size);
    }
    MPI_Datatype spread;
    MPI_Type_vector(WORDS / 2, 1, 2, MPI_INT64_T, &spread);
    MPI_Type_commit(&spread);
    int64_t before[WORDS];
    for (int i = 0; i < WORDS; i++) before[i] = -5;
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, before, 1, spread, 0, 0, 1, spread, MPI_NO_OP, w->win));
    CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    for (int i = 0; i < WORDS; i++) CHECK_EQ(before[i], i % 2 ? -5 : i * 100 + size - 1);
    MPI_Type_free(&spread);
    MPI_Barrier(MPI_COMM_WORLD);
}


static void odd_places(struct window *w)
{
    enum { COUNT = 3 };
    memset(w->base, 0, 64 * 8);
    MPI_Barrier(MPI_COMM_WORLD);
    int lengths[2] = {1, 1};
    /* The first is at 1, 25, 49, the second at 16, 40, 64. */
    MPI_Aint places[2] = {1, 16};
    MPI_Datatype types[2] = {MPI_INT64_T, MPI_INT64_T}, both, element;
    MPI_Type_create_struct(2, lengths, places, types, &both);
    MPI_Type_create_resized(both, 0, 24, &element);
    MPI_Type_commit(&element);
    int64_t values[2 * COUNT], before[2 * COUNT];
    for (int i = 0; i < 2 * COUNT; i++) values[i] = i + 1, before[i] = -1;
    CHECK_OK(MPI_Win_lock_all(0, w->win));
    CHECK_OK(MPI_Accumulate(values, 2 * COUNT, MPI_INT64_T, 0, 0, COUNT, element, MPI_SUM, w->win));
    MPI_Request request;
    CHECK_OK(MPI_Raccumulate(values, 2 * COUNT, MPI_INT64_T, 0, 0, COUNT, element, MPI_SUM, w->win, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Win_flush_all(w->win));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Rget_accumulate(NULL, 0, MPI_INT64_T, before, 2 * COUNT, MPI_INT64_T, 0, 0, COUNT, element, MPI_NO_OP, w->win, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2 * COUNT; i++) CHECK_EQ(before[i], 2 * size * (i + 1));
    CHECK_OK(MPI_Accumulate(values, 2, MPI_INT64_T, rank, 201, 2, MPI_INT64_T, MPI_SUM, w->win));
    int64_t none = 0, swapped = 7, seen = -1;
    CHECK_OK(MPI_Compare_and_swap(&swapped, &none, &seen, MPI_INT64_T, rank, 221, w->win));
    CHECK_OK(MPI_Win_unlock_all(w->win));
    CHECK_EQ(seen, 0);
    MPI_Type_free(&element);
    MPI_Type_free(&both);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A lock of compare-and-swaps protects a sum; sums between neighbours in epochs of post and
 * start. */
static void swaps(struct window *w)
{
    int64_t *own = w->base, none = 0, mine = rank + 1, seen, sum = 0;
    memset(own, 0, 64 * 8);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_Win_lock_all(0, w->win));
    for (int turn = 0; turn < scaled(10); turn++) {
        do {
            CHECK_OK(MPI_Compare_and_swap(&mine, &none, &seen, MPI_INT64_T, 0, 0, w->win));
            CHECK_OK(MPI_Win_flush(0, w->win));
            if (seen != 0) sched_yield();
        } while (seen != 0);
        CHECK_OK(MPI_Get(&sum, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, w->win));
        CHECK_OK(MPI_Win_flush(0, w->win));
        sum += rank + 1;
        CHECK_OK(MPI_Put(&sum, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, w->win));
        CHECK_OK(MPI_Win_flush(0, w->win));
        CHECK_OK(MPI_Compare_and_swap(&none, &mine, &seen, MPI_INT64_T, 0, 0, w->win));
        CHECK_OK(MPI_Win_flush(0, w->win));
        CHECK_EQ(seen, mine);
    }
    CHECK_OK(MPI_Win_unlock_all(w->win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) CHECK_EQ(own[1], scaled(10) * size * (size + 1) / 2);
    MPI_Group world, before, after;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &from, &before);
    MPI_Group_incl(world, 1, &to, &after);
    MPI_Barrier(MPI_COMM_WORLD);
    own[2] = 0;
    CHECK_OK(MPI_Win_post(before, 0, w->win));
    CHECK_OK(MPI_Win_start(after, 0, w->win));
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Accumulate(&mine, 1, MPI_INT64_T, to, 2, 1, MPI_INT64_T, MPI_SUM, w->win));
    CHECK_OK(MPI_Win_complete(w->win));
    CHECK_OK(MPI_Win_wait(w->win));
    CHECK_EQ(own[2], 5 * (from + 1));
    MPI_Group_free(&world);
    MPI_Group_free(&before);
    MPI_Group_free(&after);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The adapter's accesses need no call of the target, which waits here until all are flushed. */
static void unattended(struct window *w)
{
    int64_t one = 1, before = -1;
    *(int64_t *) w->base = 0;
    CHECK_OK(MPI_Win_lock_all(0, w->win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) {
        for (int i = 0; i < 5; i++) {
            CHECK_OK(MPI_Fetch_and_op(&one, &before, MPI_INT64_T, 0, 0, MPI_SUM, w->win));
            CHECK_OK(MPI_Win_flush(0, w->win));
            CHECK(before >= i && before < 5 * (size - 1));
        }
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_MAX, w->win));
        CHECK_OK(MPI_Win_flush_all(w->win));
    }
    meet();
    CHECK_OK(MPI_Win_unlock_all(w->win));
    if (rank == 0) CHECK_EQ(*(int64_t *) w->base, 5 * (size - 1));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided;
    check_begin(&argc, &argv);
    setenv("CHECK_SHORT_ACCUMULATES", "1", 1);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session session;
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle handle = started(session, "rdma_atomics", NULL);
    const char *atomics = getenv("CHECK_ATOMICS");
    meeting_open();
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = make_window(kind, 64 * 8, 8, MPI_COMM_WORLD), bytes;
        check_where("%s, counters", memory_names[kind]);
        counters(&w);
        check_where("%s, operations", memory_names[kind]);
        operations(&w);
        check_where("%s, swaps", memory_names[kind]);
        swaps(&w);
        check_where("%s, unattended", memory_names[kind]);
        if (atomics && *atomics == '1') unattended(&w);
        free_window(&w);
        bytes = make_window(kind, 64 * 8, 1, MPI_COMM_WORLD);
        check_where("%s, odd places", memory_names[kind]);
        odd_places(&bytes);
        free_window(&bytes);
    }
    check_where("counted operations");
    number counted = value(session, handle);
    if (atomics) CHECK(*atomics == '0' ? counted == 0 : counted > 100);
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return check_end();
}
