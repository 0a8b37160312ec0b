// ranks: 2 3
// transports: all
// every day: shm-single-copy ofi
/* Thousands of unexpected messages and of posted receives, matched in order of arrival, in
 * reverse, at random and by wildcards: with more than some dozens the queues are indexed. */
#include "check.h"

enum { MANY = 6000 };

static int sent[MANY], came[MANY], order[MANY];
static MPI_Request requests[MANY];

static void shuffle(int kind)
{
    for (int i = 0; i < MANY; i++) order[i] = kind == 1 ? MANY - 1 - i : i;
    if (kind == 2)
        for (int i = MANY - 1; i > 0; i--) {
            int j = (int) (drawn(7, (unsigned) i, 1) % (unsigned) (i + 1)), kept = order[i];
            order[i] = order[j], order[j] = kept;
        }
}

static void unexpected(int kind)
{
    MPI_Status status;
    check_where("unexpected, order %d", kind);
    if (rank == 0) {
        for (int i = 0; i < MANY; i++) {
            sent[i] = i;
            MPI_Isend(&sent[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Send(NULL, 0, MPI_BYTE, 1, MANY, MPI_COMM_WORLD);
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, MANY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int n = 0; n < MANY; n++) {
            int got = -1, tag = order[n];
            int source = n % 3 == 0 ? MPI_ANY_SOURCE : 0;
            MPI_Recv(&got, 1, MPI_INT, source, kind == 0 && n % 2 ? MPI_ANY_TAG : tag, MPI_COMM_WORLD, &status);
            CHECK_EQ(got, tag);
            CHECK_EQ(status.MPI_TAG, tag);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void posted(int kind)
{
    check_where("posted, order %d", kind);
    if (rank == 1) {
        for (int i = 0; i < MANY; i++) {
            int source = i % 3 == 0 ? MPI_ANY_SOURCE : 0;
            came[i] = -1;
            MPI_Irecv(&came[i], 1, MPI_INT, source, kind == 0 && i % 2 ? MPI_ANY_TAG : i, MPI_COMM_WORLD, &requests[i]);
        }
        if (kind == 1) {
            int cancelled = 0;
            MPI_Status status;
            MPI_Cancel(&requests[MANY / 2]);
            MPI_Wait(&requests[MANY / 2], &status);
            MPI_Test_cancelled(&status, &cancelled);
            CHECK(cancelled);
            MPI_Irecv(&came[MANY / 2], 1, MPI_INT, 0, MANY / 2, MPI_COMM_WORLD, &requests[MANY / 2]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        for (int n = 0; n < MANY; n++) MPI_Send(&order[n], 1, MPI_INT, 1, order[n], MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++) CHECK_EQ(came[i], i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int kind = 0; kind < 3; kind++) {
        shuffle(kind);
        unexpected(kind);
        posted(kind);
    }
    return check_end();
}
