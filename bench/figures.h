/* Common parts of the benchmark programs: sizes, pinning, batches and the line that reports a
 * figure.
 *
 * A figure is measured in batches. The number of repeats in a batch doubles until a batch takes
 * BATCH_SECONDS, which also warms everything up; then as many batches run as fit into the time of a
 * point. The figure is the median over the batches. Its line is
 *
 *     point test=latency ranks=2 bytes=8 unit=us median=0.31 least=0.30 most=0.42
 *           line=0.061,0.063 cores=near
 *
 * in one line. least and most are over the batches, in the order of the unit. line: the us that
 * a cache line took to the other core before and after the figure, if two processes are bound to
 * two cores (line.h). cores: near if these share a cache, far if they do not, between if the
 * host has moved them meanwhile. Units: us (microseconds), MB/s (10^6 bytes a second), M/s (10^6
 * messages a second), MiB. */
#ifndef FIGURES_H
#define FIGURES_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "line.h"

#define BATCH_SECONDS 400e-6
#define LEAST_BATCHES 5
#define MOST_BATCHES 400
#define MOST_REPEATS (1L << 24)
#define MOST_BYTES ((size_t)4 << 20)
/* Messages in flight in the bandwidth tests, each with its own buffer. A window has at most
 * WINDOW_BYTES, so above 1 MiB there are fewer messages. */
#define WINDOW 64
#define WINDOW_BYTES ((size_t)64 << 20)

static inline size_t window_of(size_t bytes)
{
    return bytes * WINDOW > WINDOW_BYTES ? WINDOW_BYTES / bytes : WINDOW;
}

/* A figure is seconds / parts for a time, or amount / seconds for a rate. */
struct measure {
    const char *test, *unit;
    size_t bytes;
    double parts; /* repeats of a time in us within one measured repeat */
    double amount; /* bytes or messages of one repeat of a rate; 0 for a time */
};

/* Binds the process to one of its allowed cores (`index` modulo their number). Returns their
 * number. */
static inline int pin(int index)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return 0;
    int cores = CPU_COUNT(&allowed), wanted = index % cores;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && wanted-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
    return cores;
}

static inline int how_many_batches(double point_seconds, double batch_seconds)
{
    double fit = point_seconds / batch_seconds;
    return fit < LEAST_BATCHES ? LEAST_BATCHES : fit > MOST_BATCHES ? MOST_BATCHES : (int)fit;
}

static inline double figure_of(const struct measure *what, double seconds)
{
    return what->amount > 0 ? what->amount / seconds * 1e-6 : seconds / what->parts * 1e6;
}

/* Prints a point. `by` names the path of the data, `lines` has the seconds of a line before and
 * after; either may be NULL. Sorts `seconds`, the seconds of one repeat in each batch. */
static inline void print_point(const struct measure *what, int ranks, const char *by, const double *lines,
                               double *seconds, int batches)
{
    qsort(seconds, (size_t)batches, sizeof *seconds, ascending);
    double middle = (seconds[batches / 2] + seconds[(batches - 1) / 2]) / 2;
    double shortest = figure_of(what, seconds[0]), longest = figure_of(what, seconds[batches - 1]);
    printf("point test=%s ranks=%d bytes=%zu unit=%s median=%.6g least=%.6g most=%.6g%s%s", what->test, ranks,
           what->bytes, what->unit, figure_of(what, middle), shortest < longest ? shortest : longest,
           shortest < longest ? longest : shortest, by ? " by=" : "", by ? by : "");
    if (lines)
        printf(" line=%.4g,%.4g cores=%s", lines[0] * 1e6, lines[1] * 1e6, place_of_cores(lines));
    printf("\n");
    fflush(stdout);
}

/* Parses "8,1024". Returns the number of sizes, or -1 if the text is no list of sizes up to
 * MOST_BYTES. */
static inline int read_sizes(const char *text, size_t *sizes, int room)
{
    int count = 0;
    for (;;) {
        char *end;
        size_t size = strtoul(text, &end, 10);
        if (end == text || size > MOST_BYTES || count == room)
            return -1;
        sizes[count++] = size;
        if (*end == '\0')
            return count;
        if (*end != ',')
            return -1;
        text = end + 1;
    }
}

static inline int all_sizes(size_t *sizes)
{
    int count = 0;
    sizes[count++] = 0;
    for (size_t size = 1; size <= MOST_BYTES; size *= 2)
        sizes[count++] = size;
    return count;
}

#endif
