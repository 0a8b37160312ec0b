// ranks: 1
// transports: one
/* Ten thousand rounds of making, querying, using and freeing each kind of datatype do not
 * enlarge the memory. */
#include "check.h"

enum { ROUNDS = 10000 };

static long used(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &total, &resident) != 2) {
        fprintf(stderr, "/proc/self/statm cannot be read\n");
        exit(3);
    }
    fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static MPI_Datatype make(int kind, MPI_Datatype old)
{
    static const int blocks[] = {2, 3, 1}, places[] = {0, 5, 9}, sizes[] = {6, 7}, subsizes[] = {3, 2}, starts[] = {1, 4};
    static const int ways[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, grid[] = {2, 3};
    static const int dargs[] = {2, MPI_DISTRIBUTE_DFLT_DARG};
    static const MPI_Aint bytes[] = {0, 400, 900};
    static const MPI_Count large_blocks[] = {2, 3, 1}, large_places[] = {0, 500, 900}, large_sizes[] = {6, 7};
    MPI_Datatype type = MPI_DATATYPE_NULL, three[] = {old, MPI_DOUBLE, old};
    switch (kind) {
    case 0: CHECK_OK(MPI_Type_contiguous(5, old, &type)); break;
    case 1: CHECK_OK(MPI_Type_vector(5, 2, 3, old, &type)); break;
    case 2: CHECK_OK(MPI_Type_create_hvector_c(5, 2, 300, old, &type)); break;
    case 3: CHECK_OK(MPI_Type_indexed(3, blocks, places, old, &type)); break;
    case 4: CHECK_OK(MPI_Type_create_hindexed(3, blocks, bytes, old, &type)); break;
    case 5: CHECK_OK(MPI_Type_create_indexed_block(3, 2, places, old, &type)); break;
    case 6: CHECK_OK(MPI_Type_create_hindexed_block(3, 2, bytes, old, &type)); break;
    case 7: CHECK_OK(MPI_Type_create_struct(3, blocks, bytes, three, &type)); break;
    case 8: CHECK_OK(MPI_Type_create_struct_c(3, large_blocks, large_places, three, &type)); break;
    case 9: CHECK_OK(MPI_Type_create_resized(old, -8, 256, &type)); break;
    case 10: CHECK_OK(MPI_Type_dup(old, &type)); break;
    case 11: CHECK_OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, old, &type)); break;
    case 12: CHECK_OK(MPI_Type_create_darray(6, 3, 2, sizes, ways, dargs, grid, MPI_ORDER_FORTRAN, old, &type)); break;
    case 13: CHECK_OK(MPI_Type_create_darray_c(6, 3, 2, large_sizes, ways, dargs, grid, MPI_ORDER_C, old, &type)); break;
    default: return MPI_DATATYPE_NULL;
    }
    return type;
}

static void plus(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *count; i++) ((int *) inout)[i] += ((int *) in)[i];
}

static int once(int kind)
{
    static char memory[8192], packed[8192];
    MPI_Datatype inner, type, given[3];
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_SHORT, &inner));
    type = make(kind, inner);
    if (type == MPI_DATATYPE_NULL) {
        CHECK_OK(MPI_Type_free(&inner));
        return 0;
    }
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_set_name(type, "a name that takes some memory of its own"));
    MPI_Count ni, na, nc, nt, counts[16];
    int integers[16], combiner, position = 0;
    MPI_Aint addresses[16], external = 0;
    CHECK_OK(MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nt, &combiner));
    CHECK_OK(MPI_Type_get_contents_c(type, ni, na, nc, nt, integers, addresses, counts, given));
    for (int i = 0; i < nt; i++)
        if (given[i] != MPI_DOUBLE) CHECK_OK(MPI_Type_free(&given[i]));
    CHECK_OK(MPI_Pack(memory + 1024, 1, type, packed, sizeof packed, &position, MPI_COMM_SELF));
    CHECK_OK(MPI_Pack_external("external32", memory + 1024, 1, type, packed, sizeof packed, &external));
    CHECK_CLASS(MPI_Type_get_contents_c(type, ni, na, nc, 0, integers, addresses, counts, given), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_contiguous(-1, type, &given[0]), MPI_ERR_COUNT);
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_free(&type));
    MPI_Op op;
    int one = 1, two = 2;
    CHECK_OK(MPI_Op_create(plus, 1, &op));
    CHECK_OK(MPI_Reduce_local(&one, &two, 1, MPI_INT, op));
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_create_f90_real(kind, MPI_UNDEFINED, &type)); /* kept, once */
    return 1;
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int kind = 0;
    for (;; kind++) {
        check_where("kind %d", kind);
        for (int i = 0; i < 200; i++)
            if (!once(kind)) goto done;
        long before = used();
        for (int i = 0; i < scaled(ROUNDS); i++) once(kind);
        long more = used() - before;
        /* An object of a hundred bytes lost in each round would be a megabyte. */
        check_report(more < 400 * 1024, __FILE__, __LINE__, "%ld bytes more after %d rounds", more, scaled(ROUNDS));
    }
done:
    CHECK_EQ(kind, 14);
    return check_end();
}
