/* The C part of ignored_statuses.f90. */
#include <mpi.h>

int which_in_c(MPI_Fint *status)
{
    return status == MPI_F_STATUS_IGNORE ? 1 : status == MPI_F_STATUSES_IGNORE ? 2 : 0;
}
