/* Rank 0 sends a short message to an unreachable rank, and finalizes: lost world, or lost
 * session. */
#include <mpi.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int is_world = argc > 1 && !strcmp(argv[1], "world"), rank;
    char message[64] = {0};
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Comm comm = MPI_COMM_WORLD;
    if (is_world) {
        MPI_Init(&argc, &argv);
    } else {
        MPI_Group all;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
        MPI_Comm_create_from_group(all, "lost", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Group_free(&all);
    }
    MPI_Comm_rank(comm, &rank);
    /* A message leaves at once only on an existing connection. */
    MPI_Sendrecv(message, 1, MPI_CHAR, 1 - rank, 0, message, 1, MPI_CHAR, 1 - rank, 0, comm, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    /* This rank makes progress, and still runs when rank 0 finalizes. */
    for (int flag, i = 0; rank == 1 && i < 60000; i++) {
        MPI_Iprobe(0, 1, comm, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    /* Connections are made, and reset with the first bytes. */
    if (system("iptables -A INPUT -p tcp --tcp-flags PSH PSH -j REJECT --reject-with tcp-reset")) return 1;
    MPI_Send(message, sizeof message, MPI_CHAR, 1, 0, comm);
    if (is_world) return MPI_Finalize();
    return MPI_Session_finalize(&session);
}
