/* Collective components, selected by the parameters of the job. The first argument names the test:
 *   order        reductions with non-commutative or rounding operations are in rank order
 *   strict       coll_base_associative 0: one contribution after another, in rank order; then unset
 *   attribute    the attribute MPIX_MCA_COLL names the component of new communicators
 *   associative  the attribute MPIX_COLL_BASE_ASSOCIATIVE is that parameter of one communicator
 *   info         the info key MPIX_MCA_COLL_KEY names the component of the new communicator
 *   mixed        many collectives on several communicators, with intercommunicators
 *   sync N       a rank cannot be ahead of the others by more than N operations */
#include "../check.h"

#include <mpi-ext.h>

enum { MOST = 3000 };

static const int counts[] = {1, 7, 600, MOST};

/* x -> a x + b over unsigned numbers: the composition is associative and not commutative. */
typedef struct {
    unsigned a, b;
} affine;

static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void) type;
    affine *l = left, *r = right;
    for (int i = 0; i < *count; i++) r[i] = (affine){l[i].a * r[i].a, l[i].a * r[i].b + l[i].b};
}

static affine map_of(int r, int i) { return (affine){2 * r + 3, 5 * r + i + 1}; }

static affine composed(int first, int last, int i)
{
    affine all = map_of(first, i);
    for (int r = first + 1; r <= last; r++) {
        affine next = map_of(r, i);
        all = (affine){all.a * next.a, all.a * next.b + all.b};
    }
    return all;
}

static int same(affine x, affine y) { return x.a == y.a && x.b == y.b; }

static double term(int r, int i) { return (r % 2 ? -1 : 1) * (1.0 + 1e-16 * i) / (3.0 * r + 0.7 * (i % 11) + 1e-3); }

static double sum_from_last(int i)
{
    double sum = term(size - 1, i);
    for (int r = size - 2; r >= 0; r--) sum = term(r, i) + sum;
    return sum;
}

static double sum_from_first(int last, int i)
{
    double sum = term(0, i);
    for (int r = 1; r <= last; r++) sum += term(r, i);
    return sum;
}

