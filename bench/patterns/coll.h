/* Collectives beyond those of p2p.c, for patterns.c: the time of one call, back to back with the
 * next. The root changes with each call, and prefix reductions alternate between two
 * communicators, one with the ranks in reverse order, so that no rank is always the one that
 * does not wait. `bytes` is the length of one rank's block, or of the vector of a reduction. */
#ifndef PATTERNS_COLL_H
#define PATTERNS_COLL_H

/* ---- blocks ---- */

static MPI_Comm field = MPI_COMM_NULL; /* ranks on a periodic grid of two dimensions */

static void begin_field(size_t bytes)
{
    int sides[2] = {0, 0}, periodic[2] = {1, 1};
    set_length(bytes);
    MPI_Dims_create(ranks, 2, sides);
    MPI_Cart_create(WORLD, 2, sides, periodic, 0, &field);
}

static void end_field(void)
{
    MPI_Comm_free(&field);
}

static void neighbor_alltoall(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Neighbor_alltoall(out, (int)length, MPI_BYTE, in, (int)length, MPI_BYTE, field);
}

/* Whether block k is the one that neighbour k sent in the opposite direction, its block k ^ 1.
 * If both neighbours of a dimension are the same rank, this rule is new in MPI 4.0, and a
 * library may still give block k. */
static int are_blocks_of_neighbours(void)
{
    for (size_t k = 0; k < 4; k++) {
        int neighbour[2];
        MPI_Cart_shift(field, (int)k / 2, 1, &neighbour[0], &neighbour[1]);
        const char *block = in + k * length;
        int from = neighbour[k % 2], is_same = neighbour[0] == neighbour[1];
        if (!are_from(block, from, (k ^ 1) * length, length) && !(is_same && are_from(block, from, k * length, length)))
            return 0;
    }
    return 1;
}

static int *counts, *places;

static void begin_counts(size_t bytes)
{
    set_length(bytes);
    counts = malloc((size_t)ranks * sizeof *counts);
    places = malloc((size_t)ranks * sizeof *places);
    if (!counts || !places)
        MPI_Abort(WORLD, 1);
    for (int i = 0; i < ranks; i++) {
        counts[i] = (int)bytes;
        places[i] = i * (int)bytes;
    }
}

static void end_counts(void)
{
    free(counts);
    free(places);
}

static void gatherv(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Gatherv(out, (int)length, MPI_BYTE, in, counts, places, MPI_BYTE, (int)(i % ranks), WORLD);
}

static void allgatherv(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Allgatherv(out, (int)length, MPI_BYTE, in, counts, places, MPI_BYTE, WORLD);
}

static void alltoallv(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Alltoallv(out, counts, places, MPI_BYTE, in, counts, places, MPI_BYTE, WORLD);
}

static void bcast_vector(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        int root = (int)(i % ranks);
        MPI_Bcast(rank == root ? out : in, 1, vector, root, WORLD);
    }
}

static int is_vector_of_0(void)
{
    return rank == 0 || is_vector_of(0);
}

/* Whether block r came from rank r, where it was `from` bytes into the data. */
static int are_blocks_from(size_t from)
{
    for (int sender = 0; sender < ranks; sender++)
        if (!are_from(in + (size_t)sender * length, sender, from, length))
            return 0;
    return 1;
}

static int are_gathered_at_0(void)
{
    return rank != 0 || are_blocks_from(0);
}

static int are_gathered(void)
{
    return are_blocks_from(0);
}

static int are_exchanged(void)
{
    return are_blocks_from((size_t)rank * length);
}

/* ---- reductions ---- */

static double *addends;
static int addend_count;
static MPI_Op sum_of_user = MPI_OP_NULL;
static MPI_Comm reversed = MPI_COMM_NULL;

static double addend(int i, int of)
{
    return i % 11 + of;
}

static void begin_addends(size_t bytes)
{
    set_length(bytes);
    addend_count = (int)(bytes / sizeof(double));
    addends = malloc(bytes);
    if (!addends)
        MPI_Abort(WORLD, 1);
    for (int i = 0; i < addend_count; i++)
        addends[i] = addend(i, rank);
}

static void end_addends(void)
{
    free(addends);
}

