// ranks: 1
// transports: one
/* The contents of each kind of datatype, in both forms; the program must free the returned
 * types. */
#include "check.h"

enum { MOST = 16 };

static const int blocks[] = {2, 0, 3}, places[] = {5, 1, -4};
static const MPI_Aint bytes[] = {40, 8, -32};
static const MPI_Count large_blocks[] = {2, 0, 3}, large_places[] = {5, 1, -4}, large_bytes[] = {40, 8, -32};

/* The contents of a type must be these arguments; its first type must be as large as `old`. */
static void says(MPI_Datatype type, int combiner, int integers, const int *want_integers, int addresses,
                 const MPI_Aint *want_addresses, int counts, const MPI_Count *want_counts, int types, MPI_Datatype old)
{
    check_where("combiner %d with %d integers, %d addresses, %d counts", combiner, integers, addresses, counts);
    MPI_Count ni, na, nc, nt;
    int what;
    CHECK_OK(MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nt, &what));
    CHECK_EQ(what, combiner);
    if (!CHECK_EQ(ni, integers) | !CHECK_EQ(na, addresses) | !CHECK_EQ(nc, counts) | !CHECK_EQ(nt, types)) return;

    int got_integers[MOST];
    MPI_Aint got_addresses[MOST];
    MPI_Count got_counts[MOST];
    MPI_Datatype got_types[MOST];
    CHECK_OK(MPI_Type_get_contents_c(type, ni, na, nc, nt, got_integers, got_addresses, got_counts, got_types));
    for (int i = 0; i < integers; i++) CHECK_EQ(got_integers[i], want_integers[i]);
    for (int i = 0; i < addresses; i++) CHECK_EQ(got_addresses[i], want_addresses[i]);
    for (int i = 0; i < counts; i++) CHECK_EQ(got_counts[i], want_counts[i]);
    for (int i = 0; i < types; i++) {
        int size1 = -1, size2 = -2, theirs, same = old == MPI_DOUBLE;
        CHECK_OK(MPI_Type_size(got_types[i], &size1));
        CHECK_OK(MPI_Type_size(old, &size2));
        CHECK_EQ(size1, size2);
        CHECK_EQ(got_types[i] == old, same); /* a predefined type is the same, another one is a new object */
        CHECK_OK(MPI_Type_get_envelope_c(got_types[i], &ni, &na, &nc, &nt, &theirs));
        CHECK_EQ(theirs, same ? MPI_COMBINER_NAMED : MPI_COMBINER_CONTIGUOUS);
        if (!same) CHECK_OK(MPI_Type_free(&got_types[i]));
    }
    int few[4];
    if (counts > 0) {
        CHECK_CLASS(MPI_Type_get_envelope(type, &few[0], &few[1], &few[2], &few[3]), MPI_ERR_TYPE);
        CHECK_CLASS(MPI_Type_get_contents(type, MOST, MOST, MOST, got_integers, got_addresses, got_types), MPI_ERR_TYPE);
        CHECK_CLASS(MPI_Type_get_contents_c(type, MOST, MOST, counts - 1, MOST, got_integers, got_addresses, got_counts, got_types), MPI_ERR_ARG);
    } else {
        CHECK_OK(MPI_Type_get_envelope(type, &few[0], &few[1], &few[2], &few[3]));
        CHECK(few[0] == integers && few[1] == addresses && few[2] == types && few[3] == combiner);
        CHECK_OK(MPI_Type_get_contents(type, integers, addresses, types, got_integers, got_addresses, got_types));
        for (int i = 0; i < integers; i++) CHECK_EQ(got_integers[i], want_integers[i]);
        for (int i = 0; i < addresses; i++) CHECK_EQ(got_addresses[i], want_addresses[i]);
        for (int i = 0; i < types && old != MPI_DOUBLE; i++) CHECK_OK(MPI_Type_free(&got_types[i]));
        if (integers) CHECK_CLASS(MPI_Type_get_contents(type, integers - 1, MOST, MOST, got_integers, got_addresses, got_types), MPI_ERR_ARG);
        if (addresses) CHECK_CLASS(MPI_Type_get_contents(type, MOST, addresses - 1, MOST, got_integers, got_addresses, got_types), MPI_ERR_ARG);
    }
    CHECK_CLASS(MPI_Type_get_contents_c(type, MOST, MOST, MOST, types - 1, got_integers, got_addresses, got_counts, got_types), MPI_ERR_ARG);
    CHECK_OK(MPI_Type_free(&type));
}