static void test_order(void)
{
    MPI_Datatype type;
    MPI_Op op;
    MPI_Type_contiguous(2, MPI_UNSIGNED, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(compose, 0, &op);
    affine *mine = malloc(sizeof *mine * MOST * size), *got = malloc(sizeof *got * MOST * size);
    for (int c = 0; c < 4; c++) {
        int count = counts[c];
        for (int root = 0; root < size; root++) {
            check_where("count %d, root %d", count, root);
            for (int i = 0; i < count; i++) mine[i] = map_of(rank, i);
            MPI_Reduce(mine, got, count, type, op, root, MPI_COMM_WORLD);
            for (int i = 0; rank == root && i < count; i++) CHECK(same(got[i], composed(0, size - 1, i)));
        }
        MPI_Allreduce(mine, got, count, type, op, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(same(got[i], composed(0, size - 1, i)));
        MPI_Request request;
        MPI_Allreduce_init(mine, got, count, type, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        for (int round = 0; round < 3; round++) {
            memset(got, 0, sizeof *got * count);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            for (int i = 0; i < count; i++) CHECK(same(got[i], composed(0, size - 1, i)));
        }
        MPI_Request_free(&request);
        MPI_Iscan(mine, got, count, type, op, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < count; i++) CHECK(same(got[i], composed(0, rank, i)));
        MPI_Exscan(mine, got, count, type, op, MPI_COMM_WORLD);
        for (int i = 0; rank > 0 && i < count; i++) CHECK(same(got[i], composed(0, rank - 1, i)));
        for (int i = 0; i < count * size; i++) mine[i] = map_of(rank, i);
        MPI_Reduce_scatter_block(mine, got, count, type, op, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(same(got[i], composed(0, size - 1, rank * count + i)));
    }
    double *terms = malloc(sizeof *terms * MOST), *sums = malloc(sizeof *sums * MOST), *again = malloc(sizeof *again * MOST);
    for (int i = 0; i < MOST; i++) terms[i] = term(rank, i);
    MPI_Allreduce(terms, sums, MOST, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int round = 0; round < 20; round++) {
        if (round % size == rank) usleep(500);
        memcpy(again, terms, sizeof *again * MOST);
        MPI_Allreduce(MPI_IN_PLACE, again, MOST, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        CHECK(memcmp(sums, again, sizeof *sums * MOST) == 0);
    }
    memcpy(again, sums, sizeof *again * MOST);
    MPI_Bcast(again, MOST, MPI_DOUBLE, size - 1, MPI_COMM_WORLD);
    CHECK(memcmp(sums, again, sizeof *sums * MOST) == 0);
    free(mine), free(got), free(terms), free(sums), free(again);
    MPI_Op_free(&op);
    MPI_Type_free(&type);
}

static void check_sums(const double *got, int count, int from, const char *what)
{
    check_where("%s of %d", what, count);
    for (int i = 0; i < count; i++) {
        double want = sum_from_last(from + i);
        CHECK(memcmp(&got[i], &want, sizeof want) == 0);
    }
}

static void test_strict(void)
{
    double *mine = malloc(sizeof *mine * MOST * size), *got = malloc(sizeof *got * MOST * size);
    for (int c = 0; c < 4; c++) {
        int count = counts[c];
        for (int i = 0; i < count * size; i++) mine[i] = term(rank, i);
        MPI_Reduce(mine, got, count, MPI_DOUBLE, MPI_SUM, size / 2, MPI_COMM_WORLD);
        if (rank == size / 2) check_sums(got, count, 0, "reduce");
        MPI_Allreduce(mine, got, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check_sums(got, count, 0, "allreduce");
        MPI_Request request;
        MPI_Iallreduce(mine, got, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check_sums(got, count, 0, "iallreduce");
        MPI_Reduce_scatter_block(mine, got, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check_sums(got, count, rank * count, "reduce_scatter_block");
        MPI_Scan(mine, got, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) CHECK(got[i] == sum_from_first(rank, i));
    }
    free(mine), free(got);
    /* Each reduction reads the parameter: without it one double goes through shared memory or a
     * tree again. */
    int provided, index, length;
    MPI_T_cvar_handle handle;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    CHECK_OK(MPI_T_cvar_get_index("coll_base_associative", &index));
    CHECK_OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &length));
    int number = 0;
    CHECK_OK(MPI_T_cvar_read(handle, &number));
    CHECK_EQ(number, 0);
    number = 2; /* unset */
    CHECK_OK(MPI_T_cvar_write(handle, &number));
    double one = 1, sum;
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size);
    MPI_T_cvar_handle_free(&handle);
    MPI_T_finalize();
}

static void test_attribute(void)
{
    MPI_Comm basic, smp, plain;
    void *found;
    int flag, one = 1, sum = 0;
    char name[16] = "lam_basic";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, MPIX_MCA_COLL, "bassic"), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, MPIX_MCA_COLL, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_MCA_COLL, &found, &flag));
    CHECK(!flag);
    CHECK_OK(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_MCA_COLL, name));
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPIX_MCA_COLL, &found, &flag));
    CHECK(flag && found == name);
    strcpy(name, "gone");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &basic));
    MPI_Comm_set_name(basic, "basic only");
    CHECK_OK(MPI_Comm_get_attr(basic, MPIX_MCA_COLL, &found, &flag));
    CHECK(!flag);
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, basic));
    CHECK_EQ(sum, size);
    CHECK_OK(MPI_Comm_set_attr(MPI_COMM_WORLD, MPIX_MCA_COLL, "smp"));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &smp));
    CHECK_CLASS(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, smp), MPI_ERR_OTHER);
    CHECK_OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPIX_MCA_COLL));
    CHECK_OK(MPI_Comm_dup(smp, &plain));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, plain));
    CHECK_EQ(sum, size);
    CHECK_OK(MPI_Bcast(&sum, 1, MPI_INT, 0, basic));
    MPI_Comm_free(&basic);
    MPI_Comm_free(&smp);
    MPI_Comm_free(&plain);
}

