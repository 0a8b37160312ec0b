/* Prints its rank and the number of ranks. With "session": by a session. With "alone": the ranks
 * do not wait for each other. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size;
    if (argc > 1 && strcmp(argv[1], "session") == 0) {
        MPI_Session session;
        MPI_Group group;
        if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) {
            puts("no session");
            return 3;
        }
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Group_rank(group, &rank);
        MPI_Group_size(group, &size);
        printf("rank %d of %d\n", rank, size);
        MPI_Group_free(&group);
        MPI_Session_finalize(&session);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int sum = size, one = 1;
    if (argc < 2 || strcmp(argv[1], "alone") != 0)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d\n", rank, sum == size ? size : -1);
    MPI_Finalize();
    return 0;
}
