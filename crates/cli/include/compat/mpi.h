/* What 'mpicc -mpi-compat' finds as mpi.h: the interface of MPI-5.0, and names that were removed from MPI. */
#ifndef OXMPI_COMPAT_MPI_H
#define OXMPI_COMPAT_MPI_H

#include "../mpi.h"
#include "../mpi_compat.h"

#endif