#define INTS(...) (int) (sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__}
#define AINTS(...) (int) (sizeof((MPI_Aint[]){__VA_ARGS__}) / sizeof(MPI_Aint)), (MPI_Aint[]){__VA_ARGS__}
#define COUNTS(...) (int) (sizeof((MPI_Count[]){__VA_ARGS__}) / sizeof(MPI_Count)), (MPI_Count[]){__VA_ARGS__}
#define NONE 0, NULL

static void all_kinds(MPI_Datatype old)
{
    MPI_Datatype type, three[3] = {old, old, old};
    CHECK_OK(MPI_Type_dup(old, &type));
    says(type, MPI_COMBINER_DUP, NONE, NONE, NONE, 1, old);
    CHECK_OK(MPI_Type_contiguous(7, old, &type));
    says(type, MPI_COMBINER_CONTIGUOUS, INTS(7), NONE, NONE, 1, old);
    CHECK_OK(MPI_Type_contiguous_c(7, old, &type));
    says(type, MPI_COMBINER_CONTIGUOUS, NONE, NONE, COUNTS(7), 1, old);
    CHECK_OK(MPI_Type_vector(3, 2, -5, old, &type));
    says(type, MPI_COMBINER_VECTOR, INTS(3, 2, -5), NONE, NONE, 1, old);
    CHECK_OK(MPI_Type_vector_c(3, 2, -5, old, &type));
    says(type, MPI_COMBINER_VECTOR, NONE, NONE, COUNTS(3, 2, -5), 1, old);
    CHECK_OK(MPI_Type_create_hvector(3, 2, 99, old, &type));
    says(type, MPI_COMBINER_HVECTOR, INTS(3, 2), AINTS(99), NONE, 1, old);
    CHECK_OK(MPI_Type_create_hvector_c(3, 2, 99, old, &type));
    says(type, MPI_COMBINER_HVECTOR, NONE, NONE, COUNTS(3, 2, 99), 1, old);
    CHECK_OK(MPI_Type_indexed(3, blocks, places, old, &type));
    says(type, MPI_COMBINER_INDEXED, INTS(3, 2, 0, 3, 5, 1, -4), NONE, NONE, 1, old);
    CHECK_OK(MPI_Type_indexed_c(3, large_blocks, large_places, old, &type));
    says(type, MPI_COMBINER_INDEXED, NONE, NONE, COUNTS(3, 2, 0, 3, 5, 1, -4), 1, old);
    CHECK_OK(MPI_Type_create_hindexed(3, blocks, bytes, old, &type));
    says(type, MPI_COMBINER_HINDEXED, INTS(3, 2, 0, 3), AINTS(40, 8, -32), NONE, 1, old);
    CHECK_OK(MPI_Type_create_hindexed_c(3, large_blocks, large_bytes, old, &type));
    says(type, MPI_COMBINER_HINDEXED, NONE, NONE, COUNTS(3, 2, 0, 3, 40, 8, -32), 1, old);
    CHECK_OK(MPI_Type_create_indexed_block(3, 2, places, old, &type));
    says(type, MPI_COMBINER_INDEXED_BLOCK, INTS(3, 2, 5, 1, -4), NONE, NONE, 1, old);
    CHECK_OK(MPI_Type_create_indexed_block_c(3, 2, large_places, old, &type));
    says(type, MPI_COMBINER_INDEXED_BLOCK, NONE, NONE, COUNTS(3, 2, 5, 1, -4), 1, old);
    CHECK_OK(MPI_Type_create_hindexed_block(3, 2, bytes, old, &type));
    says(type, MPI_COMBINER_HINDEXED_BLOCK, INTS(3, 2), AINTS(40, 8, -32), NONE, 1, old);
    CHECK_OK(MPI_Type_create_hindexed_block_c(3, 2, large_bytes, old, &type));
    says(type, MPI_COMBINER_HINDEXED_BLOCK, NONE, NONE, COUNTS(3, 2, 40, 8, -32), 1, old);
    CHECK_OK(MPI_Type_create_struct(3, blocks, bytes, three, &type));
    says(type, MPI_COMBINER_STRUCT, INTS(3, 2, 0, 3), AINTS(40, 8, -32), NONE, 3, old);
    CHECK_OK(MPI_Type_create_struct_c(3, large_blocks, large_bytes, three, &type));
    says(type, MPI_COMBINER_STRUCT, NONE, NONE, COUNTS(3, 2, 0, 3, 40, 8, -32), 3, old);
    CHECK_OK(MPI_Type_create_resized(old, -8, 64, &type));
    says(type, MPI_COMBINER_RESIZED, NONE, AINTS(-8, 64), NONE, 1, old);
    CHECK_OK(MPI_Type_create_resized_c(old, -8, 64, &type));
    says(type, MPI_COMBINER_RESIZED, NONE, NONE, COUNTS(-8, 64), 1, old);

    int sizes[] = {9, 8}, subsizes[] = {4, 3}, starts[] = {1, 2};
    MPI_Count csizes[] = {9, 8}, csubsizes[] = {4, 3}, cstarts[] = {1, 2};
    CHECK_OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, old, &type));
    says(type, MPI_COMBINER_SUBARRAY, INTS(2, 9, 8, 4, 3, 1, 2, MPI_ORDER_FORTRAN), NONE, NONE, 1, old);
    CHECK_OK(MPI_Type_create_subarray_c(2, csizes, csubsizes, cstarts, MPI_ORDER_C, old, &type));
    says(type, MPI_COMBINER_SUBARRAY, INTS(2, MPI_ORDER_C), NONE, COUNTS(9, 8, 4, 3, 1, 2), 1, old);
    int ways[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, dargs[] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {3, 2};
    CHECK_OK(MPI_Type_create_darray(6, 4, 2, sizes, ways, dargs, grid, MPI_ORDER_C, old, &type));
    says(type, MPI_COMBINER_DARRAY, INTS(6, 4, 2, 9, 8, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, 2, MPI_DISTRIBUTE_DFLT_DARG, 3, 2, MPI_ORDER_C), NONE, NONE, 1, old);
    CHECK_OK(MPI_Type_create_darray_c(6, 4, 2, csizes, ways, dargs, grid, MPI_ORDER_C, old, &type));
    says(type, MPI_COMBINER_DARRAY, INTS(6, 4, 2, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, 2, MPI_DISTRIBUTE_DFLT_DARG, 3, 2, MPI_ORDER_C), NONE, COUNTS(9, 8), 1, old);
}

