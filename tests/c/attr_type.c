// ranks: 1 2
// transports: one
/* Attributes of datatypes: copied by MPI_Type_dup alone, deleted by MPI_Type_free, and possible
 * on predefined ones. */
#include "check.h"

static int copies = 0, deletions = 0, fail_copy = 0, fail_delete = 0;

static void *as_value(int n)
{
    return (void *) (intptr_t) n;
}

static int copy(MPI_Datatype type, int keyval, void *extra, void *in, void *out, int *flag)
{
    int bytes = -1;
    (void) keyval;
    copies++;
    CHECK(extra == &copies);
    CHECK_OK(MPI_Type_size(type, &bytes));
    CHECK_EQ(bytes, 12);
    *flag = 1;
    *(void **) out = (char *) in + 1;
    return fail_copy ? MPI_ERR_IO : MPI_SUCCESS;
}

static int delete(MPI_Datatype type, int keyval, void *value, void *extra)
{
    (void) type;
    (void) keyval;
    (void) value;
    CHECK(extra == &copies);
    deletions++;
    return fail_delete ? 4711 : MPI_SUCCESS; /* not an error code: the call gives MPI_ERR_OTHER */
}

static int value_of(MPI_Datatype type, int keyval)
{
    void *value = NULL;
    int flag = -1;
    CHECK_OK(MPI_Type_get_attr(type, keyval, &value, &flag));
    return flag ? (int) (intptr_t) value : -1;
}

int main(int argc, char **argv)
{
    int keyval, comms;
    MPI_Datatype type, second, derived, kept;
    check_begin(&argc, &argv);
    return_errors();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Type_create_keyval(copy, delete, &keyval, &copies));
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK_OK(MPI_Type_set_attr(type, keyval, as_value(10)));
    CHECK_EQ(value_of(type, keyval), 10);
    CHECK_OK(MPI_Type_dup(type, &second));
    CHECK_EQ(copies, 1);
    CHECK_EQ(value_of(second, keyval), 11);
    CHECK_OK(MPI_Type_contiguous(2, type, &derived));
    CHECK_EQ(copies, 1);
    CHECK_EQ(value_of(derived, keyval), -1);
    CHECK_OK(MPI_Type_set_attr(second, keyval, as_value(20)));
    CHECK_EQ(deletions, 1);
    CHECK_OK(MPI_Type_free(&second));
    CHECK_EQ(deletions, 2);
    CHECK_OK(MPI_Type_free(&derived));
    CHECK_EQ(deletions, 2);

    fail_copy = 1;
    second = MPI_DATATYPE_NULL;
    CHECK_CLASS(MPI_Type_dup(type, &second), MPI_ERR_IO);
    CHECK(second == MPI_DATATYPE_NULL);
    fail_copy = 0;
    kept = type;
    fail_delete = 1;
    CHECK_CLASS(MPI_Type_free(&type), MPI_ERR_OTHER);
    CHECK(type == kept);
    CHECK_CLASS(MPI_Type_delete_attr(type, keyval), MPI_ERR_OTHER);
    fail_delete = 0;
    CHECK_EQ(value_of(type, keyval), 10);
    CHECK_OK(MPI_Type_delete_attr(type, keyval));
    CHECK_EQ(value_of(type, keyval), -1);
    CHECK_CLASS(MPI_Type_delete_attr(type, keyval), MPI_ERR_KEYVAL);
    deletions = 0;
    CHECK_OK(MPI_Type_free(&type));
    CHECK_EQ(deletions, 0);

    CHECK_OK(MPI_Type_set_attr(MPI_INT, keyval, as_value(5)));
    CHECK_EQ(value_of(MPI_INT, keyval), 5);
    CHECK_EQ(value_of(MPI_FLOAT, keyval), -1);
    CHECK_OK(MPI_Type_delete_attr(MPI_INT, keyval));
    CHECK_EQ(deletions, 1);

    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comms, NULL));
    CHECK_CLASS(MPI_Type_set_attr(MPI_INT, comms, NULL), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Type_set_attr(MPI_INT, MPI_TAG_UB, NULL), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Type_set_attr(MPI_DATATYPE_NULL, keyval, NULL), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_free_keyval(&comms), MPI_ERR_KEYVAL);
    CHECK_OK(MPI_Comm_free_keyval(&comms));
    CHECK_OK(MPI_Type_free_keyval(&keyval));
    int windows;
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &windows, NULL));
    CHECK_CLASS(MPI_Type_free_keyval(&windows), MPI_ERR_KEYVAL);
    CHECK_OK(MPI_Win_free_keyval(&windows));
    CHECK_EQ(windows, MPI_KEYVAL_INVALID);
    return check_end();
}
