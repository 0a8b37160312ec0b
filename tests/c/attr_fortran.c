// ranks: 1 2
// transports: one
/* Attributes that Fortran sets and reads (mpi-ext.h): C has the address of a number that Fortran
 * has set, and Fortran the address that C has set as a number. The extra argument of a key ends
 * once, when the key is free and no attribute has it. */
#include <mpi-ext.h>

#include "check.h"

struct state {
    int copies, deletes, ends;
    MPI_Aint deleted;
};

static int spare_ends;

/* Above 32 bits, and negative. */
static const MPI_Aint number = -7000000001;

static void *as_pointer(MPI_Aint value)
{
    return (void *) (intptr_t) value;
}

static void count_end(void *extra)
{
    ++*(int *) extra;
}

/* May call MPI, also for keys. */
static void end(void *extra)
{
    int key = MPI_KEYVAL_INVALID;
    CHECK_OK(MPIX_Comm_create_keyval_x(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, count_end, &key, &spare_ends));
    CHECK_OK(MPI_Comm_free_keyval(&key));
    ((struct state *) extra)->ends++;
}

static int copied(struct state *state, void *in, void *out, int *flag)
{
    state->copies++;
    *(void **) out = (char *) in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int deleted(struct state *state, void *value)
{
    state->deletes++;
    state->deleted = (MPI_Aint) (intptr_t) value;
    return MPI_SUCCESS;
}

/* The calls for one kind of object. */
#define KIND(kind, handle)                                                                                   \
    static int copy_##kind(handle object, int key, void *extra, void *in, void *out, int *flag)              \
    {                                                                                                        \
        (void) object;                                                                                       \
        (void) key;                                                                                          \
        return copied(extra, in, out, flag);                                                                 \
    }                                                                                                        \
    static int delete_##kind(handle object, int key, void *value, void *extra)                               \
    {                                                                                                        \
        (void) object;                                                                                       \
        (void) key;                                                                                          \
        return deleted(extra, value);                                                                        \
    }                                                                                                        \
    static MPI_Aint fortran_##kind(handle object, int key)                                                   \
    {                                                                                                        \
        void *value = as_pointer(77);                                                                        \
        int flag = -1;                                                                                       \
        CHECK_OK(MPIX_##kind##_get_attr_as_fortran(object, key, &value, &flag));                             \
        CHECK_EQ(flag, 1);                                                                                   \
        return (MPI_Aint) (intptr_t) value;                                                                  \
    }                                                                                                        \
    static void *c_##kind(handle object, int key)                                                            \
    {                                                                                                        \
        void *value = NULL;                                                                                  \
        int flag = -1;                                                                                       \
        CHECK_OK(MPI_##kind##_get_attr(object, key, &value, &flag));                                         \
        CHECK_EQ(flag, 1);                                                                                   \
        return value;                                                                                        \
    }                                                                                                        \
    static struct state state_##kind;                                                                        \
    static void exchange_##kind(handle object)                                                                   \
    {                                                                                                        \
        struct state *state = &state_##kind;                                                                 \
        int key = MPI_KEYVAL_INVALID, flag = -1;                                                             \
        void *value = state;                                                                                 \
        CHECK_OK(MPIX_##kind##_create_keyval_x(copy_##kind, delete_##kind, end, &key, state));               \
        CHECK_OK(MPIX_##kind##_get_attr_as_fortran(object, key, &value, &flag));                             \
        CHECK(flag == 0 && value == state);                                                                  \
        CHECK_OK(MPIX_##kind##_set_attr_as_fortran(object, key, as_pointer(number)));                        \
        CHECK_EQ(fortran_##kind(object, key), number);                                                       \
        MPI_Aint *place = c_##kind(object, key);                                                             \
        CHECK_EQ(*place, number);                                                                            \
        CHECK(c_##kind(object, key) == place);                                                               \
        *place = 12;                                                                                         \
        CHECK_EQ(fortran_##kind(object, key), 12);                                                           \
        CHECK_OK(MPI_##kind##_set_attr(object, key, &flag));                                                 \
        CHECK(state->deletes == 1 && state->deleted == 12);                                                  \
        CHECK(c_##kind(object, key) == &flag);                                                               \
        CHECK_EQ(fortran_##kind(object, key), (intptr_t) &flag);                                             \
        CHECK_OK(MPIX_##kind##_set_attr_as_fortran(object, key, as_pointer(5)));                             \
        CHECK(state->deletes == 2 && state->deleted == (intptr_t) &flag);                                    \
        CHECK_EQ(*(MPI_Aint *) c_##kind(object, key), 5);                                                    \
        int again = key;                                                                                     \
        CHECK_OK(MPI_##kind##_free_keyval(&key));                                                            \
        CHECK_OK(MPI_##kind##_free_keyval(&again));                                                          \
        CHECK(key == MPI_KEYVAL_INVALID && state->ends == 0);                                                \
    }                                                                                                        \
    static void refuse_##kind(handle object, handle null, int key_of_others, int class)                      \
    {                                                                                                        \
        int key = MPI_KEYVAL_INVALID, flag = -1, ends = 0;                                                   \
        void *value = NULL;                                                                                  \
        CHECK_CLASS(MPIX_##kind##_create_keyval_x(NULL, NULL, count_end, NULL, &ends), MPI_ERR_ARG);         \
        CHECK_EQ(ends, 0);                                                                                   \
        CHECK_OK(MPIX_##kind##_create_keyval_x(NULL, NULL, NULL, &key, NULL));                               \
        CHECK_OK(MPIX_##kind##_set_attr_as_fortran(object, key, as_pointer(1)));                             \
        CHECK_CLASS(MPIX_##kind##_get_attr_as_fortran(object, key, NULL, &flag), MPI_ERR_ARG);               \
        CHECK_CLASS(MPIX_##kind##_get_attr_as_fortran(object, key, &value, NULL), MPI_ERR_ARG);              \
        CHECK_CLASS(MPIX_##kind##_get_attr_as_fortran(null, key, &value, &flag), class);                     \
        CHECK_CLASS(MPIX_##kind##_set_attr_as_fortran(null, key, value), class);                             \
        CHECK_OK(MPI_##kind##_delete_attr(object, key));                                                     \
        CHECK_OK(MPI_##kind##_free_keyval(&key));                                                            \
        CHECK_CLASS(MPIX_##kind##_get_attr_as_fortran(object, key_of_others, &value, &flag), MPI_ERR_KEYVAL); \
        CHECK_CLASS(MPIX_##kind##_set_attr_as_fortran(object, key_of_others, value), MPI_ERR_KEYVAL);        \
        CHECK_CLASS(MPIX_##kind##_set_attr_as_fortran(object, MPI_KEYVAL_INVALID, value), MPI_ERR_KEYVAL);   \
        CHECK_CLASS(MPIX_##kind##_set_attr_as_fortran(object, MPI_TAG_UB, value), MPI_ERR_KEYVAL);           \
    }

KIND(Comm, MPI_Comm)
KIND(Type, MPI_Datatype)
KIND(Win, MPI_Win)

/* A duplicate has a number of its own. */
#define COPIES(kind, handle, dup, same)                                                        \
    static void copies_##kind(handle object)                                                   \
    {                                                                                          \
        struct state state = {0};                                                              \
        int by_function, by_library, of_c;                                                     \
        handle other;                                                                          \
        CHECK_OK(MPIX_##kind##_create_keyval_x(copy_##kind, delete_##kind, end, &by_function, &state)); \
        CHECK_OK(MPI_##kind##_create_keyval(same, NULL, &by_library, NULL));                   \
        CHECK_OK(MPI_##kind##_create_keyval(copy_##kind, NULL, &of_c, &state));                \
        CHECK_OK(MPIX_##kind##_set_attr_as_fortran(object, by_function, as_pointer(number)));  \
        CHECK_OK(MPIX_##kind##_set_attr_as_fortran(object, by_library, as_pointer(number)));   \
        CHECK_OK(MPI_##kind##_set_attr(object, of_c, &state));                                 \
        CHECK_OK(dup(object, &other));                                                         \
        CHECK_EQ(state.copies, 2);                                                             \
        CHECK_EQ(fortran_##kind(other, by_function), number + 1);                              \
        CHECK_EQ(*(MPI_Aint *) c_##kind(other, by_function), number + 1);                      \
        CHECK(c_##kind(other, of_c) == (char *) &state + 1);                                   \
        *(MPI_Aint *) c_##kind(other, by_library) = 3;                                         \
        CHECK_EQ(fortran_##kind(object, by_library), number);                                  \
        CHECK_EQ(fortran_##kind(other, by_library), 3);                                        \
        int key = by_function;                                                                 \
        CHECK_OK(MPI_##kind##_free_keyval(&by_function));                                      \
        CHECK_OK(MPI_##kind##_free(&other));                                                   \
        CHECK(state.deletes == 1 && state.deleted == number + 1 && state.ends == 0);           \
        CHECK_OK(MPI_##kind##_delete_attr(object, key));                                       \
        CHECK(state.deletes == 2 && state.deleted == number && state.ends == 1);               \
        CHECK_OK(MPI_##kind##_delete_attr(object, by_library));                                \
        CHECK_OK(MPI_##kind##_delete_attr(object, of_c));                                      \
        CHECK_OK(MPI_##kind##_free_keyval(&by_library));                                       \
        CHECK_OK(MPI_##kind##_free_keyval(&of_c));                                             \
        CHECK_EQ(state.ends, 1);                                                               \
    }

COPIES(Comm, MPI_Comm, MPI_Comm_dup, MPI_COMM_DUP_FN)
COPIES(Type, MPI_Datatype, MPI_Type_dup, MPI_TYPE_DUP_FN)

static void predefined_comm(void)
{
    static const int keys[] = {MPI_TAG_UB, MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_LASTUSEDCODE, MPI_UNIVERSE_SIZE};
    int added;
    CHECK_OK(MPI_Add_error_class(&added));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        CHECK_EQ(fortran_Comm(MPI_COMM_WORLD, keys[i]), *(int *) c_Comm(MPI_COMM_WORLD, keys[i]));
    CHECK_EQ(fortran_Comm(MPI_COMM_WORLD, MPI_HOST), MPI_PROC_NULL);
    CHECK_EQ(fortran_Comm(MPI_COMM_WORLD, MPI_LASTUSEDCODE), added);
    CHECK_CLASS(MPIX_Comm_set_attr_as_fortran(MPI_COMM_WORLD, MPIX_MCA_COLL, NULL), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPIX_Comm_set_attr_as_fortran(MPI_COMM_WORLD, MPIX_COLL_BASE_ASSOCIATIVE, NULL), MPI_ERR_KEYVAL);
}

static void predefined_win(MPI_Win win, void *base)
{
    CHECK_EQ(fortran_Win(win, MPI_WIN_BASE), (intptr_t) base);
    CHECK_EQ(fortran_Win(win, MPI_WIN_SIZE), 64);
    CHECK_EQ(fortran_Win(win, MPI_WIN_DISP_UNIT), 8);
    CHECK_EQ(fortran_Win(win, MPI_WIN_CREATE_FLAVOR), MPI_WIN_FLAVOR_CREATE);
    CHECK_EQ(fortran_Win(win, MPI_WIN_MODEL), *(int *) c_Win(win, MPI_WIN_MODEL));
}

/* A key without attributes ends when it is freed. */
static void unused_key(void)
{
    int ends = 0, key;
    CHECK_OK(MPIX_Win_create_keyval_x(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, count_end, &key, &ends));
    CHECK_EQ(ends, 0);
    CHECK_OK(MPI_Win_free_keyval(&key));
    CHECK_EQ(ends, 1);
}

static void ended(const struct state *state)
{
    CHECK(state->deletes == 3 && state->deleted == 5 && state->ends == 1);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int of_comm, of_type;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Win win;
    static double base[8];
    MPI_Comm_create_keyval(NULL, NULL, &of_comm, NULL);
    MPI_Type_create_keyval(NULL, NULL, &of_type, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Win_create(base, 64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);

    exchange_Comm(comm);
    exchange_Type(type);
    exchange_Win(win);
    copies_Comm(MPI_COMM_SELF);
    copies_Type(MPI_INT);
    refuse_Comm(MPI_COMM_WORLD, MPI_COMM_NULL, of_type, MPI_ERR_COMM);
    refuse_Type(type, MPI_DATATYPE_NULL, of_comm, MPI_ERR_TYPE);
    refuse_Win(win, MPI_WIN_NULL, of_comm, MPI_ERR_WIN);
    predefined_comm();
    predefined_win(win, base);
    unused_key();

    MPI_Comm_free_keyval(&of_comm);
    MPI_Type_free_keyval(&of_type);
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Comm_free(&comm));
    ended(&state_Comm);
    ended(&state_Type);
    ended(&state_Win);
    return check_end();
}
