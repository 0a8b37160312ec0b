// ranks: 1 2 4
// transports: one
/* Hints of communicators: known ones have an effect, unknown ones are ignored, and a dup does
 * not inherit. */
#include "check.h"

static const char *const hints[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length",
                                    "mpi_assert_allow_overtaking"};

static void in_force(MPI_Comm comm, unsigned want, const char *which)
{
    MPI_Info info;
    int keys = -1;
    CHECK_OK(MPI_Comm_get_info(comm, &info));
    CHECK_OK(MPI_Info_get_nkeys(info, &keys));
    CHECK_EQ(keys, 4);
    for (int i = 0; i < 4; i++) {
        char value[16] = "";
        int flag = -1, length = sizeof value;
        check_where("%s, %s", which, hints[i]);
        CHECK_OK(MPI_Info_get_string(info, hints[i], &length, value, &flag));
        CHECK_EQ(flag, 1);
        CHECK(strcmp(value, want >> i & 1 ? "true" : "false") == 0);
    }
    check_where("%s", "");
    CHECK_OK(MPI_Info_set(info, hints[0], "true"));
    CHECK_OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    MPI_Info info;
    MPI_Comm copy, other;
    check_begin(&argc, &argv);
    return_errors();
    in_force(MPI_COMM_WORLD, 0, "world");
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, hints[1], "true"));
    CHECK_OK(MPI_Info_set(info, hints[3], "true"));
    CHECK_OK(MPI_Info_set(info, hints[2], "perhaps"));
    CHECK_OK(MPI_Info_set(info, "of somebody else", "true"));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    in_force(copy, 0, "dup");
    CHECK_OK(MPI_Comm_set_info(copy, info));
    in_force(copy, 2 + 8, "after set_info");
    in_force(MPI_COMM_WORLD, 0, "world after set_info of a dup");

    CHECK_OK(MPI_Info_delete(info, hints[1]));
    CHECK_OK(MPI_Info_set(info, hints[3], "false"));
    CHECK_OK(MPI_Info_set(info, hints[0], "true"));
    CHECK_OK(MPI_Comm_set_info(copy, info));
    in_force(copy, 1 + 2, "after a second set_info");
    CHECK_OK(MPI_Comm_set_info(copy, MPI_INFO_NULL));
    in_force(copy, 1 + 2, "after MPI_INFO_NULL");

    CHECK_OK(MPI_Comm_dup(copy, &other));
    in_force(other, 0, "dup of a communicator with hints");
    CHECK_OK(MPI_Comm_free(&other));
    CHECK_OK(MPI_Info_set(info, hints[2], "true"));
    CHECK_OK(MPI_Comm_dup_with_info(copy, info, &other));
    in_force(other, 1 + 4, "dup_with_info");
    CHECK_OK(MPI_Comm_free(&other));
    CHECK_OK(MPI_Comm_dup_with_info(copy, MPI_INFO_NULL, &other));
    in_force(other, 0, "dup_with_info of MPI_INFO_NULL");
    int sum = -1;
    CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, other));
    CHECK_EQ(sum, size * (size - 1) / 2);
    CHECK_OK(MPI_Comm_free(&other));

    MPI_Info stale = info;
    CHECK_OK(MPI_Info_free(&info));
    other = MPI_COMM_NULL;
    if (rank == 0) {
        CHECK_CLASS(MPI_Comm_dup_with_info(MPI_COMM_WORLD, stale, &other), MPI_ERR_INFO);
        CHECK(other == MPI_COMM_NULL);
        CHECK_CLASS(MPI_Comm_set_info(MPI_COMM_WORLD, stale), MPI_ERR_INFO);
    } else {
        CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &other));
        CHECK_OK(MPI_Comm_free(&other));
    }
    CHECK_CLASS(MPI_Comm_get_info(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Comm_free(&copy));
    return check_end();
}
