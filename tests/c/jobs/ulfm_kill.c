/* Ranks kill themselves in any state, and the others go on: ulfm_kill SEED [objects].
 *
 * The work is messages and collectives, or windows and files ("objects", ulfm_objects.h).
 *
 * In each round the ranks of the current communicator do random work from the seed, during which
 * some kill themselves. After a round all living ranks agree on whether it was good for all. If
 * not, they revoke the communicator, shrink it and go on with the next round. Rank 0 of the
 * world fails as well; the last rank does not, and prints the result. */
#include <mpi-ext.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "rank %d, round %d: line %d: %s\n", world_rank, round, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                    \
    } while (0)

enum { ROUNDS = 24, KINDS = 13, LONG = 600000 };

static int world_rank, world_size, round;
static char *outgoing, *incoming;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Steps until this rank fails. */
static long steps_left = -1;

static void step(void)
{
    if (steps_left >= 0 && steps_left-- == 0) raise(SIGKILL);
}

static int is_failure(int code)
{
    int class = MPI_SUCCESS;
    if (code == MPI_SUCCESS) return 0;
    MPI_Error_class(code, &class);
    if (class != MPIX_ERR_PROC_FAILED && class != MPIX_ERR_PROC_FAILED_PENDING && class != MPIX_ERR_REVOKED) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length;
        MPI_Error_string(code, text, &length);
        fprintf(stderr, "rank %d, round %d: %s\n", world_rank, round, text);
    }
    CHECK(class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_PROC_FAILED_PENDING || class == MPIX_ERR_REVOKED);
    return 1;
}

static int finish(MPI_Request requests[2])
{
    int bad = 0;
    for (int i = 0; i < 2; i++) {
        step();
        bad |= is_failure(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        CHECK(requests[i] == MPI_REQUEST_NULL);
    }
    return bad;
}

static int ring(MPI_Comm comm, int rank, int size, size_t bytes, int times)
{
    int bad = 0;
    for (int i = 0; i < times && !bad; i++) {
        MPI_Request requests[2];
        memset(outgoing, rank + i, bytes);
        step();
        bad |= is_failure(MPI_Irecv(incoming, (int)bytes, MPI_BYTE, (rank + size - 1) % size, i, comm, &requests[0]));
        if (bad) break;
        step();
        int code = MPI_Isend(outgoing, (int)bytes, MPI_BYTE, (rank + 1) % size, i, comm, &requests[1]);
        bad |= is_failure(code);
        if (code != MPI_SUCCESS) requests[1] = MPI_REQUEST_NULL;
        /* The peers of this rank would wait for it without end. */
        if (bad) MPIX_Comm_revoke(comm);
        bad |= finish(requests);
        if (!bad)
            for (size_t at = 0; at < bytes; at += 997) CHECK(incoming[at] == (char)((rank + size - 1) % size + i));
    }
    if (bad) MPIX_Comm_revoke(comm);
    return bad;
}

static void leave(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_WORLD) MPI_Comm_free(comm);
}

static int funnel(MPI_Comm comm, int rank, int size)
{
    int bad = 0, one = rank;
    if (rank) {
        step();
        bad |= is_failure(MPI_Send(&one, 1, MPI_INT, 0, 7, comm));
    } else {
        for (int i = 1; i < size && !bad; i++) {
            step();
            bad |= is_failure(MPI_Recv(&one, 1, MPI_INT, MPI_ANY_SOURCE, 7, comm, MPI_STATUS_IGNORE));
        }
    }
    return bad;
}

#include "ulfm_objects.h"