static void add(void *from, void *to, int *count, MPI_Datatype *type)
{
    const double *restrict more = from;
    double *restrict sum = to;
    (void)type;
    for (int i = 0; i < *count; i++)
        sum[i] += more[i];
}

static void begin_user_sum(size_t bytes)
{
    begin_addends(bytes);
    MPI_Op_create(add, 1, &sum_of_user);
}

static void end_user_sum(void)
{
    MPI_Op_free(&sum_of_user);
    end_addends();
}

static void allreduce_user(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Allreduce(addends, in, addend_count, MPI_DOUBLE, sum_of_user, WORLD);
}

/* Whether `in` has the sum over the ranks below `end`. */
static int are_sums_to(int end)
{
    const double *sums = (const double *)in;
    for (int i = 0; i < addend_count; i++) {
        double sum = 0;
        for (int of = 0; of < end; of++)
            sum += addend(i, of);
        if (sums[i] != sum)
            return 0;
    }
    return 1;
}

static int are_sums_of_all(void)
{
    return are_sums_to(ranks);
}

static void begin_prefix(size_t bytes)
{
    begin_addends(bytes);
    MPI_Comm_split(WORLD, 0, -rank, &reversed);
}

static void end_prefix(void)
{
    MPI_Comm_free(&reversed);
    end_addends();
}

static void scan(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Scan(addends, in, addend_count, MPI_DOUBLE, MPI_SUM, i & 1 ? reversed : WORLD);
}

static void exscan(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Exscan(addends, in, addend_count, MPI_DOUBLE, MPI_SUM, i & 1 ? reversed : WORLD);
}

static int are_sums_to_mine(void)
{
    return are_sums_to(rank + 1);
}

static int are_sums_before_mine(void)
{
    return rank == 0 || are_sums_to(rank);
}

struct place {
    double value;
    int at;
};

static struct place *candidates;

static int highest(int i)
{
    return i % ranks;
}

static void begin_candidates(size_t bytes)
{
    set_length(bytes);
    addend_count = (int)(bytes / sizeof(struct place));
    candidates = calloc((size_t)addend_count, sizeof *candidates);
    if (!candidates)
        MPI_Abort(WORLD, 1);
    for (int i = 0; i < addend_count; i++)
        candidates[i] = (struct place){rank == highest(i) ? 1e3 + i : rank, rank};
}

static void end_candidates(void)
{
    free(candidates);
}

static void allreduce_maxloc(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Allreduce(candidates, in, addend_count, MPI_DOUBLE_INT, MPI_MAXLOC, WORLD);
}

static int are_highest(void)
{
    const struct place *found = (const struct place *)in;
    for (int i = 0; i < addend_count; i++)
        if (found[i].value != 1e3 + i || found[i].at != highest(i))
            return 0;
    return 1;
}

#define BLOCK_SIZES {8, KIB, 64 * KIB}
#define VECTOR_SIZES {8, 512 * KIB}

static const struct pattern coll_patterns[] = {
    {"coll/neighbor_alltoall", BLOCK_SIZES, 1, begin_field, neighbor_alltoall, are_blocks_of_neighbours, end_field},
    {"coll/gatherv", BLOCK_SIZES, 1, begin_counts, gatherv, are_gathered_at_0, end_counts},
    {"coll/allgatherv", BLOCK_SIZES, 1, begin_counts, allgatherv, are_gathered, end_counts},
    {"coll/alltoallv", BLOCK_SIZES, 1, begin_counts, alltoallv, are_exchanged, end_counts},
    {"coll/bcast-vector", LONG_SIZES, 1, begin_vector, bcast_vector, is_vector_of_0, end_vector},
    {"coll/allreduce-user", VECTOR_SIZES, 1, begin_user_sum, allreduce_user, are_sums_of_all, end_user_sum},
    {"coll/allreduce-maxloc", {16, 16 * KIB}, 1, begin_candidates, allreduce_maxloc, are_highest, end_candidates},
    {"coll/exscan", VECTOR_SIZES, 1, begin_prefix, exscan, are_sums_before_mine, end_prefix},
    {"coll/scan", VECTOR_SIZES, 1, begin_prefix, scan, are_sums_to_mine, end_prefix},
};

#endif
