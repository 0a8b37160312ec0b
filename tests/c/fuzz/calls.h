/* Random arguments for crates/cli/tests/command_line/fuzz_calls.rs, which makes a calling function
 * for each function of the interface.
 *
 * The rules of memory: a pointer is valid, with more room than the largest random count needs,
 * or it is null, if null is valid or is detected. Handles are anything: valid, null, freed
 * before, or no handle at all. */
#ifndef FUZZ_CALLS_H
#define FUZZ_CALLS_H

#define _GNU_SOURCE
#include <mpi.h>

#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- numbers ---- */

static uint64_t state;

static uint64_t draw(void)
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static unsigned below(unsigned limit) { return (unsigned) (draw() % limit); }
static int once_in(unsigned times) { return below(times) == 0; }

static int few(void)
{
    static const int wrong[] = {-1, -2, -7, INT_MIN};
    unsigned way = below(20);
    return way < 14 ? (int) below(4) : way < 18 ? (int) below(9) : wrong[below(4)];
}

static int dimensions(void) { return (int) below(5) - 1; }

static int any(void)
{
    static const int odd[] = {INT_MIN, INT_MAX, -1, -2, -3, -4, -5, 32767, 65536, MPI_UNDEFINED, MPI_ERR_LASTCODE, 0x40000000};
    unsigned way = below(8);
    return way < 5 ? (int) below(3) : way < 7 ? odd[below(sizeof odd / sizeof *odd)] : (int) draw();
}

static int64_t bytes(void)
{
    static const int64_t some[] = {0, 0, 1, 4, 8, 16, 64, 512, 4096, -1, -4, -8, -64};
    return some[below(sizeof some / sizeof *some)];
}

/* ---- memory ---- */

enum { SLOTS = 256, LENGTH = 1024, TEXT = 65536 };
/* Little of this range is ever touched. */
static const size_t HALF = (size_t) 4 << 30;
static char *middle, *attachable;
static int allows_null = 1, null_buffers, plain_types;

static void *mapped(size_t length)
{
    void *place = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) _exit(4);
    return place;
}

static int is_null(void) { return allows_null && once_in(24); }

static void *buffer(void)
{
    if (null_buffers) return once_in(4) ? MPI_IN_PLACE : NULL;
    return middle + 64 * below(64);
}

static void *place(void) { return is_null() ? NULL : middle + 8192 + 64 * below(64); }

static void *attached(void)
{
    static unsigned next;
    return attachable + 65536 * (next++ % 256);
}

static int *ints(void)
{
    static int all[SLOTS][LENGTH];
    static unsigned next;
    int *slot = all[next++ % SLOTS];
    for (int i = 0; i < 64; i++) slot[i] = once_in(8) ? -(int) below(8) : (int) below(once_in(3) ? 9 : 3);
    return is_null() ? NULL : slot;
}

static int64_t *longs(void)
{
    static int64_t all[SLOTS][LENGTH];
    static unsigned next;
    int64_t *slot = all[next++ % SLOTS];
    for (int i = 0; i < 64; i++) slot[i] = once_in(2) ? (int64_t) below(4) : (int64_t) below(64) - 8;
    return is_null() ? NULL : slot;
}

static int *weights(void)
{
    return once_in(3) ? MPI_UNWEIGHTED : once_in(3) ? MPI_WEIGHTS_EMPTY : ints();
}

static void *room(void)
{
    static char *all;
    static unsigned next;
    if (!all) all = mapped((size_t) TEXT * 16);
    return is_null() ? NULL : all + (size_t) TEXT * (next++ % 16);
}

static const char *string(void)
{
    static char longest[5000];
    static const char *const some[] = {"", "x", "key", "external32", "native", "mpi://WORLD", "mpi_assert_no_any_tag", "mpi://SELF",
                                       "a b c", "\xff\xfe", "true", "mpi_hw_resource_type", "%s%n", longest};
    memset(longest, 'y', sizeof longest - 1);
    return is_null() ? NULL : some[below(sizeof some / sizeof *some)];
}

static char **strings(void)
{
    static char *some[LENGTH];
    for (int i = 0; i < 16; i++) some[i] = (char *) "x";
    return is_null() ? NULL : some;
}

static MPI_Status *statuses(void)
{
    static MPI_Status all[SLOTS][64];
    static unsigned next;
    MPI_Status *slot = all[next++ % SLOTS];
    for (size_t i = 0; i < sizeof all[0] / sizeof(int); i++) ((int *) slot)[i] = once_in(4) ? (int) draw() : 0;
    return once_in(4) ? MPI_STATUS_IGNORE : slot;
}

/* ---- handles ---- */

enum { LIVE = 24, STALE = 24 };

/* A pool for each type: predefined handles, handles from calls, and freed ones. */
#define POOL(type, null, ...)                                                                                         \
    static type predefined_##type[] = {__VA_ARGS__};                                                                  \
    static type live_##type[LIVE], stale_##type[STALE];                                                               \
    static unsigned lives_##type, stales_##type;                                                                      \
    static type pick_##type(void)                                                                                     \
    {                                                                                                                 \
        unsigned way = below(20), known = sizeof predefined_##type / sizeof *predefined_##type;                       \
        if (way == 0) return (type) (null);                                                                           \
        if (way == 1 && stales_##type) return stale_##type[below(stales_##type < STALE ? stales_##type : STALE)];     \
        if (way == 2) return (type) (intptr_t) (once_in(2) ? (int64_t) draw() : (int64_t) below(0x400) - 1);          \
        if (lives_##type && (known == 1 || once_in(2))) return live_##type[below(lives_##type)];                      \
        return predefined_##type[below(known)];                                                                       \
    }                                                                                                                 \
    static void settle_##type(type before, type after)                                                                \
    {                                                                                                                 \
        if (after == before) return;                                                                                  \
        for (unsigned i = 0; i < lives_##type; i++)                                                                   \
            if (live_##type[i] == before && after == (type) (null)) {                                                 \
                live_##type[i] = live_##type[--lives_##type];                                                         \
                stale_##type[stales_##type++ % STALE] = before;                                                       \
                break;                                                                                                \
            }                                                                                                         \
        if ((intptr_t) after >= 0 && (intptr_t) after < 0x1000) return;                                               \
        if (lives_##type < LIVE) live_##type[lives_##type++] = after;                                                 \
        else live_##type[below(LIVE)] = after;                                                                        \
    }                                                                                                                 \
    static type *array_##type(void)                                                                                   \
    {                                                                                                                 \
        static type all[SLOTS][64];                                                                                   \
        static unsigned next;                                                                                         \
        type *slot = all[next++ % SLOTS];                                                                             \
        for (int i = 0; i < 64; i++) slot[i] = pick_##type();                                                         \
        return is_null() ? NULL : slot;                                                                               \
    }

#endif
