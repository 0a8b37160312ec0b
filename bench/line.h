/* The distance of two cores: the time of a cache line from one to the other.
 *
 * The host of a virtual machine may move its cores. Sometimes they share a cache, sometimes not,
 * and all data between them then take three times as long or more. So the line is sent to and
 * fro before and after each figure (`line=` in figures.h). */
#ifndef LINE_H
#define LINE_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* The time is the median of this number of parts, as another process may interrupt one, and the
 * first warms up. */
#define LINE_PARTS 9
#define LINE_TRIPS 40
/* The most us of a line between cores that share a cache, and the least between others
 * (xtask/src/bench/distance.rs has the reasons). */
#define NEAR_BELOW 0.12
#define FAR_ABOVE 0.15

struct lines {
    _Alignas(128) _Atomic uint64_t there;
    _Alignas(128) _Atomic uint64_t back;
};

static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static inline int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void await(_Atomic uint64_t *flag, uint64_t value)
{
    while (atomic_load_explicit(flag, memory_order_acquire) != value)
        relax();
}

static inline void set(_Atomic uint64_t *flag, uint64_t value)
{
    atomic_store_explicit(flag, value, memory_order_release);
}

static inline uint64_t next_turn(void)
{
    static uint64_t turn;
    return ++turn;
}

/* One round trip. `first` begins. */
static inline void line_trip(struct lines *lines, int first)
{
    uint64_t turn = next_turn();
    if (first)
        set(&lines->there, turn);
    await(first ? &lines->back : &lines->there, turn);
    if (!first)
        set(&lines->back, turn);
}

/* Seconds of a line on its way to the other core. Both processes call it at the same time, on
 * different cores. */
static inline double line_seconds(struct lines *lines, int first)
{
    double parts[LINE_PARTS];
    for (int part = 0; part < LINE_PARTS; part++) {
        double begin = now();
        for (int trip = 0; trip < LINE_TRIPS; trip++)
            line_trip(lines, first);
        parts[part] = (now() - begin) / (2 * LINE_TRIPS);
    }
    qsort(parts, LINE_PARTS, sizeof *parts, ascending);
    return parts[LINE_PARTS / 2];
}

/* The place of the two cores, from the seconds of a line before and after a figure. */
static inline const char *place_of_cores(const double *lines)
{
    double before = lines[0] * 1e6, after = lines[1] * 1e6;
    if (before < NEAR_BELOW && after < NEAR_BELOW)
        return "near";
    return before > FAR_ABOVE && after > FAR_ABOVE ? "far" : "between";
}

#endif
