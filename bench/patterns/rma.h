/* One-sided accesses, for patterns.c, to the program's memory: `in` of the partner, by
 * MPI_Win_create. The first rank of each pair accesses it in one epoch of MPI_Win_lock_all, with
 * MPI_Win_flush after each access; the other one waits in a barrier. With fences both are in the
 * library. */
#ifndef PATTERNS_RMA_H
#define PATTERNS_RMA_H

static char *fetched;

static void begin_window(size_t bytes)
{
    set_length(bytes);
    fetched = malloc(bytes);
    if (!fetched)
        MPI_Abort(WORLD, 1);
    memset(fetched, 0x55, bytes);
    MPI_Win_create(in, (MPI_Aint)room, 1, MPI_INFO_NULL, WORLD, &window);
    MPI_Win_lock_all(0, window);
}

static void end_window(void)
{
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(fetched);
}

#define ACCESS(name, call)                                \
    static void name(long repeats)                        \
    {                                                     \
        int words = (int)(length / 8);                    \
        (void)words;                                      \
        for (long i = 0; is_first && i < repeats; i++) {  \
            call;                                         \
            MPI_Win_flush(partner, window);               \
        }                                                 \
    }

ACCESS(put, MPI_Put(out, (int)length, MPI_BYTE, partner, 0, (int)length, MPI_BYTE, window))
ACCESS(accumulate, MPI_Accumulate(out, words, MPI_UINT64_T, partner, 0, words, MPI_UINT64_T, MPI_SUM, window))
ACCESS(get_accumulate, MPI_Get_accumulate(out, words, MPI_UINT64_T, fetched, words, MPI_UINT64_T, partner, 0, words,
                                          MPI_UINT64_T, MPI_SUM, window))
ACCESS(fetch_and_op, MPI_Fetch_and_op(out, fetched, MPI_UINT64_T, partner, 0, MPI_SUM, window))

/* A window of its own: MPI_Win_sync on `window` is for passive targets. */
static MPI_Win fenced = MPI_WIN_NULL;

static void begin_fences(size_t bytes)
{
    set_length(bytes);
    MPI_Win_create(in, (MPI_Aint)room, 1, MPI_INFO_NULL, WORLD, &fenced);
    MPI_Win_fence(0, fenced);
}

static void end_fences(void)
{
    MPI_Win_free(&fenced);
}

static void fence_put(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        if (is_first)
            MPI_Put(out, (int)length, MPI_BYTE, partner, 0, (int)length, MPI_BYTE, fenced);
        MPI_Win_fence(0, fenced);
    }
}

static MPI_Aint size_of_window;

static void create_free(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Win made;
        MPI_Aint *size;
        int has_size;
        MPI_Win_create(in, (MPI_Aint)room, 1, MPI_INFO_NULL, WORLD, &made);
        MPI_Win_get_attr(made, MPI_WIN_SIZE, &size, &has_size);
        size_of_window = has_size ? *size : 0;
        MPI_Win_free(&made);
    }
}

static int is_size_of_room(void)
{
    return size_of_window == (MPI_Aint)room;
}

/* Data that were put, or added to zeros, are there. */
static int is_put(void)
{
    return is_first || is_from_partner();
}

/* The same, and the previous data were fetched. */
static int is_fetched(void)
{
    for (size_t at = 0; is_first && at < length; at++)
        if (fetched[at] != 0)
            return 0;
    return is_put();
}

static const struct pattern rma_patterns[] = {
    {"rma/put", {8, KIB, 64 * KIB, 1024 * KIB}, 1, begin_window, put, is_put, end_window},
    {"rma/fence-put", {8, KIB, 64 * KIB}, 1, begin_fences, fence_put, is_put, end_fences},
    {"rma/create-free", {0}, 1, set_length, create_free, is_size_of_room, NULL},
    {"rma/accumulate", {8, KIB, 64 * KIB}, 1, begin_window, accumulate, is_put, end_window},
    {"rma/get_accumulate", {8, KIB, 64 * KIB}, 1, begin_window, get_accumulate, is_fetched, end_window},
    {"rma/fetch_and_op", {8}, 1, begin_window, fetch_and_op, is_fetched, end_window},
};

#endif
