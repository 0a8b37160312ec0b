/* Objects that programs make and free often, for patterns.c. */
#ifndef PATTERNS_OBJECTS_H
#define PATTERNS_OBJECTS_H

/* The size of the last object. */
static int last_size;

static void type_vector(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Datatype type;
        MPI_Type_vector(100, 3, 7, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        MPI_Type_size(type, &last_size);
        MPI_Type_free(&type);
    }
}

static void type_struct(long repeats)
{
    const int lengths[4] = {1, 3, 2, 1};
    const MPI_Aint places[4] = {0, 8, 24, 40};
    const MPI_Datatype members[4] = {MPI_DOUBLE, MPI_INT, MPI_DOUBLE, MPI_CHAR};
    for (long i = 0; i < repeats; i++) {
        MPI_Datatype type;
        MPI_Type_create_struct(4, lengths, places, members, &type);
        MPI_Type_commit(&type);
        MPI_Type_size(type, &last_size);
        MPI_Type_free(&type);
    }
}

static void type_subarray(long repeats)
{
    const int sizes[3] = {100, 100, 100}, parts[3] = {10, 20, 30}, starts[3] = {1, 2, 3};
    for (long i = 0; i < repeats; i++) {
        MPI_Datatype type;
        MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        MPI_Type_size(type, &last_size);
        MPI_Type_free(&type);
    }
}

enum { LISTED = 1000 };
static int listed_lengths[LISTED], listed_places[LISTED];
static double listed_values[8 * LISTED], packed_values[4 * LISTED];
static MPI_Datatype listed = MPI_DATATYPE_NULL;

/* Blocks of one to four doubles with one to five between them. */
static void draw_list(size_t bytes)
{
    unsigned random = 1;
    set_length(bytes);
    for (int i = 0, at = 0; i < LISTED; i++) {
        random = random * 1103515245u + 12345u;
        listed_lengths[i] = 1 + (int)(random >> 16) % 4;
        listed_places[i] = at;
        at += listed_lengths[i] + 1 + (int)(random >> 20) % 4;
    }
}

static void type_indexed(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Datatype type;
        MPI_Type_indexed(LISTED, listed_lengths, listed_places, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        MPI_Type_size(type, &last_size);
        MPI_Type_free(&type);
    }
}

static void make_listed(size_t bytes)
{
    draw_list(bytes);
    MPI_Type_indexed(LISTED, listed_lengths, listed_places, MPI_DOUBLE, &listed);
    MPI_Type_commit(&listed);
}

static void free_listed(void)
{
    MPI_Type_free(&listed);
}

static void pack_indexed(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        last_size = 0;
        MPI_Pack(listed_values, 1, listed, packed_values, sizeof packed_values, &last_size, MPI_COMM_SELF);
    }
}

static int is_size_of_struct(void)
{
    return last_size == 3 * (int)sizeof(double) + 3 * (int)sizeof(int) + 1;
}

static int is_size_of_subarray(void)
{
    return last_size == 10 * 20 * 30 * (int)sizeof(double);
}

static int is_size_of_list(void)
{
    int doubles = 0;
    for (int i = 0; i < LISTED; i++)
        doubles += listed_lengths[i];
    return last_size == doubles * (int)sizeof(double);
}

static void comm_dup(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(WORLD, &comm);
        MPI_Comm_size(comm, &last_size);
        MPI_Comm_free(&comm);
    }
}

static void comm_split(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Comm comm;
        MPI_Comm_split(WORLD, rank % 2, rank, &comm);
        MPI_Comm_size(comm, &last_size);
        MPI_Comm_free(&comm);
    }
}

static int is_size_of_type(void)
{
    return last_size == 300 * (int)sizeof(double);
}

static int is_size_of_world(void)
{
    return last_size == ranks;
}

static int is_size_of_half(void)
{
    return last_size == ranks / 2;
}

static const struct pattern object_patterns[] = {
    {"objects/type_vector", {0}, 1, set_length, type_vector, is_size_of_type, NULL},
    {"objects/type_struct", {0}, 1, set_length, type_struct, is_size_of_struct, NULL},
    {"objects/type_subarray", {0}, 1, set_length, type_subarray, is_size_of_subarray, NULL},
    {"objects/type_indexed", {0}, 1, draw_list, type_indexed, is_size_of_list, NULL},
    {"objects/pack_indexed", {0}, 1, make_listed, pack_indexed, is_size_of_list, free_listed},
    {"objects/comm_dup", {0}, 1, set_length, comm_dup, is_size_of_world, NULL},
    {"objects/comm_split", {0}, 1, set_length, comm_split, is_size_of_half, NULL},
};

#endif