static const char *served_by(MPI_Comm comm)
{
    static char value[64];
    MPI_Info info;
    int flag;
    CHECK_OK(MPI_Comm_get_info(comm, &info));
    MPI_Info_get(info, MPIX_MCA_COLL_KEY, sizeof value - 1, value, &flag);
    MPI_Info_free(&info);
    return flag ? value : "";
}

static void test_info(void)
{
    enum { MADE = 6 };
    MPI_Comm made[MADE], heir, pair;
    int next = (rank + 1) % size, before = (rank + size - 1) % size, degree = 1;
    MPI_Request request;
    MPI_Group group, low, high;
    MPI_Info info, wrong, other;
    int sum = 0, one = 1, split = size / 2;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, MPIX_MCA_COLL_KEY, "lam_basic");
    MPI_Info_set(info, "mpi_assert_exact_length", "true");
    MPI_Info_dup(info, &wrong);
    MPI_Info_set(wrong, MPIX_MCA_COLL_KEY, "bassic");
    CHECK_CLASS(MPI_Comm_dup_with_info(MPI_COMM_WORLD, wrong, &heir), MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Comm_idup_with_info(MPI_COMM_WORLD, wrong, &heir, &request), MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, wrong, &heir), MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Comm_set_info(MPI_COMM_WORLD, wrong), MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Comm_set_info(MPI_COMM_WORLD, info), MPI_ERR_INFO_VALUE);
    CHECK(!strcmp(served_by(MPI_COMM_WORLD), ""));
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    CHECK_CLASS(MPI_Comm_create_from_group(group, "info", wrong, MPI_ERRORS_RETURN, &heir), MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, wrong, 0,
                                               &heir),
                MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, MPI_UNWEIGHTED, wrong, 0, &heir),
                MPI_ERR_INFO_VALUE);
    MPI_Info_set(wrong, MPIX_MCA_COLL_KEY, "adapt");
    CHECK_CLASS(MPI_Comm_dup_with_info(MPI_COMM_WORLD, wrong, &heir), MPI_ERR_INFO_VALUE);

    CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made[0]));
    CHECK_OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &made[1], &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &made[2]));
    CHECK_OK(MPI_Comm_create_from_group(group, "info", info, MPI_ERRORS_RETURN, &made[3]));
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, info, 0,
                                            &made[4]));
    CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, MPI_UNWEIGHTED, info, 0, &made[5]));
    MPI_Comm_set_name(made[0], "named by info");
    for (int i = 0; i < MADE; i++) {
        CHECK(!strcmp(served_by(made[i]), "basic"));
        CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made[i]));
        CHECK_OK(MPI_Comm_set_info(made[i], info));
    }
    /* A communicator made from this one has the component in its own attribute. */
    CHECK_OK(MPI_Comm_dup(made[0], &heir));
    CHECK(!strcmp(served_by(heir), ""));
    MPI_Comm_free(&heir);
    CHECK_OK(MPI_Comm_set_attr(made[0], MPIX_MCA_COLL, "smp"));
    CHECK_OK(MPI_Comm_dup(made[0], &heir));
    CHECK(!strcmp(served_by(heir), "smp"));
    CHECK_CLASS(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, heir), MPI_ERR_OTHER);
    MPI_Comm_free(&heir);
    CHECK_OK(MPI_Comm_dup_with_info(made[0], info, &heir)); /* the info has precedence */
    CHECK(!strcmp(served_by(heir), "basic"));
    MPI_Comm_free(&heir);
    /* A component for other communicators serves nothing here. */
    MPI_Info_create(&other);
    MPI_Info_set(other, MPIX_MCA_COLL_KEY, "inter");
    CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, other, &heir));
    CHECK_CLASS(MPI_Barrier(heir), MPI_ERR_OTHER);
    MPI_Comm_free(&heir);
    if (size > 1) {
        MPI_Group_range_incl(group, 1, (int[1][3]){{0, split - 1, 1}}, &low);
        MPI_Group_range_incl(group, 1, (int[1][3]){{split, size - 1, 1}}, &high);
        int lower = rank < split;
        CHECK_OK(MPI_Intercomm_create_from_groups(lower ? low : high, 0, lower ? high : low, 0, "pair", other,
                                                  MPI_ERRORS_RETURN, &pair));
        CHECK(!strcmp(served_by(pair), "inter"));
        CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, pair));
        CHECK_EQ(sum, lower ? size - split : split);
        MPI_Comm_free(&pair);
        MPI_Group_free(&low);
        MPI_Group_free(&high);
    }
    for (int i = 0; i < MADE; i++) MPI_Comm_free(&made[i]);
    MPI_Group_free(&group);
    MPI_Info_free(&info);
    MPI_Info_free(&wrong);
    MPI_Info_free(&other);
}

