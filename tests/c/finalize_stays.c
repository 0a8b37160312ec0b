// ranks: 1 2 4 7
// transports: all
/* A rank that runs on for long after MPI_Finalize, or after its last session, does not delay the
 * others: rank 0 runs until all others have ended. The exchange of information about new
 * communicators just before is not waited for. */
#include "sessions.h"

enum { COMMS = 3 };

/* Whether a process runs; a zombie does not. */
static int runs(int pid)
{
    char path[64], text[512] = "", *name_end;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (!fgets(text, sizeof text, file)) text[0] = 0;
    fclose(file);
    name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* First messages of each rank with rank 0, in both directions, on unused communicators. Rank 0
 * sends last, and does not wait for the receive. */
static void talk(MPI_Comm parent)
{
    int me, n, word = -1;
    MPI_Comm_rank(parent, &me);
    MPI_Comm_size(parent, &n);
    for (int k = 0; k < COMMS; k++) {
        MPI_Comm comm;
        CHECK_OK(MPI_Comm_dup(parent, &comm));
        for (int r = 1; r < n; r++) {
            if (me == 0) {
                CHECK_OK(MPI_Recv(&word, 1, MPI_INT, r, k, comm, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Send(&word, 1, MPI_INT, r, k, comm));
            } else if (me == r) {
                CHECK_OK(MPI_Send(&k, 1, MPI_INT, 0, k, comm));
                CHECK_OK(MPI_Recv(&word, 1, MPI_INT, 0, k, comm, MPI_STATUS_IGNORE));
                CHECK_EQ(word, k);
            }
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
}

int main(int argc, char **argv)
{
    int pids[64], own = (int) getpid(), total;
    check_watch();
    MPI_Init(&argc, &argv);
    check_ranks();
    talk(MPI_COMM_WORLD);
    MPI_Gather(&own, 1, MPI_INT, pids, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    MPI_Session session = open_session();
    MPI_Comm comm = comm_of(session, "talk");
    talk(comm);
    MPI_Allreduce(&check_failures, &total, 1, MPI_INT, MPI_SUM, comm);
    talk(comm);
    MPI_Comm_free(&comm);
    close_session(&session);
    if (rank > 0) return total != 0;
    for (int r = 1; r < size; r++)
        while (runs(pids[r])) usleep(1000);
    printf(total == 0 && check_failures == 0 ? "ok\n" : "%d failures\n", total + check_failures);
    return total != 0 || check_failures != 0;
}
