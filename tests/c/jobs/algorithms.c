/* Collectives by forced algorithms, each argument COLLECTIVE=ALGORITHM=SERVED: in all sizes, in
 * place and not, with the first and the last root, with a commutative operation and another one.
 * SERVED has two digits: whether calls with each operation are served, or refused. Performance
 * variables must show that only this algorithm has run. All collectives are forced, so the
 * program may call no others: each rank prints its own failures. */
#include "../mpit.h"

static const int counts[] = {0, 1, 7, 1000, 100000};
enum { SIZES = sizeof counts / sizeof counts[0], MOST = 100000, ALGORITHMS_MOST = 64 };

/* x -> a x + b over unsigned numbers: the composition is associative and not commutative. */
typedef struct {
    unsigned a, b;
} affine;

static affine *send, *receive;
static int *lengths, *starts;
static MPI_Datatype pair;
static MPI_Op ordered;

static int root, count, in_place, is_ordered, is_served, served_calls;

static void compose(void *left, void *right, int *length, MPI_Datatype *type)
{
    (void) type;
    affine *l = left, *r = right;
    for (int i = 0; i < *length; i++) r[i] = (affine){l[i].a * r[i].a, l[i].a * r[i].b + l[i].b};
}

static affine item(int whose, int to, int i)
{
    return (affine){2u * (whose + 3u * to) + 3u, 5u * whose + 77u * to + i + 1u};
}

static affine combined(int last, int to, int i)
{
    affine all = item(0, to, i), next;
    for (int r = 1; r <= last; r++) {
        next = item(r, to, i);
        if (!is_ordered) all = (affine){all.a + next.a, all.b + next.b};
        else all = (affine){all.a * next.a, all.a * next.b + all.b};
    }
    return all;
}

typedef affine expected(int i);

static affine of_root(int i) { return item(root, 0, i); }
static affine of_root_for_me(int i) { return item(root, rank, i); }
static affine of_each(int i) { return item(i / count, 0, i % count); }
static affine of_each_for_me(int i) { return item(i / count, rank, i % count); }
static affine of_all(int i) { return combined(size - 1, 0, i); }
static affine of_all_for_me(int i) { return combined(size - 1, rank, i); }
static affine up_to_me(int i) { return combined(rank, 0, i); }
static affine below_me(int i) { return combined(rank - 1, 0, i); }

static void check_items(const affine *at, int length, expected *want)
{
    int wrong = 0;
    for (int i = 0; i < length && wrong < 3; i++) {
        affine wanted = want(i);
        if (at[i].a == wanted.a && at[i].b == wanted.b) continue;
        CHECK_EQ(i, -1), CHECK_EQ(at[i].a, wanted.a), CHECK_EQ(at[i].b, wanted.b);
        wrong++;
    }
}

/* Blocks of this rank for each other, one behind another, with the lengths in `lengths` or all
 * of `count`. */
static void fill(affine *at, int uneven)
{
    for (int to = 0; to < size; to++)
        for (int i = 0; i < (uneven ? lengths[to] : count); i++)
            at[(uneven ? starts[to] : (long) to * count) + i] = item(rank, to, i);
}

static void fill_own(affine *at, int start, int length)
{
    for (int i = 0; i < length; i++) at[start + i] = item(rank, 0, i);
}

static int total(void)
{
    int at = 0;
    for (int r = 0; r < size; r++) starts[r] = at, at += lengths[r];
    return at;
}

static int is_done(int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (error != MPI_SUCCESS) MPI_Error_string(error, text, &length);
    if (is_served && error != MPI_SUCCESS) return check_report(0, __FILE__, __LINE__, "%s", text);
    if (!is_served) CHECK(strstr(text, "forces the algorithm") && strstr(text, "it needs a commutative operation"));
    served_calls += error == MPI_SUCCESS;
    return error == MPI_SUCCESS;
}

static int is_called(const char *name, const char *wanted) { return !strcmp(name, wanted); }

