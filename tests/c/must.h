/* For programs that cannot continue after a failure, or that initialise and finalise MPI
 * themselves: the first failure ends the job. All others use check.h, which counts failures. */
#ifndef MUST_H
#define MUST_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #condition);       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                             \
            exit(1); /* no MPI_COMM_WORLD */                                          \
        }                                                                             \
    } while (0)

#endif