static int work(MPI_Comm comm, uint64_t dice)
{
    int rank, size, bad = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    long value = rank + 1, sum = 0;
    switch (dice % KINDS) {
    case 0: return ring(comm, rank, size, 8, 200);
    case 1: return ring(comm, rank, size, 20000, 40);
    case 2: return ring(comm, rank, size, LONG, 6);
    case 3:
        for (int i = 0; i < 100 && !bad; i++) {
            step();
            bad |= is_failure(MPI_Barrier(comm));
        }
        break;
    case 4:
        for (int i = 0; i < 100 && !bad; i++) {
            step();
            bad |= is_failure(MPI_Allreduce(&value, &sum, 1, MPI_LONG, MPI_SUM, comm));
            CHECK(bad || sum == (long)size * (size + 1) / 2);
        }
        break;
    case 5:
        for (int i = 0; i < 6 && !bad; i++) {
            step();
            memset(outgoing, i, LONG);
            bad |= is_failure(MPI_Bcast(outgoing, LONG, MPI_BYTE, i % size, comm));
        }
        break;
    case 6:
        for (int i = 0; i < 30 && !bad; i++) {
            int flag = ~(1 << rank);
            step();
            bad |= is_failure(MPIX_Comm_agree(comm, &flag));
            CHECK(bad || flag == ~((1 << size) - 1));
        }
        break;
    case 7: return funnel(comm, rank, size);
    case 8:
        for (int i = 0; i < 30 && !bad; i++) {
            step();
            bad |= is_failure(MPI_Sendrecv(outgoing, LONG, MPI_BYTE, (rank + 1) % size, 1, incoming, LONG, MPI_BYTE,
                                           (rank + size - 1) % size, 1, comm, MPI_STATUS_IGNORE));
        }
        break;
    case 9:
        for (int i = 0; i < 20 && !bad; i++) {
            step();
            int part = LONG / size / (i % 2 ? 1 : 100);
            bad |= is_failure(MPI_Alltoall(outgoing, part, MPI_BYTE, incoming, part, MPI_BYTE, comm));
        }
        break;
    case 10:
        for (int i = 0; i < 30 && !bad; i++) {
            MPI_Request request;
            MPI_Status status;
            bad |= is_failure(MPI_Isend(outgoing, 5000, MPI_BYTE, (rank + 1) % size, i, comm, &request));
            if (bad) break;
            step();
            bad |= is_failure(MPI_Probe((rank + size - 1) % size, i, comm, &status));
            step();
            if (!bad) bad |= is_failure(MPI_Recv(incoming, LONG, MPI_BYTE, status.MPI_SOURCE, i, comm, &status));
            if (bad) MPIX_Comm_revoke(comm);
            bad |= is_failure(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        break;
    case 11:
        for (int i = 0; i < 30 && !bad; i++) {
            MPI_Comm half = MPI_COMM_NULL;
            MPI_Request request = MPI_REQUEST_NULL;
            step();
            is_failure(MPI_Comm_split(comm, rank % 2, 0, &half));
            /* Some ranks may have the communicator and others not. All must leave the loop
             * together. */
            int flag = half != MPI_COMM_NULL;
            bad |= is_failure(MPIX_Comm_agree(comm, &flag)) || !flag;
            if (half == MPI_COMM_NULL) break;
            if (!bad) {
                flag = !is_failure(MPI_Ibarrier(half, &request));
                step();
                flag &= !is_failure(MPI_Wait(&request, MPI_STATUS_IGNORE));
                bad |= is_failure(MPIX_Comm_agree(comm, &flag)) || !flag;
            }
            MPI_Comm_free(&half);
        }
        break;
    default:
        for (int i = 0; i < 30 && !bad; i++) {
            MPI_Comm copy = MPI_COMM_NULL;
            step();
            bad |= is_failure(MPI_Comm_dup(comm, &copy));
            if (copy != MPI_COMM_NULL) {
                step();
                MPI_Comm_free(&copy);
            }
        }
    }
    return bad;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    uint64_t seed = (uint64_t)atoll(argv[1]);
    int objects = argc > 2 && !strcmp(argv[2], "objects");
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    outgoing = malloc(LONG);
    incoming = malloc(LONG);
    MPI_Comm comm = MPI_COMM_WORLD;
    int deaths = 0;
    for (round = 0; round < ROUNDS; round++) {
        uint64_t dice = mix(seed * 1000003 + (uint64_t)round);
        uint64_t own = mix(dice + 77 + (uint64_t)world_rank);
        if (world_rank != world_size - 1 && own % (3 * (uint64_t)world_size) == 0) {
            static const long most[KINDS] = {800, 160, 24, 100, 100, 6, 30, 6, 30, 20, 60, 60, 60};
            /* Or at any instruction within some milliseconds. */
            struct itimerval soon = {{0, 0}, {0, 1 + (long)(mix(own + 1) % 3000)}};
            if (own >> 32 & 1) setitimer(ITIMER_REAL, &soon, NULL);
            else steps_left = (long)(mix(own) % (uint64_t)(objects ? 60 : most[dice % KINDS]));
        }
        int good = !(objects ? work_with_objects(comm, dice) : work(comm, dice));
        step();
        if (!good) MPIX_Comm_revoke(comm);
        int flag = good;
        int code = MPIX_Comm_agree(comm, &flag);
        int failed = is_failure(code);
        if (!failed && flag) continue;
        MPIX_Comm_revoke(comm);
        MPI_Comm smaller;
        int before, after;
        step();
        code = MPIX_Comm_shrink(comm, &smaller);
        CHECK(code == MPI_SUCCESS);
        MPI_Comm_size(comm, &before);
        MPI_Comm_size(smaller, &after);
        CHECK(after <= before);
        deaths += before - after;
        leave(&comm);
        comm = smaller;
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    steps_left = -1;
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    int size;
    /* The last failures may be noticed late: shrink until an agreement has no new failure. */
    for (;;) {
        int flag = 1;
        if (!is_failure(MPIX_Comm_agree(comm, &flag))) break;
        MPI_Comm smaller;
        CHECK(MPIX_Comm_shrink(comm, &smaller) == MPI_SUCCESS);
        leave(&comm);
        comm = smaller;
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    MPI_Comm_size(comm, &size);
    MPI_Group failed;
    int gone;
    MPIX_Comm_get_failed(MPI_COMM_WORLD, &failed);
    MPI_Group_size(failed, &gone);
    MPI_Group_free(&failed);
    CHECK(gone == world_size - size);
    CHECK(MPI_Barrier(comm) == MPI_SUCCESS);
    if (world_rank == world_size - 1) printf("%d of %d are left\n", size, world_size);
    leave(&comm);
    MPI_Finalize();
    free(outgoing);
    free(incoming);
    return 0;
}
