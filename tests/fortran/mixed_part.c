/* The C part of mixed.f90. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#ifdef MPI_ABI_VERSION
/* The library for Fortran has told the sizes of its types, and what a LOGICAL looks like. */
static int ask_for_types(void)
{
    MPI_Info info = MPI_INFO_NULL;
    char size[8] = "";
    int length = sizeof size, flag = 0, yes = 0, no = 7;
    MPI_Abi_get_fortran_booleans(4, &yes, &no, &flag);
    if (!flag || !(yes & 1) || no != 0) {
        printf("C does not get the values of a LOGICAL\n");
        return 1;
    }
    MPI_Abi_get_fortran_info(&info);
    if (info != MPI_INFO_NULL) {
        MPI_Info_get_string(info, "mpi_double_precision_size", &length, size, &flag);
        MPI_Info_free(&info);
    }
    if (strcmp(size, "8")) {
        printf("C does not get the sizes of Fortran's types\n");
        return 1;
    }
    return 0;
}
#endif

int in_c(MPI_Fint comm, MPI_Fint key_of_fortran, MPI_Fint *key_of_c)
{
    MPI_Comm c_comm = MPI_Comm_f2c(comm);
    MPI_Aint *value = NULL;
    int flag = 0, faults = 0, result;
    MPI_Comm_compare(c_comm, MPI_COMM_WORLD, &result);
    if (result != MPI_CONGRUENT) {
        printf("the handle is another one\n");
        faults++;
    }
    MPI_Comm_get_attr(c_comm, key_of_fortran, &value, &flag);
    if (!flag || *value != -123456789012) {
        printf("C does not get the attribute of Fortran\n");
        faults++;
    }
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key_of_c, NULL);
    MPI_Comm_set_attr(c_comm, *key_of_c, (void *)4711);
#ifdef MPI_ABI_VERSION
    faults += ask_for_types();
#endif
    return faults;
}
