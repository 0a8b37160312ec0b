// ranks: 2 3 4 7
// transports: all
// every day: usysv sysv nodes lamd ofi
// Ranks call a nonblocking and a blocking collective of one communicator in different orders.
// MPI-5.0 (section "Nonblocking Collective Operations") forbids it, but programs do it, and in
// other libraries it ends: neither kind waits for the other, and no data are mixed up.
#include "check.h"

enum { LONG = 100000 };

static void blocking(int kind, int round)
{
    long sum = -1, mine = rank + round;
    long root = rank == round % size ? 1000 + round : -1;
    switch (kind) {
    case 0:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    case 1:
        MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == (long) size * round + (long) size * (size - 1) / 2);
        break;
    default:
        MPI_Bcast(&root, 1, MPI_LONG, round % size, MPI_COMM_WORLD);
        CHECK(root == 1000 + round);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int *give = allocate(LONG * sizeof *give), *take = allocate(LONG * sizeof *take);
    MPI_Request persistent;
    int one = rank, all = -1;
    MPI_Allreduce_init(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &persistent);

    for (int round = 0; round < scaled(60); round++) {
        // The data take a line, a segment, or several segments.
        int n = round % 3 == 0 ? 1 : round % 3 == 1 ? 3000 : LONG;
        for (int i = 0; i < n; i++)
            give[i] = i + rank + round;
        memset(take, -1, n * sizeof *take);
        MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
        int is_early = (rank + round) % 2;
        if (!is_early)
            blocking(round % 4 / 2, round);
        if (!is_early)
            blocking(2, round);
        MPI_Iallreduce(give, take, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
        MPI_Start(&persistent);
        if (is_early) {
            blocking(round % 4 / 2, round);
            blocking(2, round);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        for (int i = 0; i < n; i++)
            CHECK(take[i] == size * (i + round) + size * (size - 1) / 2);
        CHECK(all == size * (size - 1) / 2);
        all = -1;
    }

    for (int round = 0; round < scaled(30); round++) {
        MPI_Comm dup;
        MPI_Request request;
        int sum = -1;
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        if (rank % 2)
            MPI_Barrier(dup);
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, dup, &request);
        if (rank % 2 == 0)
            MPI_Barrier(dup);
        MPI_Comm_free(&dup);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(sum == size * (size - 1) / 2);
    }

    // A duplication that is waited for later, before a blocking collective on one rank and after it
    // on another.
    for (int round = 0; round < scaled(30); round++) {
        MPI_Comm dup;
        MPI_Request request;
        int sum = -1, is_early = (rank + round) % 2;
        if (is_early)
            blocking(round % 3, round);
        MPI_Comm_idup(MPI_COMM_WORLD, &dup, &request);
        if (!is_early)
            blocking(round % 3, round);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
        CHECK(sum == size * (size - 1) / 2);
        MPI_Comm_free(&dup);
    }
    MPI_Request_free(&persistent);
    free(give);
    free(take);
    return check_end();
}
