/* connected SIDE FILE MODE: side 0 opens a port, writes its name to FILE, and accepts twice;
 * side 1 connects. All processes of one side exchange messages with all of the other, and then
 * all together. In modes 2 and 3 the last rank of side 0 or 1 fails after the second connection;
 * in mode 4 it fails after the disconnect. */
#include "../port_file.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 1 << 18 };

static int out[LONG], in[LONG];

int main(int argc, char **argv)
{
    int side = atoi(argv[1]), mode = atoi(argv[3]);
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, size, remote, sum, one = 1;
    MPI_Comm other, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) (side == 0 ? leave_port : await_port)(argv[2], port);
    for (int round = 0; round < 2; round++) {
        if (side == 0) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        } else {
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        }
        MPI_Comm_remote_size(other, &remote);
        if (round == 1 && (mode == 2 || mode == 3)) MPI_Barrier(other);
        if (round == 1 && mode == 2 + side) {
            if (rank == size - 1) kill(getpid(), SIGKILL);
            MPI_Recv(in, 1, MPI_INT, remote - 1, 99, other, MPI_STATUS_IGNORE);
        }
        for (int length = 1; length <= LONG; length *= 64)
            for (int peer = 0; peer < remote; peer++) {
                for (int i = 0; i < length; i++) out[i] = rank + i;
                memset(in, 0, sizeof in);
                MPI_Sendrecv(out, length, MPI_INT, peer, 5, in, length, MPI_INT, peer, 5, other, MPI_STATUS_IGNORE);
                for (int i = 0; i < length; i++)
                    if (in[i] != peer + i) MPI_Abort(MPI_COMM_WORLD, 7);
            }
        MPI_Intercomm_merge(other, side, &all);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        MPI_Bcast(out, LONG, MPI_INT, size + remote - 1, all);
        MPI_Barrier(all);
        if (rank == 0) printf("side %d: %d together\n", side, sum);
        MPI_Comm_free(&all);
        MPI_Comm_disconnect(&other);
    }
    if (mode == 4 && side == 1 && rank == size - 1) kill(getpid(), SIGKILL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mode == 4 && side == 0) sleep(1);
    MPI_Finalize();
    return 0;
}
