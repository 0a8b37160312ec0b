/* quiesced_port SIDE FILE: side 0 opens a port and writes its name to FILE, side 1 connects, and
 * all processes exchange messages with all of the other side. Then side 0 waits for messages of
 * side 1 without sending, while another process ends its connections; side 1 sends when FILE.go
 * exists. Rank 0 of each side prints "met", and "whole" if nothing was wrong. */
#include "../port_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH = 100000 };

static int out[LENGTH], in[LENGTH];

static void wrong(const char *what)
{
    fprintf(stderr, "%s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 7);
}

int main(int argc, char **argv)
{
    int side = atoi(argv[1]), rank, remote, flag;
    char port[MPI_MAX_PORT_NAME] = "", name[1000];
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) (side == 0 ? leave_port : await_port)(argv[2], port);
    if (side == 0)
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    else
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    MPI_Comm_remote_size(other, &remote);
    for (int peer = 0; peer < remote; peer++) {
        MPI_Sendrecv(&rank, 1, MPI_INT, peer, 1, in, 1, MPI_INT, peer, 1, other, MPI_STATUS_IGNORE);
        if (in[0] != peer) wrong("the first messages are wrong");
    }
    MPI_Barrier(other);
    if (rank == 0) {
        printf("met\n");
        fflush(stdout);
    }
    snprintf(name, sizeof name, "%s.go", argv[2]);
    if (side == 1) {
        /* The library polls meanwhile, and finds the ended connections. */
        while (access(name, F_OK) != 0) {
            MPI_Iprobe(MPI_ANY_SOURCE, 3, other, &flag, MPI_STATUS_IGNORE);
            usleep(1000);
        }
        for (int i = 0; i < LENGTH; i++) out[i] = rank + i;
        for (int peer = 0; peer < remote; peer++) MPI_Send(out, LENGTH, MPI_INT, peer, 2, other);
    } else {
        for (int peer = 0; peer < remote; peer++) {
            MPI_Recv(in, LENGTH, MPI_INT, peer, 2, other, MPI_STATUS_IGNORE);
            for (int i = 0; i < LENGTH; i++)
                if (in[i] != peer + i) wrong("the last messages are wrong");
        }
    }
    MPI_Barrier(other);
    MPI_Comm_disconnect(&other);
    if (rank == 0) printf("whole\n");
    MPI_Finalize();
    return 0;
}
