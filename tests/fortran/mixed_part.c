/* The C part of mixed.f90. */
#include <mpi.h>
#include <stdio.h>

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
    return faults;
}