static void test_associative(void)
{
    MPI_Comm strict, heir;
    void *found;
    int flag, is_strict = 1, other = 0;
    double mine[8], got[8];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &strict);
    MPI_Comm_set_errhandler(strict, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Comm_set_attr(strict, MPIX_COLL_BASE_ASSOCIATIVE, "yes"), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_set_attr(strict, MPIX_COLL_BASE_ASSOCIATIVE, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Comm_get_attr(strict, MPIX_COLL_BASE_ASSOCIATIVE, &found, &flag));
    CHECK(!flag);
    CHECK_OK(MPI_Comm_set_attr(strict, MPIX_COLL_BASE_ASSOCIATIVE, "0"));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 8; i++) mine[i] = term(rank, i + 8 * round);
        CHECK_OK(MPI_Allreduce(mine, got, 8, MPI_DOUBLE, MPI_SUM, strict));
        check_sums(got, 8, 8 * round, "allreduce with the attribute");
    }
    MPI_Comm_set_name(strict, "strict");
    CHECK_OK(MPI_Allreduce(&is_strict, &other, 1, MPI_INT, MPI_SUM, strict)); /* for coll_verbose: basic */
    CHECK_OK(MPI_Comm_dup(strict, &heir));
    CHECK_OK(MPI_Comm_get_attr(heir, MPIX_COLL_BASE_ASSOCIATIVE, &found, &flag));
    CHECK(!flag);
    MPI_Comm_set_name(heir, "heir");
    CHECK_OK(MPI_Allreduce(&is_strict, &other, 1, MPI_INT, MPI_SUM, heir));
    CHECK_EQ(other, size);
    /* Strict order needs basic. */
    CHECK_OK(MPI_Comm_set_attr(strict, MPIX_MCA_COLL, "tuned"));
    MPI_Comm_free(&heir);
    CHECK_OK(MPI_Comm_dup(strict, &heir));
    MPI_Comm_set_errhandler(heir, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Allreduce(&is_strict, &other, 1, MPI_INT, MPI_SUM, heir));
    CHECK_OK(MPI_Comm_set_attr(heir, MPIX_COLL_BASE_ASSOCIATIVE, "0"));
    if (size > 1) CHECK_CLASS(MPI_Allreduce(&is_strict, &other, 1, MPI_INT, MPI_SUM, heir), MPI_ERR_OTHER);
    CHECK_OK(MPI_Comm_set_attr(heir, MPIX_COLL_BASE_ASSOCIATIVE, "unset"));
    CHECK_OK(MPI_Allreduce(&is_strict, &other, 1, MPI_INT, MPI_SUM, heir));
    CHECK_OK(MPI_Comm_set_attr(heir, MPIX_COLL_BASE_ASSOCIATIVE, "0"));
    CHECK_OK(MPI_Comm_delete_attr(heir, MPIX_COLL_BASE_ASSOCIATIVE));
    CHECK_OK(MPI_Allreduce(&is_strict, &other, 1, MPI_INT, MPI_SUM, heir));
    CHECK_EQ(other, size);
    MPI_Comm_free(&heir);
    MPI_Comm_free(&strict);
}