static void move(const char *name)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const int is_root = rank == root;
    void *const mine = in_place ? MPI_IN_PLACE : (void *) send;
    void *const mine_at_root = in_place && is_root ? MPI_IN_PLACE : (void *) send;
    if (is_called(name, "barrier")) {
        is_done(MPI_Barrier(world));
    } else if (is_called(name, "bcast")) {
        if (is_root) fill(receive, 0);
        if (is_done(MPI_Bcast(receive, count, pair, root, world))) check_items(receive, count, of_root);
    } else if (is_called(name, "gather")) {
        fill_own(send, 0, count);
        if (in_place && is_root) fill_own(receive, rank * count, count);
        int error = MPI_Gather(mine_at_root, count, pair, receive, count, pair, root, world);
        if (is_done(error) && is_root) check_items(receive, count * size, of_each);
    } else if (is_called(name, "scatter")) {
        fill(send, 0);
        void *to = in_place && is_root ? MPI_IN_PLACE : receive;
        int error = MPI_Scatter(send, count, pair, to, count, pair, root, world);
        if (is_done(error)) check_items(to == receive ? receive : send + (long) root * count, count, of_root_for_me);
    } else if (is_called(name, "allgather")) {
        fill_own(send, 0, count);
        if (in_place) fill_own(receive, rank * count, count);
        if (is_done(MPI_Allgather(mine, count, pair, receive, count, pair, world)))
            check_items(receive, count * size, of_each);
    } else if (is_called(name, "allgatherv")) {
        for (int r = 0; r < size; r++) lengths[r] = count / (r + 1);
        total();
        fill_own(send, 0, lengths[rank]);
        if (in_place) fill_own(receive, starts[rank], lengths[rank]);
        if (!is_done(MPI_Allgatherv(mine, lengths[rank], pair, receive, lengths, starts, pair, world))) return;
        const int whole = count;
        for (int r = 0; r < size; r++) {
            root = r;
            check_items(receive + starts[r], lengths[r], of_root);
        }
        count = whole;
    } else if (is_called(name, "alltoall")) {
        fill(in_place ? receive : send, 0);
        if (is_done(MPI_Alltoall(mine, count, pair, receive, count, pair, world)))
            check_items(receive, count * size, of_each_for_me);
    } else if (is_called(name, "alltoallv")) {
        /* The same lengths in both directions, which MPI_IN_PLACE requires. */
        for (int r = 0; r < size; r++) lengths[r] = count / (1 + (r + rank) % 3);
        total();
        fill(in_place ? receive : send, 1);
        if (!is_done(MPI_Alltoallv(mine, lengths, starts, pair, receive, lengths, starts, pair, world))) return;
        for (int r = 0; r < size; r++) {
            root = r;
            check_items(receive + starts[r], lengths[r], of_root_for_me);
        }
    } else {
        CHECK(!"a collective that is known");
    }
}

static int reduces(const char *name)
{
    return strstr(name, "reduce") || strstr(name, "scan");
}

static void reduce(const char *name)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const int is_root = rank == root;
    const MPI_Datatype type = is_ordered ? pair : MPI_UNSIGNED;
    const MPI_Op op = is_ordered ? ordered : MPI_SUM;
    const int scale = is_ordered ? 1 : 2, length = scale * count;
    void *const mine = in_place ? MPI_IN_PLACE : (void *) send;
    void *const mine_at_root = in_place && is_root ? MPI_IN_PLACE : (void *) send;
    fill(send, 0);
    if (in_place) fill(receive, 0);
    if (is_called(name, "reduce")) {
        if (is_done(MPI_Reduce(mine_at_root, receive, length, type, op, root, world)) && is_root)
            check_items(receive, count, of_all);
    } else if (is_called(name, "allreduce")) {
        if (is_done(MPI_Allreduce(mine, receive, length, type, op, world))) check_items(receive, count, of_all);
    } else if (is_called(name, "scan")) {
        if (is_done(MPI_Scan(mine, receive, length, type, op, world))) check_items(receive, count, up_to_me);
    } else if (is_called(name, "exscan")) {
        if (is_done(MPI_Exscan(mine, receive, length, type, op, world)) && rank > 0)
            check_items(receive, count, below_me);
    } else if (is_called(name, "reduce_scatter_block")) {
        if (is_done(MPI_Reduce_scatter_block(mine, receive, length, type, op, world)))
            check_items(receive, count, of_all_for_me);
    } else if (is_called(name, "reduce_scatter")) {
        for (int r = 0; r < size; r++) lengths[r] = count / (r + 1);
        total();
        fill(in_place ? receive : send, 1);
        const int own = lengths[rank];
        for (int r = 0; r < size; r++) lengths[r] *= scale;
        if (is_done(MPI_Reduce_scatter(mine, receive, lengths, type, op, world)))
            check_items(receive, own, of_all_for_me);
    } else {
        CHECK(!"a reduction that is known");
    }
}

