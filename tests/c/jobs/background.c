/* Messages that arrive while programs compute: background WHAT GATE. Rank 0 sends to the last
 * rank, and one of the two calls no MPI function until the other has made the file GATE. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 8 << 20, MANY = 100000 };

static unsigned char data[LONG];
static MPI_Request requests[MANY];
static int values[MANY];

static unsigned char byte(int at)
{
    return (unsigned char) (at * 7 + at / 255);
}

static void verify(void)
{
    for (int at = 0; at < LONG; at++)
        if (data[at] != byte(at)) {
            printf("byte %d is wrong\n", at);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
}

static void open_gate(const char *gate)
{
    fclose(fopen(gate, "w"));
}

static void compute(const char *gate)
{
    volatile double sum = 0;
    while (access(gate, F_OK))
        for (int i = 0; i < 100000; i++) sum += i;
}

int main(int argc, char **argv)
{
    const char *what = argv[1], *gate = argv[2];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "isend")) {
        if (rank == 0) {
            for (int at = 0; at < LONG; at++) data[at] = byte(at);
            MPI_Isend(data, LONG, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD, requests);
            compute(gate);
            MPI_Wait(requests, MPI_STATUS_IGNORE);
        } else if (rank == size - 1) {
            MPI_Recv(data, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            verify();
            open_gate(gate);
        }
    } else if (!strcmp(what, "many")) {
        if (rank == 0) {
            for (int n = 0; n < MANY; n++) {
                values[n] = n;
                MPI_Isend(&values[n], 1, MPI_INT, size - 1, 1, MPI_COMM_WORLD, &requests[n]);
            }
            compute(gate);
            MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        } else if (rank == size - 1) {
            for (int n = 0; n < MANY; n++) {
                int value;
                MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (value != n) MPI_Abort(MPI_COMM_WORLD, 4);
            }
            open_gate(gate);
        }
    } else {
        if (rank == 0) {
            for (int at = 0; at < LONG; at++) data[at] = byte(at);
            MPI_Send(data, LONG, MPI_BYTE, size - 1, 1, MPI_COMM_WORLD);
            open_gate(gate);
        } else if (rank == size - 1) {
            MPI_Irecv(data, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, requests);
            compute(gate);
            MPI_Wait(requests, MPI_STATUS_IGNORE);
            verify();
        }
    }
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