static void check_all_of(MPI_Comm comm, int count)
{
    int here, ranks;
    MPI_Comm_rank(comm, &here);
    MPI_Comm_size(comm, &ranks);
    long *mine = malloc(sizeof *mine * count * ranks), *got = malloc(sizeof *got * count * ranks);
    check_where("rank %d of %d, count %d", here, ranks, count);
    for (int i = 0; i < count; i++) mine[i] = 1000L * here + i;
    MPI_Barrier(comm);
    MPI_Allgather(mine, count, MPI_LONG, got, count, MPI_LONG, comm);
    for (int r = 0; r < ranks; r++) CHECK_EQ(got[r * count + count - 1], 1000L * r + count - 1);
    MPI_Allreduce(mine, got, count, MPI_LONG, MPI_MAX, comm);
    CHECK_EQ(got[0], 1000L * (ranks - 1));
    MPI_Scan(mine, got, count, MPI_LONG, MPI_SUM, comm);
    CHECK_EQ(got[0], 1000L * here * (here + 1) / 2);
    for (int root = 0; root < ranks; root++) {
        memcpy(got, mine, sizeof *got * count);
        MPI_Bcast(got, count, MPI_LONG, root, comm);
        CHECK_EQ(got[count - 1], 1000L * root + count - 1);
        MPI_Reduce(mine, got, count, MPI_LONG, MPI_SUM, root, comm);
        if (here == root) CHECK_EQ(got[0], 1000L * ranks * (ranks - 1) / 2);
    }
    free(mine), free(got);
}

static void test_mixed(void)
{
    MPI_Comm back, odd, half;
    for (int c = 0; c < 4; c++) check_all_of(MPI_COMM_WORLD, counts[c]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &back);
    check_all_of(back, 5);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &odd);
    check_all_of(odd, 5);
    check_all_of(MPI_COMM_SELF, 5);
    if (size > 1) {
        MPI_Comm inter;
        MPI_Comm_split(MPI_COMM_WORLD, rank < size / 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < size / 2 ? size / 2 : 0, 7, &inter);
        int one = 1, sum = 0, others;
        MPI_Comm_remote_size(inter, &others);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
        CHECK_EQ(sum, others);
        MPI_Barrier(inter);
        MPI_Request request;
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_EQ(sum, others);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    MPI_Comm_free(&back);
    MPI_Comm_free(&odd);
}

/* Rank 0 broadcasts as fast as it can, and reads the numbers of received broadcasts in a window. */
static void test_sync(int every)
{
    int *done, worst = 0;
    MPI_Win window;
    MPI_Win_allocate(sizeof *done, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &done, &window);
    *done = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 1; i <= 40; i++) {
        char byte = (char) i;
        MPI_Bcast(&byte, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
        CHECK_EQ(byte, i);
        int one = 1, slowest = 0;
        if (rank == size - 1) {
            usleep(300);
            MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, window);
            MPI_Win_flush(0, window);
        }
        if (rank == 0) {
            MPI_Get_accumulate(NULL, 0, MPI_INT, &slowest, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, window);
            MPI_Win_flush(0, window);
            if (i - slowest > worst) worst = i - slowest;
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    check_where("rank 0 was %d ahead", worst);
    if (size > 1) CHECK(worst <= every + 1);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "order") == 0) test_order();
    else if (strcmp(what, "strict") == 0) test_strict();
    else if (strcmp(what, "attribute") == 0) test_attribute();
    else if (strcmp(what, "info") == 0) test_info();
    else if (strcmp(what, "associative") == 0) test_associative();
    else if (strcmp(what, "mixed") == 0) test_mixed();
    else if (strcmp(what, "sync") == 0 && argc > 2) test_sync(atoi(argv[2]));
    else CHECK(!"an argument that is known");
    return check_end();
}
