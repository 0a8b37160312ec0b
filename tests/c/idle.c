// ranks: 1 2 4 7
// transports: all
// every day: lamd
// not over: gm, because its processes wake up now and then, as GM has no descriptor to sleep on
// not over: ofi, because its processes wake up at intervals, as the provider must be polled
/* Waiting costs no processor time: ranks that wait in blocking calls leave the cores to others. */
#include "check.h"

#include <sys/resource.h>

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void wait_for_rank_0(const char *how, int milliseconds)
{
    int word = 0, got = -1;
    check_where("%s", how);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    double used = processor_seconds(), start = MPI_Wtime();
    if (strcmp(how, "Barrier") == 0) {
        if (rank == 0) pause_ms(milliseconds);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    } else if (rank == 0) {
        pause_ms(milliseconds);
        for (int r = 1; r < size; r++) CHECK_OK(MPI_Send(&word, 1, MPI_INT, r, 0, MPI_COMM_WORLD));
    } else {
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(got, 0);
    }
    double passed = MPI_Wtime() - start;
    used = processor_seconds() - used;
    if (size == 1) return; /* no rank to wait for */
    check_report(passed > milliseconds * 0.5e-3, __FILE__, __LINE__, "waited only %.3f s", passed);
    check_report(used < 0.02 * passed, __FILE__, __LINE__, "used %.3f s of processor time in %.3f s", used, passed);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    wait_for_rank_0("Recv", size == 1 ? 10 : 600);
    wait_for_rank_0("Barrier", size == 1 ? 10 : 600);
    return check_end();
}
