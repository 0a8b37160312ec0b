/* mpi_compat.h: names that older programs use and that MPI does not have any more.
 *
 * 'mpicc -mpi-compat' includes it after mpi.h; a program may include it itself. All of it is source: each function is a
 * few words of C around functions of MPI-5.0, so a program that uses it runs with any library of the same interface.
 *
 * They are what MPI-3.0 removed from MPI-1: MPI_Address, MPI_Type_struct, MPI_Type_extent, MPI_Errhandler_set and so on.
 *
 * MPI_UB and MPI_LB cannot be had: no datatype of MPI-5.0 behaves like them. MPI_Type_create_resized does their work.
 */
#ifndef OXMPI_MPI_COMPAT_H
#define OXMPI_MPI_COMPAT_H

#include "mpi.h"

#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define OXMPI_COMPAT static inline
#elif defined(__GNUC__)
#define OXMPI_COMPAT static __inline__
#else
#define OXMPI_COMPAT static
#endif

/* Addresses and datatypes of MPI-1. */

OXMPI_COMPAT int MPI_Address(void *location, MPI_Aint *address)
{
    return MPI_Get_address(location, address);
}

OXMPI_COMPAT int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype,
                                  MPI_Datatype *newtype)
{
    return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}

OXMPI_COMPAT int MPI_Type_hindexed(int count, int *blocklengths, MPI_Aint *displacements, MPI_Datatype oldtype,
                                   MPI_Datatype *newtype)
{
    return MPI_Type_create_hindexed(count, blocklengths, displacements, oldtype, newtype);
}

OXMPI_COMPAT int MPI_Type_struct(int count, int *blocklengths, MPI_Aint *displacements, MPI_Datatype *types,
                                 MPI_Datatype *newtype)
{
    return MPI_Type_create_struct(count, blocklengths, displacements, types, newtype);
}

OXMPI_COMPAT int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
}

OXMPI_COMPAT int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
}

OXMPI_COMPAT int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint lb, extent;
    int error = MPI_Type_get_extent(datatype, &lb, &extent);
    if (error == MPI_SUCCESS)
        *displacement = lb + extent;
    return error;
}

/* Error handlers of MPI-1. */

typedef MPI_Comm_errhandler_function MPI_Handler_function;

OXMPI_COMPAT int MPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *errhandler)
{
    return MPI_Comm_create_errhandler(function, errhandler);
}

OXMPI_COMPAT int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return MPI_Comm_set_errhandler(comm, errhandler);
}

OXMPI_COMPAT int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return MPI_Comm_get_errhandler(comm, errhandler);
}

/* A program that names these is told what to do by the compiler's complaint. */
#define MPI_UB MPI_UB_was_removed_from_MPI__use_MPI_Type_create_resized
#define MPI_LB MPI_LB_was_removed_from_MPI__use_MPI_Type_create_resized

#undef OXMPI_COMPAT

#endif
