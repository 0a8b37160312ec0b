// ranks: 1 2
// transports: one
/* Names of communicators. */
#include "check.h"

static void is_called(MPI_Comm comm, const char *want)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length = -1;
    memset(name, 'x', sizeof name);
    CHECK_OK(MPI_Comm_get_name(comm, name, &length));
    check_where("a name of length %d", length);
    CHECK_EQ(length, (int) strlen(want));
    CHECK(memcmp(name, want, strlen(want) + 1) == 0);
    check_where("%s", "");
}

int main(int argc, char **argv)
{
    MPI_Comm copy, other;
    char long_name[2 * MPI_MAX_OBJECT_NAME], cut[MPI_MAX_OBJECT_NAME], name[MPI_MAX_OBJECT_NAME];
    int length;
    check_begin(&argc, &argv);
    return_errors();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    is_called(MPI_COMM_WORLD, "MPI_COMM_WORLD");
    is_called(MPI_COMM_SELF, "MPI_COMM_SELF");
    is_called(MPI_COMM_NULL, "MPI_COMM_NULL");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    is_called(copy, "");
    CHECK_OK(MPI_Comm_set_name(copy, " left half "));
    is_called(copy, " left half ");
    CHECK_OK(MPI_Comm_dup(copy, &other));
    is_called(other, "");
    CHECK_OK(MPI_Comm_free(&other));
    CHECK_OK(MPI_Comm_set_name(copy, ""));
    is_called(copy, "");
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = 0;
    memcpy(cut, long_name, sizeof cut);
    cut[sizeof cut - 1] = 0;
    CHECK_OK(MPI_Comm_set_name(copy, long_name));
    is_called(copy, cut);
    CHECK_OK(MPI_Comm_set_name(MPI_COMM_WORLD, "everybody"));
    is_called(MPI_COMM_WORLD, "everybody");
    CHECK_CLASS(MPI_Comm_set_name(copy, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_get_name(copy, NULL, &length), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_get_name(copy, name, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_set_name(MPI_COMM_NULL, "nobody"), MPI_ERR_COMM);
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Pcontrol(1));
    CHECK_OK(MPI_Pcontrol(2, "more", 3.5));
    return check_end();
}