static void call_all(const char *name, const char *algorithm, const char *served)
{
    const int is_reduction = reduces(name);
    const int is_rooted = !strcmp(name, "bcast") || !strcmp(name, "gather") || !strcmp(name, "scatter") || !strcmp(name, "reduce");
    for (int s = 0; s < SIZES; s++)
        for (is_ordered = 0; is_ordered <= is_reduction; is_ordered++)
            for (in_place = 0; in_place < 2; in_place++)
                for (int last = 0; last <= is_rooted; last++) {
                    root = last ? size - 1 : 0;
                    count = counts[s];
                    is_served = served[is_ordered] == '1';
                    check_where("%s %s, count %d, root %d%s%s", name, algorithm, count, root,
                                in_place ? ", in place" : "", is_ordered ? ", in rank order" : "");
                    memset(receive, -1, (size_t) count * size * sizeof *receive);
                    if (is_reduction) reduce(name);
                    else move(name);
                }
    check_where("%s", "");
}

static void check_counted(const char *name, const char *algorithm, const char *served)
{
    static MPI_T_pvar_handle handles[ALGORITHMS_MOST];
    static char names[ALGORITHMS_MOST][128];
    static number before[ALGORITHMS_MOST];
    char start[64], wanted[160];
    int variables = 0, level, class_of, bound, known = 0, found = 0;
    MPI_T_pvar_session session;
    snprintf(start, sizeof start, "coll_%s_", name);
    snprintf(wanted, sizeof wanted, "coll_%s_%s_calls", name, algorithm);
    CHECK_OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables && known < ALGORITHMS_MOST; i++) {
        int length = sizeof names[0];
        CHECK_OK(MPI_T_pvar_get_info(i, names[known], &length, &level, &class_of, NULL, NULL, NULL, NULL, &bound, NULL, NULL, NULL));
        const char *end = strstr(names[known], "_calls");
        if (strncmp(names[known], start, strlen(start)) || !end || end[6]) continue;
        handles[known] = started(session, names[known], NULL);
        before[known] = value(session, handles[known]);
        known++;
    }
    served_calls = 0;
    call_all(name, algorithm, served);
    for (int i = 0; i < known; i++) {
        number calls = value(session, handles[i]) - before[i];
        int is_it = !strcmp(names[i], wanted);
        check_where("%s", names[i]);
        CHECK_EQ(calls, is_it ? served_calls : 0);
        found += is_it;
        CHECK_OK(MPI_T_pvar_handle_free(session, &handles[i]));
    }
    CHECK_EQ(found, 1);
    CHECK_OK(MPI_T_pvar_session_free(&session));
}

int main(int argc, char **argv)
{
    int provided;
    check_begin(&argc, &argv);
    return_errors();
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    MPI_Type_contiguous(2, MPI_UNSIGNED, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(compose, 0, &ordered);
    send = allocate((size_t) MOST * size * sizeof *send), receive = allocate((size_t) MOST * size * sizeof *receive);
    lengths = allocate(size * sizeof *lengths), starts = allocate(size * sizeof *starts);
    for (int i = 1; i < argc && strchr(argv[i], '='); i++) {
        char *algorithm = strchr(argv[i], '='), *served = strchr(algorithm + 1, '=');
        *algorithm++ = 0, *served++ = 0;
        check_counted(argv[i], algorithm, served);
    }
    free(send), free(receive), free(lengths), free(starts);
    MPI_Op_free(&ordered);
    MPI_Type_free(&pair);
    CHECK_OK(MPI_T_finalize());
    if (rank == 0 && check_failures == 0) puts("ok");
    fflush(stdout);
    MPI_Finalize();
    return check_failures != 0;
}
