/* Rank 1 fails after messages of it have arrived that rank 0 has not received: a receive gets
 * them, also after a matched probe, and no other message in their place. Rank 2 has sent
 * messages with the same tags. */
#include "../check.h"
#include <mpi-ext.h>

#include <signal.h>

enum { TAG = 7, BYTES = 2000 };

int main(int argc, char **argv)
{
    static char out[BYTES], in[BYTES];
    MPI_Message taken;
    MPI_Status status;
    int word = 0, code;
    check_begin(&argc, &argv);
    return_errors();
    memset(out, 'a' + rank, BYTES);
    if (rank == 0) {
        for (int r = 1; r < 3; r++) CHECK_OK(MPI_Probe(r, TAG + 1, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Mprobe(1, TAG + 1, MPI_COMM_WORLD, &taken, &status));
        /* Rank 1 may have received the message, and failed, before the call has ended. */
        code = MPI_Send(&word, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD);
        if (code != MPI_SUCCESS) CHECK_CLASS(code, MPIX_ERR_PROC_FAILED);
        CHECK_CLASS(MPI_Recv(&word, 1, MPI_INT, 1, TAG + 2, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
        CHECK_OK(MPI_Mrecv(in, BYTES, MPI_BYTE, &taken, &status));
        CHECK(in[0] == 'b' && in[BYTES - 1] == 'b');
        for (int length = 1; length <= BYTES; length += BYTES - 1) {
            memset(in, 0, BYTES);
            CHECK_OK(MPI_Recv(in, length, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, &status));
            CHECK(in[0] == 'b' && in[length - 1] == 'b');
            code = MPI_Recv(in, length, MPI_BYTE, 1, TAG + 3, MPI_COMM_WORLD, &status);
            CHECK_CLASS(code, MPIX_ERR_PROC_FAILED);
        }
        for (int tag = TAG; tag < TAG + 4; tag++) {
            if (tag == TAG + 2) continue;
            CHECK_CLASS(MPI_Recv(in, BYTES, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &status), MPIX_ERR_PROC_FAILED);
            CHECK_OK(MPI_Recv(in, BYTES, MPI_BYTE, 2, tag, MPI_COMM_WORLD, &status));
            CHECK_EQ(in[0], 'c');
        }
    } else {
        int tags[] = {TAG, TAG + 3, TAG + 1};
        if (rank == 1) {
            CHECK_OK(MPI_Send(out, 1, MPI_BYTE, 0, TAG, MPI_COMM_WORLD));
            CHECK_OK(MPI_Send(out, BYTES, MPI_BYTE, 0, TAG, MPI_COMM_WORLD));
            CHECK_OK(MPI_Send(out, BYTES, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD));
            CHECK_OK(MPI_Recv(&word, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            kill(getpid(), SIGKILL);
        }
        for (int i = 0; i < 3; i++) CHECK_OK(MPI_Send(out, BYTES, MPI_BYTE, 0, tags[i], MPI_COMM_WORLD));
    }
    if (rank == 0) printf("%s\n", check_failures ? "failures" : "ok");
    CHECK_OK(MPI_Finalize());
    return check_failures != 0;
}