/* A returned type outlives the one that contained it, does not have its name, and can be freed
 * once. */
static void references(void)
{
    MPI_Datatype inner, outer, given, again, stale;
    int length, n;
    char name[MPI_MAX_OBJECT_NAME];
    check_where("references");
    CHECK_OK(MPI_Type_vector(2, 1, 3, MPI_INT, &inner));
    CHECK_OK(MPI_Type_set_name(inner, "inner"));
    CHECK_OK(MPI_Type_contiguous(2, inner, &outer));
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_get_contents(outer, 1, 0, 1, &n, NULL, &given));
    CHECK_OK(MPI_Type_get_contents(outer, 1, 0, 1, &n, NULL, &again));
    CHECK(given != again);
    CHECK_OK(MPI_Type_set_name(given, "given"));
    CHECK_OK(MPI_Type_get_name(again, name, &length));
    CHECK(strcmp(name, "given") != 0);
    CHECK_OK(MPI_Type_free(&outer));
    CHECK_OK(MPI_Type_commit(&given));
    int from[4] = {1, 2, 3, 4}, to[2] = {0, 0}, position = 0;
    CHECK_OK(MPI_Pack(from, 1, given, to, sizeof to, &position, MPI_COMM_SELF));
    CHECK(to[0] == 1 && to[1] == 4);
    stale = given;
    CHECK_OK(MPI_Type_free(&given));
    CHECK(given == MPI_DATATYPE_NULL);
    CHECK_CLASS(MPI_Type_free(&stale), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&again));
}

static void refused(void)
{
    int a, b, c, d;
    MPI_Datatype type;
    check_where("what is refused");
    CHECK_OK(MPI_Type_get_envelope(MPI_DOUBLE_INT, &a, &b, &c, &d));
    CHECK(a == 0 && b == 0 && c == 0 && d == MPI_COMBINER_NAMED);
    CHECK_CLASS(MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_get_contents_c(MPI_INT, 0, 0, 0, 0, NULL, NULL, NULL, NULL), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_get_envelope(MPI_DATATYPE_NULL, &a, &b, &c, &d), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK_CLASS(MPI_Type_get_contents(type, 1, 0, 1, NULL, NULL, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_get_contents(type, 1, 0, 1, &a, NULL, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_get_contents(type, -1, 0, 1, &a, NULL, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_get_envelope(type, NULL, &b, &c, &d), MPI_ERR_ARG);
    CHECK_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Datatype derived;
    CHECK_OK(MPI_Type_contiguous(3, MPI_SHORT, &derived));
    all_kinds(MPI_DOUBLE);
    all_kinds(derived);
    CHECK_OK(MPI_Type_free(&derived));
    references();
    refused();
    return check_end();
}
