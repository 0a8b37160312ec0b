/* A communicator is revoked while its first rank sends the others the name of a copy: one has
 * received it and uses the copy, another has not, and the first gives up. The remains of that copy
 * do not count as data of later communicators.
 *
 * Run it with 3 ranks and few cells in an inbox, so that the name does not fit. */
#include <mpi-ext.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition)                                                                                  \
    do {                                                                                                  \
        if (!(condition)) {                                                                               \
            fprintf(stderr, "rank %d, round %d: line %d: %s\n", rank, round, __LINE__, #condition);       \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                 \
        }                                                                                                 \
    } while (0)

enum { ROUNDS = 3, MANY = 200, STALE = 111, FRESH = 222 };

int main(int argc, char **argv)
{
    int rank, round = 0, values[MANY] = {0}, value;
    static MPI_Request sends[MANY];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (; round < ROUNDS; round++) {
        MPI_Comm comm, copy = MPI_COMM_NULL, later;
        MPI_Request request = MPI_REQUEST_NULL;
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS);
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
        if (rank == 0) {
            for (int i = 0; i < MANY; i++) MPI_Isend(&values[i], 1, MPI_INT, 2, 1, MPI_COMM_WORLD, &sends[i]);
            CHECK(MPI_Comm_idup(comm, &copy, &request) == MPI_SUCCESS);
            MPI_Recv(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPIX_Comm_revoke(comm);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            CHECK(MPI_Comm_idup(comm, &copy, &request) == MPI_SUCCESS);
            if (MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
                value = STALE;
                MPI_Bcast(&value, 1, MPI_INT, 1, copy);
            }
            MPI_Send(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        } else {
            usleep(300000);
            for (int i = 0; i < MANY; i++) MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (rank == 0) MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE);
        CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &later) == MPI_SUCCESS);
        value = FRESH;
        if (rank == 1) usleep(100000);
        else value = 0;
        CHECK(MPI_Bcast(&value, 1, MPI_INT, 1, later) == MPI_SUCCESS);
        CHECK(value == FRESH);
        MPI_Comm_free(&later);
        if (copy != MPI_COMM_NULL) MPI_Comm_free(&copy);
        MPI_Comm_free(&comm);
    }
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
