// ranks: 1 2 4
// transports: one
/* Windows as objects: names, hints, groups, attributes and their functions, handles as integers. */
#include "win.h"

static int deleted, copied;

static int on_delete(MPI_Win win, int keyval, void *value, void *state)
{
    deleted += (int) (intptr_t) value;
    return state ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void hint(MPI_Win win, const char *key, const char *want)
{
    MPI_Info info;
    char value[64] = "";
    int length = sizeof value, flag = 0;
    CHECK_OK(MPI_Win_get_info(win, &info));
    CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
    CHECK(flag && strcmp(value, want) == 0);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    char name[MPI_MAX_OBJECT_NAME] = "?";
    int length = -1;
    CHECK_OK(MPI_Win_get_name(MPI_WIN_NULL, name, &length));
    CHECK(strcmp(name, "MPI_WIN_NULL") == 0 && length == 12);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "no_locks", "true");
    MPI_Info_set(info, "accumulate_ordering", "none");
    MPI_Info_set(info, "colour", "blue");
    MPI_Win win;
    void *base;
    CHECK_OK(MPI_Win_allocate(64, 1, info, MPI_COMM_WORLD, &base, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    hint(win, "no_locks", "true");
    hint(win, "accumulate_ordering", "none");
    hint(win, "accumulate_ops", "same_op_no_op");
    hint(win, "same_size", "false");
    hint(win, "mpi_minimum_memory_alignment", "64");
    MPI_Info_set(info, "no_locks", "false");
    MPI_Info_set(info, "same_size", "true");
    CHECK_OK(MPI_Win_set_info(win, info));
    hint(win, "no_locks", "false");
    hint(win, "same_size", "true");
    MPI_Info_free(&info);
    CHECK_OK(MPI_Win_get_name(win, name, &length));
    CHECK_EQ(length, 0);
    CHECK_OK(MPI_Win_set_name(win, "halo"));
    CHECK_OK(MPI_Win_get_name(win, name, &length));
    CHECK(strcmp(name, "halo") == 0 && length == 4);
    MPI_Group of_win, of_comm;
    int related;
    CHECK_OK(MPI_Win_get_group(win, &of_win));
    MPI_Comm_group(MPI_COMM_WORLD, &of_comm);
    MPI_Group_compare(of_win, of_comm, &related);
    CHECK_EQ(related, MPI_IDENT);
    MPI_Group_free(&of_win);
    MPI_Group_free(&of_comm);
    CHECK(MPI_Win_fromint(MPI_Win_toint(win)) == win);
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    int key, bad, flag = -1;
    void *value = NULL;
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL));
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_DUP_FN, on_delete, &bad, &flag));
    CHECK_OK(MPI_Win_get_attr(win, key, &value, &flag));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Win_set_attr(win, key, (void *) 3));
    CHECK_OK(MPI_Win_set_attr(win, key, (void *) 4));
    CHECK_EQ(deleted, 3);
    CHECK_OK(MPI_Win_get_attr(win, key, &value, &flag));
    CHECK(flag && value == (void *) 4);
    CHECK_OK(MPI_Win_delete_attr(win, key));
    CHECK_EQ(deleted, 7);
    CHECK_OK(MPI_Win_set_attr(win, key, (void *) 5));
    CHECK_OK(MPI_Win_set_attr(win, bad, (void *) 100));
    CHECK_CLASS(MPI_Win_set_attr(win, MPI_WIN_BASE, base), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Win_delete_attr(win, bad), MPI_ERR_OTHER);
    MPI_Win same = win;
    CHECK_CLASS(MPI_Win_free(&win), MPI_ERR_OTHER);
    CHECK(win == same);
    CHECK_OK(MPI_Win_get_attr(win, bad, &value, &flag));
    CHECK(flag && value == (void *) 100);
    CHECK_OK(MPI_Win_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Win_fence(0, win));
    MPI_Win_free_keyval(&bad);
    /* The free is refused; the window does not disturb the end. */
    return check_end();
}
