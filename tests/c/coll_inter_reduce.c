// ranks: 2 3 4 7
// transports: all
// every day: nodes lamd ofi
/* Reductions of intercommunicators: each group gets the contributions of the other one, combined
 * in rank order. */
#include "inter.h"

/* Affine maps modulo 2^32: the composition does not commute. */
struct affine {
    unsigned a, b;
};

static void compose(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void) type;
    struct affine *first = in, *then = inout;
    for (int i = 0; i < *n; i++) {
        then[i].b = then[i].a * first[i].b + then[i].b;
        then[i].a *= first[i].a;
    }
}

static struct affine map_of(int r, int i)
{
    struct affine map = {2u * (unsigned) (r + i) + 3, (unsigned) (r * 7 + i)};
    return map;
}

static struct affine made_by(int in_lower, int i)
{
    int members = in_lower ? cut : size - cut, one = 1;
    struct affine all = map_of(world_rank(in_lower, 0), i);
    for (int r = 1; r < members; r++) {
        struct affine next = map_of(world_rank(in_lower, r), i);
        compose(&all, &next, &one, NULL);
        all = next;
    }
    return all;
}

static long sum_of(int in_lower, int i)
{
    long sum = 0;
    for (int r = 0; r < (in_lower ? cut : size - cut); r++) sum += world_rank(in_lower, r) * 1000 + i;
    return sum;
}

static MPI_Datatype pair;
static MPI_Op op;

static void finish(MPI_Request *request) { CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE)); }

static void check_maps(const struct affine *got, int first, int count)
{
    for (int i = 0; i < count; i++) {
        struct affine want = made_by(!lower, first + i);
        if (!CHECK_EQ(got[i].a, want.a) || !CHECK_EQ(got[i].b, want.b)) return;
    }
}

static void reduce(int in_lower, int root, int n, int later)
{
    check_where("reduce, cut %d, root %d of %d, %d, later %d", cut, root, in_lower, n, later);
    int argument = root_argument(in_lower, root), is_root = argument == MPI_ROOT, idle = argument == MPI_PROC_NULL;
    struct affine *given = allocate((size_t) n * sizeof *given), *got = allocate((size_t) n * sizeof *got);
    for (int i = 0; i < n; i++) given[i] = map_of(rank, i);
    MPI_Request request = MPI_REQUEST_NULL;
    void *send = is_root || idle ? (void *) 8 : (void *) given, *receive = is_root ? (void *) got : (void *) 16;
    if (later) CHECK_OK(MPI_Ireduce(send, receive, n, pair, op, argument, inter, &request));
    else CHECK_OK(MPI_Reduce(send, receive, n, pair, op, argument, inter));
    finish(&request);
    if (is_root) check_maps(got, 0, n);
    free(given);
    free(got);
}

static void to_all(int n, int later)
{
    struct affine *given = allocate((size_t) n * sizeof *given), *got = allocate((size_t) n * sizeof *got);
    long *numbers = allocate((size_t) n * sizeof(long)), *sums = allocate((size_t) n * sizeof(long));
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < n; i++) {
        given[i] = map_of(rank, i);
        numbers[i] = rank * 1000 + i;
    }
    check_where("allreduce, cut %d, %d, later %d", cut, n, later);
    if (later) CHECK_OK(MPI_Iallreduce(given, got, n, pair, op, inter, &request));
    else CHECK_OK(MPI_Allreduce(given, got, n, pair, op, inter));
    finish(&request);
    check_maps(got, 0, n);
    if (later) CHECK_OK(MPI_Iallreduce(numbers, sums, n, MPI_LONG, MPI_SUM, inter, &request));
    else CHECK_OK(MPI_Allreduce(numbers, sums, n, MPI_LONG, MPI_SUM, inter));
    finish(&request);
    for (int i = 0; i < n; i++)
        if (!CHECK_EQ(sums[i], sum_of(!lower, i))) break;
    free(given);
    free(got);
    free(numbers);
    free(sums);
}

static void scatter_block(int times, int later)
{
    check_where("reduce_scatter_block, cut %d, times %d, later %d", cut, times, later);
    int n = times * ours * theirs, block = times * theirs;
    struct affine *given = allocate((size_t) n * sizeof *given), *got = allocate((size_t) block * sizeof *got);
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < n; i++) given[i] = map_of(rank, i);
    if (later) CHECK_OK(MPI_Ireduce_scatter_block(given, got, block, pair, op, inter, &request));
    else CHECK_OK(MPI_Reduce_scatter_block(given, got, block, pair, op, inter));
    finish(&request);
    check_maps(got, mine * block, block);
    free(given);
    free(got);
}

/* The blocks of the ranks have different lengths, and the two groups have independent ones. */
static void scatter(int n, int later)
{
    check_where("reduce_scatter, cut %d, %d, later %d", cut, n, later);
    int counts[64], left = n, first = 0;
    for (int r = 0; r < ours; r++) {
        counts[r] = r + 1 < ours ? left / (2 + (lower ? 1 : 0)) : left;
        if (r < mine) first += counts[r];
        left -= counts[r];
    }
    struct affine *given = allocate((size_t) n * sizeof *given), *got = allocate((size_t) n * sizeof *got);
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < n; i++) given[i] = map_of(rank, i);
    if (later) CHECK_OK(MPI_Ireduce_scatter(given, got, counts, pair, op, inter, &request));
    else CHECK_OK(MPI_Reduce_scatter(given, got, counts, pair, op, inter));
    finish(&request);
    check_maps(got, first, counts[mine]);
    free(given);
    free(got);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    for (int at = 1; at < size; at++) {
        make_groups(at);
        for (int later = 0; later < 2; later++) {
            for (int in_lower = 0; in_lower < 2; in_lower++)
                for (int root = 0; root < (in_lower ? cut : size - cut); root++) {
                    reduce(in_lower, root, 0, later);
                    reduce(in_lower, root, 1, later);
                    reduce(in_lower, root, 5000, later);
                }
            to_all(1, later);
            to_all(3000, later);
            scatter_block(1, later);
            scatter_block(100, later);
            scatter(0, later);
            scatter(7, later);
            scatter(2000, later);
        }
        free_groups();
    }
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&pair));
    return check_end();
}
