// ranks: 1
// transports: one
/* The settings of a Fortran layer are returned to other callers; contradictions are refused.
 * Works before MPI_Init. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Info info = MPI_INFO_ENV, got = MPI_INFO_NULL;
    char value[16] = "";
    int flag = 0, length = sizeof value, is_set = 7;
    int yes = -1, no = 5, yes_got = 0, no_got = 0;
    rank = 0, size = 1;
    CHECK_OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info == MPI_INFO_NULL);
    CHECK_OK(MPI_Abi_get_fortran_booleans(4, &yes_got, &no_got, &is_set));
    CHECK_EQ(is_set, 0);

    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_logical_size", "3");
    CHECK_CLASS(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI);
    MPI_Info_set(info, "mpi_logical_size", "4");
    MPI_Info_set(info, "mpi_integer8_supported", "true");
    CHECK_OK(MPI_Abi_set_fortran_info(info));
    CHECK_OK(MPI_Abi_set_fortran_info(info));
    MPI_Info_set(info, "mpi_integer8_supported", "false");
    CHECK_CLASS(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI);
    MPI_Info_free(&info);
    CHECK_OK(MPI_Abi_get_fortran_info(&got));
    CHECK_OK(MPI_Info_get_string(got, "mpi_integer8_supported", &length, value, &flag));
    CHECK(flag && !strcmp(value, "true"));
    MPI_Info_free(&got);

    CHECK_CLASS(MPI_Abi_set_fortran_booleans(3, &yes, &no), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Abi_set_fortran_booleans(4, NULL, &no), MPI_ERR_ARG);
    CHECK_OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    CHECK_OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    CHECK_CLASS(MPI_Abi_set_fortran_booleans(4, &no, &yes), MPI_ERR_ABI);
    CHECK_OK(MPI_Abi_get_fortran_booleans(4, &yes_got, &no_got, &is_set));
    CHECK_EQ(is_set, 1);
    CHECK_EQ(yes_got, -1);
    CHECK_EQ(no_got, 5);
    CHECK_OK(MPI_Abi_get_fortran_booleans(8, &yes_got, &no_got, &is_set));
    CHECK_EQ(is_set, 0);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    return check_end();
}
