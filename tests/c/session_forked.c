// ranks: 1 2
// transports: one
// A forked child between two sessions is not the rank: it has no sessions, and takes no messages.
#include "must.h"
#include <sys/wait.h>
#include <unistd.h>

static int meet(int value)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int rank, got = value;
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    CHECK(MPI_Comm_create_from_group(group, "forked", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    MPI_Comm_rank(comm, &rank);
    CHECK(MPI_Bcast(&got, 1, MPI_INT, 0, comm) == MPI_SUCCESS && got == value);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    CHECK(MPI_Session_finalize(&session) == MPI_SUCCESS);
    return rank;
}

int main(void)
{
    int rank = meet(1);
    pid_t child = fork();
    if (child == 0) {
        MPI_Session session;
        _exit(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS ? 1 : 0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(meet(2) == rank);
    if (rank == 0) puts("ok");
    return 0;
}
