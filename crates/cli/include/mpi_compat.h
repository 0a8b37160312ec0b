/* mpi_compat.h: names that older programs use and that MPI-5.0's binary interface does not have.
 *
 * 'mpicc -mpi-compat' includes it after mpi.h; a program may include it itself. All of it is source: each function is a
 * few words of C around functions of MPI-5.0, so a program that uses it runs with any library of the same interface.
 *
 *   - the integer handles of Fortran: MPI_Fint, MPI_Comm_c2f, MPI_Comm_f2c and their relatives;
 *   - what MPI-3.0 removed from MPI-1: MPI_Address, MPI_Type_struct, MPI_Type_extent, MPI_Errhandler_set and so on.
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

/* Integer handles of Fortran. */

typedef int MPI_Fint;

#define OXMPI_COMPAT_HANDLE(Kind) \
    OXMPI_COMPAT MPI_Fint Kind##_c2f(Kind handle) { return Kind##_toint(handle); } \
    OXMPI_COMPAT Kind Kind##_f2c(MPI_Fint handle) { return Kind##_fromint(handle); }

OXMPI_COMPAT_HANDLE(MPI_Comm)
OXMPI_COMPAT_HANDLE(MPI_Errhandler)
OXMPI_COMPAT_HANDLE(MPI_File)
OXMPI_COMPAT_HANDLE(MPI_Group)
OXMPI_COMPAT_HANDLE(MPI_Info)
OXMPI_COMPAT_HANDLE(MPI_Message)
OXMPI_COMPAT_HANDLE(MPI_Op)
OXMPI_COMPAT_HANDLE(MPI_Request)
OXMPI_COMPAT_HANDLE(MPI_Session)
OXMPI_COMPAT_HANDLE(MPI_Win)
#undef OXMPI_COMPAT_HANDLE

OXMPI_COMPAT MPI_Fint MPI_Type_c2f(MPI_Datatype datatype) { return MPI_Type_toint(datatype); }
OXMPI_COMPAT MPI_Datatype MPI_Type_f2c(MPI_Fint datatype) { return MPI_Type_fromint(datatype); }

/* A status of Fortran is the same eight integers in the same order. */

OXMPI_COMPAT int MPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status)
{
    int i;
    f_status[0] = c_status->MPI_SOURCE;
    f_status[1] = c_status->MPI_TAG;
    f_status[2] = c_status->MPI_ERROR;
    for (i = 0; i < 5; i++)
        f_status[3 + i] = c_status->MPI_internal[i];
    return MPI_SUCCESS;
}

OXMPI_COMPAT int MPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status)
{
    int i;
    c_status->MPI_SOURCE = f_status[0];
    c_status->MPI_TAG = f_status[1];
    c_status->MPI_ERROR = f_status[2];
    for (i = 0; i < 5; i++)
        c_status->MPI_internal[i] = f_status[3 + i];
    return MPI_SUCCESS;
}

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
