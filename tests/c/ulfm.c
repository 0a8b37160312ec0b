// ranks: 1 2 4 7
// transports: all
// every day: tcp-encrypted ofi
// The calls for failures (mpi-ext.h) without a failure: revoke, agree, shrink, and their errors.
#include "must.h"
#include "moved.h"
#include <mpi-ext.h>

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void agreements(MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int inter;
    MPI_Comm_test_inter(comm, &inter);
    if (inter) {
        int remote;
        MPI_Comm_remote_size(comm, &remote);
        if (remote > size) size = remote;
    }
    for (int i = 0; i < 20; i++) {
        int flag = ~(1 << ((rank + i) % 30));
        int wanted = ~0;
        for (int r = 0; r < size; r++) wanted &= ~(1 << ((r + i) % 30));
        CHECK(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS);
        CHECK(flag == wanted);
    }
    int flags[2] = {rank == 0 ? 5 : 7, 12};
    MPI_Request requests[2];
    CHECK(MPIX_Comm_iagree(comm, &flags[0], &requests[0]) == MPI_SUCCESS);
    CHECK(MPIX_Comm_iagree(comm, &flags[1], &requests[1]) == MPI_SUCCESS);
    CHECK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(flags[0] == 5 && flags[1] == 12);
}

static void nobody_failed(MPI_Comm comm)
{
    MPI_Group failed;
    int known = -1;
    CHECK(MPIX_Comm_get_failed(comm, &failed) == MPI_SUCCESS && failed == MPI_GROUP_EMPTY);
    CHECK(MPIX_Comm_ack_failed(comm, 100, &known) == MPI_SUCCESS && known == 0);
    CHECK(class_of(MPIX_Comm_ack_failed(comm, -1, &known)) == MPI_ERR_ARG);
}

static void revocation(MPI_Comm comm, int author)
{
    int rank, size, flag = -1, value = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    CHECK(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && !flag);
    MPI_Request request;
    CHECK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm, &request) == MPI_SUCCESS);
    int done = class_of(MPI_Barrier(comm));
    CHECK(done == MPI_SUCCESS || done == MPIX_ERR_REVOKED);
    if (rank == author) CHECK(MPIX_Comm_revoke(comm) == MPI_SUCCESS);
    CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(MPIX_Comm_is_revoked(comm, &flag) == MPI_SUCCESS && flag);
    CHECK(class_of(MPI_Barrier(comm)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 3, comm)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 3, comm)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(class_of(MPI_Probe(0, 3, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    // Partitioned messages have their own context.
    MPI_Request part;
    if (MPI_Precv_init(&value, 1, 1, MPI_INT, (rank + 1) % size, 4, comm, MPI_INFO_NULL, &part) == MPI_SUCCESS) {
        int started = MPI_Start(&part);
        CHECK(class_of(started == MPI_SUCCESS ? MPI_Wait(&part, MPI_STATUS_IGNORE) : started) == MPIX_ERR_REVOKED);
        MPI_Request_free(&part);
    }
    MPI_Comm other;
    CHECK(class_of(MPI_Comm_dup(comm, &other)) == MPIX_ERR_REVOKED);
    agreements(comm);
    MPI_Comm shrunk, later;
    CHECK(MPIX_Comm_shrink(comm, &shrunk) == MPI_SUCCESS);
    CHECK(MPIX_Comm_ishrink(comm, &later, &request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_Comm made[2] = {shrunk, later};
    for (int i = 0; i < 2; i++) {
        int new_rank, new_size, sum = 0;
        MPI_Comm_rank(made[i], &new_rank);
        MPI_Comm_size(made[i], &new_size);
        CHECK(new_rank == rank && new_size == size);
        CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made[i]) == MPI_SUCCESS);
        CHECK(sum == size * (size - 1) / 2);
        MPI_Comm_free(&made[i]);
    }
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    moved_begin();
    nobody_failed(MPI_COMM_WORLD);
    agreements(MPI_COMM_WORLD);
    agreements(MPI_COMM_SELF);
    for (int author = 0; author < size; author++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        revocation(comm, author);
        MPI_Comm_free(&comm);
    }
    if (size > 1) {
        MPI_Comm half, inter, shrunk;
        int remote, remote_shrunk, revoked;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &inter);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        agreements(inter);
        nobody_failed(inter);
        if (rank == 0) CHECK(MPIX_Comm_revoke(inter) == MPI_SUCCESS);
        int value;
        CHECK(class_of(MPI_Recv(&value, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
        CHECK(class_of(MPI_Barrier(inter)) == MPIX_ERR_REVOKED);
        CHECK(MPIX_Comm_shrink(inter, &shrunk) == MPI_SUCCESS);
        MPI_Comm_remote_size(inter, &remote);
        MPI_Comm_remote_size(shrunk, &remote_shrunk);
        CHECK(remote == remote_shrunk);
        CHECK(MPI_Barrier(shrunk) == MPI_SUCCESS);
        CHECK(MPIX_Comm_is_revoked(shrunk, &revoked) == MPI_SUCCESS && !revoked);
        MPI_Comm_free(&shrunk);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    int flag;
    MPI_Comm null = MPI_COMM_NULL;
    CHECK(class_of(MPIX_Comm_revoke(null)) == MPI_ERR_COMM);
    CHECK(class_of(MPIX_Comm_agree(null, &flag)) == MPI_ERR_COMM);
    CHECK(class_of(MPIX_Comm_is_revoked(MPI_COMM_WORLD, NULL)) == MPI_ERR_ARG);
    moved_end();
    MPI_Barrier(MPI_COMM_WORLD);
    revocation(MPI_COMM_WORLD, size - 1);
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
