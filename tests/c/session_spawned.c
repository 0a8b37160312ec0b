// ranks: 1 2
// transports: all
// The process set mpi://WORLD of a spawned job is that job.
#include "must.h"
#include "moved.h"
#include <string.h>

static void child(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int size, rank, sum, world;
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
    CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
    MPI_Group_size(group, &size);
    MPI_Group_rank(group, &rank);
    CHECK(size == 2 && rank == world);
    CHECK(MPI_Comm_create_from_group(group, "spawned", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm) == MPI_SUCCESS);
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == 1);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        child();
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    moved_begin();
    CHECK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE) ==
          MPI_SUCCESS);
    MPI_Comm_disconnect(&children);
    moved_end();
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
