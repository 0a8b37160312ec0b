/* Two ranks exchange long messages while the port of their adapter is down for longer than
 * rpi_ib_timeout: each gets right data until the other one fails for it. `cargo xtask
 * conformance --ib` runs it in an emulated machine. */
#include "../check.h"
#include <mpi-ext.h>

enum { LEN = 300000, LIMIT_S = 90 };

int main(int argc, char **argv)
{
    static unsigned char out[LEN], in[LEN];
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    double start = MPI_Wtime();
    int code = MPI_SUCCESS, rounds = 0, other = 1 - rank;
    while (code == MPI_SUCCESS && MPI_Wtime() - start < LIMIT_S) {
        pattern_fill(out, LEN, (unsigned) (rounds * 2 + rank));
        code = MPI_Sendrecv(out, LEN, MPI_BYTE, other, 1, in, LEN, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS) CHECK_EQ(pattern_differs(in, LEN, (unsigned) (rounds * 2 + other)), -1);
        rounds++;
    }
    CHECK_CLASS(code, MPIX_ERR_PROC_FAILED);
    printf("rank %d: %d rounds, %.0f s, %s\n", rank, rounds, MPI_Wtime() - start, check_failures ? "failures" : "ok");
    fflush(stdout);
    MPI_Finalize();
    return check_failures != 0;
}
