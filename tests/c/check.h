/* Common parts of the C test programs: failures are counted on every rank, there is one verdict,
 * and the contents of messages can be verified.
 *
 * A program calls check_begin, does its tests with CHECK, CHECK_EQ and CHECK_CLASS, and returns
 * check_end(). Rank 0 then prints "ok" as its last line if no rank saw a failure; otherwise every
 * rank exits with code 1.
 *
 * Environment variables: CHECK_DIVISOR=n divides the repetitions that go through scaled(), for
 * slow machines. CHECK_SECONDS=n is the time after which a hanging rank gives up (60).
 * CHECK_BEGIN is a command that each rank runs behind MPI_Init, before its first message.
 * CHECK_MOVED: see moved.h. */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FAILURES_SHOWN = 20 };

static int rank = -1;
static int size = 0;
static int check_failures = 0;
static char check_place[160] = "";
/* A failure prints rank, file and line, and is counted. The value is true if the condition
 * holds. */
#define CHECK(condition) check_report(!!(condition), __FILE__, __LINE__, "%s", #condition)
#define CHECK_EQ(got, want) \
    check_equal((long long) (got), (long long) (want), __FILE__, __LINE__, #got, #want)
/* The call must fail with an error of this class. */
#define CHECK_CLASS(call, want) check_class((call), (want), __FILE__, __LINE__, #call, #want)
#define CHECK_OK(call) check_class((call), MPI_SUCCESS, __FILE__, __LINE__, #call, "MPI_SUCCESS")

/* Names the current case, which failures print. Only one thread may call it. */
__attribute__((format(printf, 1, 2))) static inline void check_where(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(check_place, sizeof check_place, format, values);
    va_end(values);
}

__attribute__((format(printf, 4, 5))) static inline int check_report(int good, const char *file, int line,
                                                                     const char *format, ...)
{
    if (good) return 1;
    if (__atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED) >= FAILURES_SHOWN) return 0;
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    printf("rank %d of %d: %s:%d: %s%s%s%s\n", rank, size, file, line, text, check_place[0] ? " [" : "", check_place,
           check_place[0] ? "]" : "");
    fflush(stdout);
    return 0;
}

static inline int check_equal(long long got, long long want, const char *file, int line, const char *got_text,
                              const char *want_text)
{
    return check_report(got == want, file, line, "%s is %lld, not %s = %lld", got_text, got, want_text, want);
}

static inline int check_class(int code, int want, const char *file, int line, const char *call, const char *want_text)
{
    int class = code;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    if (class == want) return 1;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return check_report(0, file, line, "%s gives class %d (%s), not %s = %d", call, class, text, want_text, want);
}

/* Divides repetitions by CHECK_DIVISOR; at least one is left. */
static inline int scaled(int repetitions)
{
    const char *text = getenv("CHECK_DIVISOR");
    int divisor = text ? atoi(text) : 1;
    int left = divisor > 1 ? repetitions / divisor : repetitions;
    return left > 0 ? left : 1;
}

static inline void check_out_of_time(int signal_number)
{
    (void) signal_number;
    static const char text[] = "out of time: this rank hangs at: ";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(3);
    if (write(STDERR_FILENO, check_place, strlen(check_place)) < 0) _exit(3);
    if (write(STDERR_FILENO, "\n", 1) < 0) _exit(3);
    _exit(2);
}

static inline void check_watch(void)
{
    const char *text = getenv("CHECK_SECONDS");
    signal(SIGALRM, check_out_of_time);
    alarm(text ? (unsigned) atoi(text) : 60);
}

static inline void check_ranks(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

#include "moved.h"

static inline void check_begin(int *argc, char ***argv)
{
    check_watch();
    MPI_Init(argc, argv);
    check_ranks();
    moved_begin();
    const char *begin = getenv("CHECK_BEGIN");
    if (begin && system(begin) != 0) MPI_Abort(MPI_COMM_WORLD, 2);
}

/* The sum of the failures of all ranks. MPI must be initialised. */
static inline int check_total(void)
{
    int total = -1;
    moved_end();
    MPI_Allreduce(&check_failures, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

/* The verdict, which main returns. */
static inline int check_end(void)
{
    int total = check_total();
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    fflush(stdout);
    MPI_Finalize();
    return total != 0 || check_failures != 0;
}

/* Byte i of the message `seed`. */
static inline unsigned char pattern_byte(unsigned seed, size_t i)
{
    return (unsigned char) (seed * 31u + (unsigned) i * 7u + (unsigned) (i >> 8) * 13u + 1u);
}

static inline void pattern_fill(void *buffer, size_t bytes, unsigned seed)
{
    unsigned char *at = buffer;
    for (size_t i = 0; i < bytes; i++) at[i] = pattern_byte(seed, i);
}

/* The index of the first byte that differs from the pattern, or -1. */
static inline long long pattern_differs(const void *buffer, size_t bytes, unsigned seed)
{
    const unsigned char *at = buffer;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != pattern_byte(seed, i)) return (long long) i;
    return -1;
}

/* The index of the first byte of buffer[from, to) that is not `value`, or -1: for bytes that
 * must stay untouched. */
static inline long long bytes_differ(const void *buffer, size_t from, size_t to, unsigned char value)
{
    const unsigned char *at = buffer;
    for (size_t i = from; i < to; i++)
        if (at[i] != value) return (long long) i;
    return -1;
}

/* A pseudo-random number that sender and receiver can both compute: the same for the same three
 * values. */
static inline unsigned drawn(unsigned a, unsigned b, unsigned c)
{
    uint64_t x = ((uint64_t) a << 42) ^ ((uint64_t) b << 21) ^ c;
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (unsigned) ((x ^ (x >> 31)) >> 16);
}

/* Checks source, tag and length in bytes of a received message. */
#define CHECK_STATUS(status, source, tag, bytes) \
    check_status((status), (source), (tag), (bytes), __FILE__, __LINE__)

static inline int check_status(const MPI_Status *status, int source, int tag, int bytes, const char *file, int line)
{
    int count = -1;
    MPI_Get_count(status, MPI_BYTE, &count);
    int good = status->MPI_SOURCE == source && status->MPI_TAG == tag && count == bytes;
    return check_report(good, file, line, "status has source %d tag %d bytes %d, not %d, %d, %d", status->MPI_SOURCE,
                        status->MPI_TAG, count, source, tag, bytes);
}

static inline void pause_ms(int milliseconds)
{
    struct timespec left = {milliseconds / 1000, (long) (milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {}
}

static inline void *allocate(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(3);
    }
    return memory;
}

/* Makes errors on MPI_COMM_WORLD return codes. MPI_COMM_SELF keeps its handler, so an error that
 * is raised on the wrong communicator, or on none instead of on world, ends the job. */
static inline void return_errors(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

#endif
