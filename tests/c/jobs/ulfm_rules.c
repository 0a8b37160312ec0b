/* The errors, agreements, receives from any source and ends of ranks after a failure. ulfm_rules
 * HOW: rank 1 of the world ends so: kill, code, leave (exit(0) without MPI_Finalize), or late
 * (in MPI_Finalize of the others); or spawn: a child fails. */
#include "../must.h"
#include <mpi-ext.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static int class_of(int code)
{
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void after_the_death_of_1(MPI_Comm comm, MPI_Comm older)
{
    int number = 0, flag, acked;
    CHECK(class_of(MPI_Recv(&number, 1, MPI_INT, 1, 5, comm, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Send(&number, 1, MPI_INT, 1, 5, comm)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Ssend(&number, 1, MPI_INT, 1, 5, comm)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPI_Barrier(comm)) == MPIX_ERR_PROC_FAILED);
    /* Each further call gives the error: no other rank takes the failed one's place. */
    for (int i = 0; i < 2 * size; i++) {
        CHECK(class_of(MPI_Barrier(comm)) == MPIX_ERR_PROC_FAILED);
        CHECK(class_of(MPI_Allreduce(&number, &flag, 1, MPI_INT, MPI_SUM, comm)) == MPIX_ERR_PROC_FAILED);
    }

    if (rank == 0) {
        MPI_Request request;
        MPI_Status status;
        CHECK(MPI_Irecv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 6, comm, &request) == MPI_SUCCESS);
        CHECK(class_of(MPI_Wait(&request, &status)) == MPIX_ERR_PROC_FAILED_PENDING);
        CHECK(request != MPI_REQUEST_NULL);
        CHECK(class_of(MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, 99, comm, &status)) != MPI_SUCCESS);
        CHECK(MPIX_Comm_ack_failed(comm, 1, &acked) == MPI_SUCCESS && acked == 1);
        CHECK(MPI_Send(&number, 1, MPI_INT, size - 1, 7, comm) == MPI_SUCCESS);
        CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
        CHECK(number == 4711 && status.MPI_SOURCE == size - 1 && request == MPI_REQUEST_NULL);
    } else if (rank == size - 1) {
        CHECK(MPI_Recv(&number, 1, MPI_INT, 0, 7, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        number = 4711;
        CHECK(MPI_Send(&number, 1, MPI_INT, 0, 6, comm) == MPI_SUCCESS);
    }

    /* If not all have acknowledged the failure, all get the same error and the same flag. */
    flag = rank == 0 ? 5 : 7;
    CHECK(class_of(MPIX_Comm_agree(comm, &flag)) == MPIX_ERR_PROC_FAILED && flag == 5);
    MPI_Request request;
    flag = rank == 2 ? 6 : 7;
    CHECK(MPIX_Comm_iagree(comm, &flag, &request) == MPI_SUCCESS);
    CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED && flag == 6);

    MPI_Group failed, world;
    int many, first = 0, there;
    CHECK(MPIX_Comm_get_failed(comm, &failed) == MPI_SUCCESS);
    MPI_Group_size(failed, &many);
    MPI_Comm_group(comm, &world);
    MPI_Group_translate_ranks(failed, 1, &first, world, &there);
    CHECK(many == 1 && there == 1);
    MPI_Group_free(&failed);
    MPI_Group_free(&world);
    CHECK(MPIX_Comm_ack_failed(comm, size, &acked) == MPI_SUCCESS && acked == 1);
    flag = 3;
    CHECK(MPIX_Comm_agree(comm, &flag) == MPI_SUCCESS && flag == 3);

    MPI_Comm smaller, same;
    int left, sum = 0, one = 1;
    CHECK(MPIX_Comm_shrink(comm, &smaller) == MPI_SUCCESS);
    MPI_Comm_size(smaller, &left);
    CHECK(left == size - 1);
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, smaller) == MPI_SUCCESS && sum == left);
    CHECK(MPI_Comm_dup(smaller, &same) == MPI_SUCCESS);
    CHECK(MPI_Barrier(same) == MPI_SUCCESS);
    /* An agreement goes on in a freed communicator, and has ended in a disconnected one. */
    MPI_Comm freed, shrunk;
    CHECK(MPI_Comm_dup(smaller, &freed) == MPI_SUCCESS);
    int freeing = rank == 0 ? 9 : 11, parting = rank == 0 ? 3 : 6, last = 1;
    MPI_Request agreements[4];
    CHECK(MPIX_Comm_iagree(freed, &freeing, &agreements[0]) == MPI_SUCCESS);
    CHECK(MPIX_Comm_iagree(same, &parting, &agreements[1]) == MPI_SUCCESS);
    CHECK(MPIX_Comm_iagree(freed, &last, &agreements[2]) == MPI_SUCCESS);
    CHECK(MPIX_Comm_ishrink(freed, &shrunk, &agreements[3]) == MPI_SUCCESS);
    CHECK(MPI_Comm_free(&freed) == MPI_SUCCESS);
    CHECK(MPI_Comm_disconnect(&same) == MPI_SUCCESS);
    CHECK(MPI_Waitall(4, agreements, MPI_STATUSES_IGNORE) == MPI_SUCCESS);
    CHECK(freeing == 9 && parting == 2 && last == 1);
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, shrunk) == MPI_SUCCESS && sum == left);
    CHECK(MPI_Comm_free(&shrunk) == MPI_SUCCESS);
    /* Revoked here, so that no rank waits in it; later callers get the error as well. */
    if (rank == 0) CHECK(MPIX_Comm_revoke(older) == MPI_SUCCESS);
    CHECK(class_of(MPI_Recv(&number, 1, MPI_INT, (rank + 1) % size == 1 ? 2 % size : (rank + 1) % size, 8, older,
                            MPI_STATUS_IGNORE)) == MPIX_ERR_REVOKED);
    CHECK(MPI_Comm_free(&smaller) == MPI_SUCCESS);
}

