/* For programs in which nothing that follows a failure makes sense, or that begin and end MPI in ways of their own: the first
 * failure ends the job. All others use check.h, which counts failures. */
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
            exit(1); /* without a world */                                            \
        }                                                                             \
    } while (0)

#endif
