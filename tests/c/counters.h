/* Counters that all ranks of a node share without MPI, for programs in which a rank computes,
 * without calls of MPI, until another rank has done something. They show the order of two events
 * independent of their duration. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include "check.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { COUNTERS = 64 };

static atomic_int *counters;

/* Collective. */
static inline void counters_open(void)
{
    char name[64] = "/tmp/oxmpi-counters-XXXXXX";
    size_t bytes = COUNTERS * sizeof *counters;
    if (rank == 0) {
        int file = mkstemp(name);
        if (file < 0 || ftruncate(file, (off_t) bytes) != 0) name[0] = 0;
        if (file >= 0) close(file);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    int file = open(name, O_RDWR);
    if (!CHECK(file >= 0)) MPI_Abort(MPI_COMM_WORLD, 1);
    counters = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) unlink(name);
    if (!CHECK(counters != MAP_FAILED)) MPI_Abort(MPI_COMM_WORLD, 1);
}

static inline void counter_add(int which)
{
    atomic_fetch_add(&counters[which], 1);
}

/* Computes until the counter is at least `value`. A longer wait than `limit_s` seconds is a
 * failure. */
static inline int compute_until(int which, int value, double limit_s)
{
    double end = MPI_Wtime() + limit_s;
    while (atomic_load(&counters[which]) < value && MPI_Wtime() < end) sched_yield();
    return CHECK(atomic_load(&counters[which]) >= value);
}

#endif
