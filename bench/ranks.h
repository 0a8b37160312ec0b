/* Common parts of the benchmark programs with MPI: ranks in pairs, and points that all ranks
 * measure together.
 *
 * Rank r exchanges messages with rank r + n/2, all pairs at once. The time of a batch is that of
 * its slowest rank. Lines: figures.h. */
#ifndef RANKS_H
#define RANKS_H

#include <mpi.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "figures.h"

#define WORLD MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE

static int rank, ranks;
static int partner = MPI_PROC_NULL; /* none for the last of an odd number of ranks */
static int is_first;                /* of its pair */
static double point_seconds = 30e-3;

typedef void work(long repeats);

static double batch(work *work, long repeats)
{
    MPI_Barrier(WORLD);
    double begin = now();
    work(repeats);
    return now() - begin;
}

/* ---- the line between two cores ---- */

/* Memory that two bound ranks share outside the library under test, or NULL. */
static struct lines *lines;

/* Maps the lines of `file`; NULL if it has none. */
static struct lines *map_lines(int file)
{
    struct stat status;
    if (file < 0 || fstat(file, &status) || status.st_size != sizeof(struct lines))
        return NULL;
    void *memory = mmap(NULL, sizeof(struct lines), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Rank 0 makes a file without a name, and rank 1 opens it by its number in rank 0's process. On
 * another machine this number is another file or none: then the mark is missing, and there are
 * no lines. On one core there are none either, as each rank would wait for the other's time
 * slice. */
static void share_lines(void)
{
    struct {
        uint64_t mark;
        long process;
        int file, core;
    } place = {0, 0, -1, -1};
    int there;
    if (rank == 0) {
        place.file = memfd_create("lines", MFD_CLOEXEC);
        if (place.file >= 0 && !ftruncate(place.file, sizeof(struct lines)))
            lines = map_lines(place.file);
        place.process = getpid();
        place.core = sched_getcpu();
        place.mark = (uint64_t)(now() * 1e9) + (uint64_t)place.process;
        if (lines)
            set(&lines->there, place.mark);
    }
    MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, WORLD);
    if (rank == 1) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%ld/fd/%d", place.process, place.file);
        int file = open(path, O_RDWR | O_CLOEXEC);
        lines = map_lines(file);
        if (file >= 0)
            close(file);
    }
    int mine = lines && atomic_load(&lines->there) == place.mark && (rank == 0 || sched_getcpu() != place.core);
    MPI_Allreduce(&mine, &there, 1, MPI_INT, MPI_MIN, WORLD);
    if (place.file >= 0 && rank == 0)
        close(place.file);
    if (lines && !there) {
        munmap(lines, sizeof *lines);
        lines = NULL;
    }
    if (lines && rank == 0)
        set(&lines->there, 0); /* rank 1 has seen it, and polls again after a barrier */
}

static double line_now(void)
{
    if (!lines)
        return 0;
    MPI_Barrier(WORLD);
    return line_seconds(lines, rank == 0);
}

/* ---- for the programs ---- */

static void begin_ranks(int pinned)
{
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &ranks);
    is_first = rank < ranks / 2;
    if (rank < ranks / 2 * 2)
        partner = is_first ? rank + ranks / 2 : rank - ranks / 2;
    if (pinned && pin(rank) > 0 && ranks == 2)
        share_lines();
}

static void measure(work *work, const struct measure *what)
{
    static double mine[MOST_BATCHES], slowest[MOST_BATCHES];
    double line[2] = {line_now()}; /* before and after */
    long repeats = 1;
    double took[2]; /* rank 0's batch, without and with its barrier; rank 0 decides for all */
    batch(work, 1); /* first contact, first touch */
    for (;;) {
        double begin = now();
        took[0] = batch(work, repeats);
        took[1] = now() - begin;
        MPI_Bcast(took, 2, MPI_DOUBLE, 0, WORLD);
        if (took[0] >= BATCH_SECONDS || repeats >= MOST_REPEATS)
            break;
        repeats *= 2;
    }
    int batches = how_many_batches(point_seconds, took[1]);
    for (int i = 0; i < batches; i++)
        mine[i] = batch(work, repeats) / (double)repeats;
    line[1] = line_now();
    MPI_Reduce(mine, slowest, batches, MPI_DOUBLE, MPI_MAX, 0, WORLD);
    if (rank == 0)
        print_point(what, ranks, NULL, lines ? line : NULL, slowest, batches);
}

static void version(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(text, &length);
    if (rank == 0)
        printf("version %.*s\n", (int)strcspn(text, "\n"), text);
}

#endif
