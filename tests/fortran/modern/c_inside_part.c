/* The C part of c_inside.f90. */
#include <mpi.h>

/* Broadcasts the values of the first rank, and returns the rank. */
int sum_in_c(int comm, int datatype, double *values, int count)
{
    MPI_Comm c_comm = MPI_Comm_fromint(comm);
    int rank = -1;
    MPI_Comm_rank(c_comm, &rank);
    MPI_Bcast(values, count, MPI_Type_fromint(datatype), 0, c_comm);
    return rank;
}
