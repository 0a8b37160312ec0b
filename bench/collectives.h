/* Collectives, for p2p.c. The blocks of all ranks leave from `out` and arrive in `in`; reductions
 * add doubles.
 *
 * A figure is the time of one call, back to back with the next. The root changes with each call,
 * and prefix reductions alternate between two communicators, one with the ranks in reverse
 * order, so that no rank is always the one that does not wait. `bytes` is the length of one
 * rank's block, or of the vector of a broadcast or reduction. */
#ifndef COLLECTIVES_H
#define COLLECTIVES_H

static MPI_Comm turned = MPI_COMM_NULL; /* the ranks in the reverse order */
static int block;                       /* bytes */

#define COLLECTIVE(name, call)                                                 \
    static void repeat_##name(long repeats)                                    \
    {                                                                          \
        int doubles = block / (int)sizeof(double);                             \
        MPI_Request request = MPI_REQUEST_NULL;                                \
        for (long i = 0; i < repeats; i++) {                                   \
            int root = (int)(i % ranks);                                       \
            MPI_Comm comm = i & 1 ? turned : WORLD;                            \
            (void)doubles, (void)root, (void)comm, (void)request;              \
            call;                                                              \
        }                                                                      \
    }

COLLECTIVE(barrier, MPI_Barrier(WORLD))
COLLECTIVE(bcast, MPI_Bcast(out, block, MPI_BYTE, root, WORLD))
COLLECTIVE(gather, MPI_Gather(out, block, MPI_BYTE, in, block, MPI_BYTE, root, WORLD))
COLLECTIVE(scatter, MPI_Scatter(out, block, MPI_BYTE, in, block, MPI_BYTE, root, WORLD))
COLLECTIVE(allgather, MPI_Allgather(out, block, MPI_BYTE, in, block, MPI_BYTE, WORLD))
COLLECTIVE(alltoall, MPI_Alltoall(out, block, MPI_BYTE, in, block, MPI_BYTE, WORLD))
COLLECTIVE(reduce, MPI_Reduce(out, in, doubles, MPI_DOUBLE, MPI_SUM, root, WORLD))
COLLECTIVE(allreduce, MPI_Allreduce(out, in, doubles, MPI_DOUBLE, MPI_SUM, WORLD))
COLLECTIVE(reduce_scatter, MPI_Reduce_scatter_block(out, in, doubles, MPI_DOUBLE, MPI_SUM, WORLD))
COLLECTIVE(scan, MPI_Scan(out, in, doubles, MPI_DOUBLE, MPI_SUM, comm))
COLLECTIVE(exscan, MPI_Exscan(out, in, doubles, MPI_DOUBLE, MPI_SUM, comm))
COLLECTIVE(ibarrier, (MPI_Ibarrier(WORLD, &request), MPI_Wait(&request, IGNORE)))
COLLECTIVE(iallreduce,
           (MPI_Iallreduce(out, in, doubles, MPI_DOUBLE, MPI_SUM, WORLD, &request), MPI_Wait(&request, IGNORE)))

static const struct {
    const char *name;
    work *repeat;
    int has_size;
} collectives_of[] = {
    {"barrier", repeat_barrier, 0},
    {"bcast", repeat_bcast, 1},
    {"gather", repeat_gather, 1},
    {"scatter", repeat_scatter, 1},
    {"allgather", repeat_allgather, 1},
    {"alltoall", repeat_alltoall, 1},
    {"reduce", repeat_reduce, 1},
    {"allreduce", repeat_allreduce, 1},
    {"reduce_scatter_block", repeat_reduce_scatter, 1},
    {"scan", repeat_scan, 1},
    {"exscan", repeat_exscan, 1},
    {"ibarrier", repeat_ibarrier, 0},
    {"iallreduce", repeat_iallreduce, 1},
};

/* Sizes that are no number of doubles are left out. */
static void collectives(const size_t *sizes, int count)
{
    memset(out, 0, (size_t)ranks * MOST_BLOCK);
    MPI_Comm_split(WORLD, 0, -rank, &turned);
    for (size_t c = 0; c < sizeof collectives_of / sizeof *collectives_of; c++)
        for (int i = 0; i < (collectives_of[c].has_size ? count : 1); i++) {
            size_t bytes = collectives_of[c].has_size ? sizes[i] : 0;
            if (collectives_of[c].has_size && (bytes == 0 || bytes > MOST_BLOCK || bytes % sizeof(double)))
                continue;
            block = (int)bytes;
            measure(collectives_of[c].repeat, &(struct measure){collectives_of[c].name, "us", bytes, 1, 0});
        }
    MPI_Comm_free(&turned);
}

#endif
