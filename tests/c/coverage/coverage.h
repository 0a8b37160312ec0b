/* Common parts of the programs that crates/cli/tests/command_line/coverage.rs composes of the
 * snippets.
 *
 * OK(call) must succeed. FAILS(call, class) must give an error of that class. */
#ifndef COVERAGE_H
#define COVERAGE_H

#include <mpi.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "own_calls.h"

/* `other` is the next rank, or the only one. */
static int rank = -1, size = 0, other = -1, failures = 0;
static char **arguments;
static const char *snippet = "";

static int class_of(int code)
{
    int class = code;
    if (code != MPI_SUCCESS) PMPI_Error_class(code, &class);
    return class;
}

static void bad(int line, const char *what, int code, const char *wanted)
{
    char text[MPI_MAX_ERROR_STRING] = "success";
    int length = 0;
    if (code != MPI_SUCCESS) PMPI_Error_string(code, text, &length);
    printf("FAILED rank %d, %s, line %d: %s gives %s, not %s\n", rank, snippet, line, what, text, wanted);
    fflush(stdout);
    ++failures;
}

#define OK(call)                                                            \
    do {                                                                    \
        int code_ = (call);                                                 \
        if (code_ != MPI_SUCCESS) bad(__LINE__, #call, code_, "MPI_SUCCESS"); \
    } while (0)

#define FAILS(call, class)                                                                                      \
    do {                                                                                                        \
        int code_ = (call);                                                                                     \
        if (class_of(code_) != (class)) bad(__LINE__, #call, code_, #class);                                    \
    } while (0)

/* One of two classes, if the standard does not define which argument is checked. */
#define FAILS_EITHER(call, one, other)                                                                          \
    do {                                                                                                        \
        int code_ = (call);                                                                                     \
        if (class_of(code_) != (one) && class_of(code_) != (other))                                             \
            bad(__LINE__, #call, code_, #one " or " #other);                                                    \
    } while (0)

#define CHECK(condition) \
    do { if (!(condition)) bad(__LINE__, #condition, MPI_SUCCESS, "true"); } while (0)

/* Memory and handles for any call. */
static char memory[65536] __attribute__((aligned(64)));
static char other_memory[65536] __attribute__((aligned(64)));
static char text[16384];
static int some[64], more[64];
static MPI_Aint addresses[64];
static MPI_Count numbers[64];
static MPI_Status status, statuses[64];
static int flag, length, index_of;
static MPI_Request request = MPI_REQUEST_NULL, requests[64];
static MPI_Datatype types[64];

const unsigned long *tool_calls(void) __attribute__((weak));

static void compare_calls(void)
{
    if (!tool_calls) return;
    const unsigned long *seen = tool_calls();
    for (size_t i = 0; i < sizeof own_calls / sizeof *own_calls; i++)
        if (seen[i] != own_calls[i]) {
            printf("FAILED rank %d: %s was called %lu times, the tool saw %lu calls\n", rank, function_names[i],
                   own_calls[i], seen[i]);
            ++failures;
        }
}

static void out_of_time(int signal_number)
{
    (void) signal_number;
    if (write(STDERR_FILENO, "out of time in ", 15) < 0 || write(STDERR_FILENO, snippet, strlen(snippet)) < 0) _exit(3);
    _exit(2);
}

static void coverage_begin(int *argc, char ***argv)
{
    arguments = *argv;
    signal(SIGALRM, out_of_time);
    alarm(50);
    for (int i = 0; i < 64; i++) {
        types[i] = MPI_INT;
        requests[i] = MPI_REQUEST_NULL;
    }
    (void) argc;
}

static void coverage_start(void)
{
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    other = (rank + 1) % size;
    PMPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    PMPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static int coverage_end(void)
{
    compare_calls();
    if (failures == 0) printf("rank %d is done\n", rank);
    fflush(stdout);
    return failures != 0;
}
#endif