static void die(const char *how)
{
    if (!strcmp(how, "code")) exit(3);
    if (!strcmp(how, "leave")) exit(0);
    raise(SIGKILL);
}

/* Two children, of which one fails; then two more, which are connected with ranks that know of
 * the failure. */
static void spawn(const char *program)
{
    for (int time = 0; time < 2; time++) {
        MPI_Comm children, smaller;
        char *arguments[] = {"child", NULL};
        int number, remote, flag = 1;
        CHECK(MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                             MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
        MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
        CHECK(class_of(MPI_Recv(&number, 1, MPI_INT, 0, 5, children, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
        CHECK(class_of(MPIX_Comm_agree(children, &flag)) == MPIX_ERR_PROC_FAILED);
        CHECK(MPIX_Comm_shrink(children, &smaller) == MPI_SUCCESS);
        MPI_Comm_remote_size(smaller, &remote);
        CHECK(remote == 1);
        CHECK(MPI_Barrier(smaller) == MPI_SUCCESS);
        CHECK(MPI_Comm_disconnect(&children) == MPI_SUCCESS);
        CHECK(MPI_Comm_disconnect(&smaller) == MPI_SUCCESS);
        CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
    }
}

static void child(MPI_Comm parents)
{
    MPI_Comm smaller;
    int number, flag = 1;
    MPI_Comm_set_errhandler(parents, MPI_ERRORS_RETURN);
    if (rank == 0) raise(SIGKILL);
    CHECK(class_of(MPI_Recv(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) == MPIX_ERR_PROC_FAILED);
    CHECK(class_of(MPIX_Comm_agree(parents, &flag)) == MPIX_ERR_PROC_FAILED);
    CHECK(MPIX_Comm_shrink(parents, &smaller) == MPI_SUCCESS);
    CHECK(MPI_Barrier(smaller) == MPI_SUCCESS);
    CHECK(MPI_Comm_disconnect(&parents) == MPI_SUCCESS);
    CHECK(MPI_Comm_disconnect(&smaller) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm parents;
    MPI_Comm_get_parent(&parents);
    const char *how = argv[1];
    if (parents != MPI_COMM_NULL) {
        child(parents);
    } else if (!strcmp(how, "spawn")) {
        spawn(argv[0]);
    } else if (!strcmp(how, "late")) {
        /* More than leaves without a receiver: it waits in MPI_Finalize until the failure is
         * known. */
        static char much[1 << 20];
        MPI_Request request = MPI_REQUEST_NULL;
        if (rank != 1) {
            MPI_Isend(much, sizeof much, MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
            if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
        } else {
            usleep(50000);
            raise(SIGKILL);
        }
    } else {
        MPI_Comm comm, older;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_dup(MPI_COMM_WORLD, &older);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) die(how);
        after_the_death_of_1(comm, older);
        CHECK(MPI_Comm_disconnect(&comm) == MPI_SUCCESS);
        CHECK(MPI_Comm_free(&older) == MPI_SUCCESS);
    }
    MPI_Finalize();
    if (rank == 0 || parents != MPI_COMM_NULL) printf("went on\n");
    return 0;
}
