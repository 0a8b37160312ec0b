/* Agreements while ranks fail, by each algorithm of the component ftagree: ftagree HOW [SEED].
 *
 * kill SEED: ranks kill themselves while several agreements are open; all living ranks get equal
 * results.
 *
 * fail: rank 1 fails; without fault tolerance (coll_ftagree_agreement 0) agreements and shrinking
 * fail then.
 *
 * refused: no component serves agreements, and each call is an error.
 *
 * fine: two agreements and a shrinking without a failure.
 *
 * The last rank prints the result. */
#include <mpi-ext.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition);        \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                \
        }                                                                                \
    } while (0)

enum { AGREEMENTS = 400, AT_ONCE = 4 };

static int rank, size;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
    return class;
}

static MPI_Comm survivors(MPI_Comm comm)
{
    MPI_Comm smaller;
    CHECK(MPIX_Comm_shrink(comm, &smaller) == MPI_SUCCESS);
    MPI_Comm_set_errhandler(smaller, MPI_ERRORS_RETURN);
    return smaller;
}

static void agree_and_die(uint64_t seed)
{
    MPI_Request open[AT_ONCE];
    int flags[AT_ONCE];
    uint64_t own = mix(seed * 1000003 + (uint64_t)rank), results = 0;
    long last = -1;
    if (rank != size - 1 && own % 3 != 0) {
        /* Between two calls, or at any instruction. */
        struct itimerval soon = {{0, 0}, {0, 1 + (long)(mix(own + 1) % 4000)}};
        if (own >> 32 & 1) setitimer(ITIMER_REAL, &soon, NULL);
        else last = (long)(mix(own + 2) % AGREEMENTS);
    }
    for (int i = 0; i < AT_ONCE; i++) open[i] = MPI_REQUEST_NULL;
    for (long i = 0; i < AGREEMENTS + AT_ONCE; i++) {
        int at = (int)(i % AT_ONCE);
        if (i >= AT_ONCE) {
            int class = class_of(MPI_Wait(&open[at], MPI_STATUS_IGNORE));
            CHECK(class == MPI_SUCCESS || class == MPIX_ERR_PROC_FAILED);
            CHECK((flags[at] & ~0xffff) == (int)(i - AT_ONCE) << 16);
            results = mix(results ^ (uint64_t)(unsigned)flags[at] ^ (uint64_t)(class == MPI_SUCCESS) << 32);
        }
        if (i == last) raise(SIGKILL);
        if (i < AGREEMENTS) {
            flags[at] = (int)(i << 16) | (int)(mix(own + (uint64_t)i) & mix((uint64_t)i) & 0xffff);
            CHECK(MPIX_Comm_iagree(MPI_COMM_WORLD, &flags[at], &open[at]) == MPI_SUCCESS);
        }
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    /* All remaining ranks have equal results. A late failure may be noticed late. */
    MPI_Comm comm = survivors(MPI_COMM_WORLD);
    for (;;) {
        uint64_t both[2] = {results, ~results}, most[2];
        int code = MPI_Allreduce(both, most, 2, MPI_UINT64_T, MPI_MAX, comm), flag = code == MPI_SUCCESS;
        if (class_of(MPIX_Comm_agree(comm, &flag)) == MPI_SUCCESS && flag) {
            CHECK(most[0] == results && most[1] == ~results);
            break;
        }
        MPI_Comm smaller = survivors(comm);
        MPI_Comm_free(&comm);
        comm = smaller;
    }
    MPI_Comm_free(&comm);
}

static void fail(void)
{
    int flag = 5;
    MPI_Comm smaller = MPI_COMM_NULL;
    CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag == 5);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) raise(SIGKILL);
    for (int i = 0; i < 3; i++) {
        flag = 7;
        CHECK(class_of(MPIX_Comm_agree(MPI_COMM_WORLD, &flag)) == MPIX_ERR_PROC_FAILED && flag == 7);
    }
    CHECK(class_of(MPIX_Comm_shrink(MPI_COMM_WORLD, &smaller)) == MPIX_ERR_PROC_FAILED);
}

static void refused(void)
{
    int flag = 5, length;
    MPI_Comm smaller = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    char text[MPI_MAX_ERROR_STRING] = "";
    int code = MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
    CHECK(class_of(code) == MPI_ERR_OTHER && flag == 5);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "no collective component serves an agreement here: ftagree, basic: not selected (parameter coll)"));
    CHECK(class_of(MPIX_Comm_iagree(MPI_COMM_WORLD, &flag, &request)) == MPI_ERR_OTHER);
    CHECK(class_of(MPIX_Comm_shrink(MPI_COMM_WORLD, &smaller)) == MPI_ERR_OTHER);
}

static void fine(void)
{
    for (int i = 0; i < 2; i++) {
        int flag = ~(1 << rank);
        CHECK(MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS && flag == ~((1 << size) - 1));
    }
    MPI_Comm same = survivors(MPI_COMM_WORLD);
    int members;
    MPI_Comm_size(same, &members);
    CHECK(members == size);
    MPI_Comm_free(&same);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "kill")) agree_and_die(argc > 2 ? (uint64_t)atoll(argv[2]) : 1);
    else if (!strcmp(how, "fail")) fail();
    else if (!strcmp(how, "refused")) refused();
    else fine();
    if (rank == size - 1) puts("ok");
    MPI_Finalize();
    return 0;
}
