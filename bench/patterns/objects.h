/* Objects that programs make and free all the time, for patterns.c. */
#ifndef PATTERNS_OBJECTS_H
#define PATTERNS_OBJECTS_H

/* What the last object was like. */
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

static void comm_dup(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Comm comm;
        MPI_Comm_dup(WORLD, &comm);
        MPI_Comm_size(comm, &last_size);
        MPI_Comm_free(&comm);
    }
}

/* Even and odd ranks apart. */
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
    {"objects/comm_dup", {0}, 1, set_length, comm_dup, is_size_of_world, NULL},
    {"objects/comm_split", {0}, 1, set_length, comm_split, is_size_of_half, NULL},
};

#endif
