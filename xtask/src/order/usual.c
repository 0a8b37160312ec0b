/* What most programs do, for `cargo xtask order`, which records the functions that it takes: usual RANK FILE.
 *
 * RANK is recorded, and slow. Everything is done twice: once the others are there long before it, once it has to wait for
 * them. FILE tells them that it has come through MPI_Init. MPI_Pcontrol divides the record into parts: what every program needs to
 * come up, messages, collectives, and MPI_Finalize. */
#include <mpi.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONGEST = 1 << 20, MANY = 16, PATIENCE_S = 60, PAUSE_US = 20000 };

static int rank, size, recorded;

/* The others let the recorded one wait, if they are to be late. */
static void begin(int late) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (late && rank != recorded)
        usleep(PAUSE_US);
}

/* The others wait until the recorded one waits for them. */
static void meet(const char *file) {
    if (rank == recorded) {
        int fd = open(file, O_CREAT | O_WRONLY, 0600);
        if (fd < 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        close(fd);
        return;
    }
    for (int s = 0; access(file, F_OK) != 0; s++) {
        if (s == PATIENCE_S * 10)
            MPI_Abort(MPI_COMM_WORLD, 1);
        usleep(100000);
    }
    usleep(500000);
}

static void messages(char *out, char *in, int bytes, int late) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request requests[2];
    MPI_Status status;
    int there, which;
    begin(late);
    if (rank % 2 == 0) {
        MPI_Send(out, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &status);
    } else {
        MPI_Recv(in, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
    }
    begin(late);
    MPI_Irecv(in, bytes, MPI_BYTE, left, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, bytes, MPI_BYTE, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    begin(late);
    MPI_Isend(out, bytes, MPI_BYTE, right, 3, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[1], &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_BYTE, &there);
    begin(late);
    MPI_Sendrecv(out, bytes, MPI_BYTE, right, 4, in, bytes, MPI_BYTE, left, 4, MPI_COMM_WORLD, &status);
    begin(late);
    MPI_Isend(out, bytes, MPI_BYTE, right, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Iprobe(left, 5, MPI_COMM_WORLD, &there, &status);
    MPI_Probe(left, 5, MPI_COMM_WORLD, &status);
    MPI_Irecv(in, bytes, MPI_BYTE, left, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &which, &status);
    do
        MPI_Test(&requests[1 - which], &there, &status);
    while (!there);
}

/* Windows of messages, each way at once, to everyone. */
static void streams(char *out, char *in, int bytes, int late) {
    MPI_Request requests[2 * MANY];
    for (int d = 1; d < size; d++) {
        begin(late);
        for (int n = 0; n < MANY; n++) {
            MPI_Irecv(in + n * bytes, bytes, MPI_BYTE, (rank + size - d) % size, 6, MPI_COMM_WORLD, &requests[n]);
            MPI_Isend(out + n * bytes, bytes, MPI_BYTE, (rank + d) % size, 6, MPI_COMM_WORLD, &requests[MANY + n]);
        }
        MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
    }
}

static void collectives(MPI_Comm comm, double *out, double *in, int count, int late) {
    begin(late);
    MPI_Bcast(out, count, MPI_DOUBLE, 0, comm);
    begin(late);
    MPI_Reduce(out, in, count, MPI_DOUBLE, MPI_SUM, 0, comm);
    begin(late);
    MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, comm);
    begin(late);
    MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_MAX, comm);
    begin(late);
    MPI_Gather(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, 0, comm);
    begin(late);
    MPI_Scatter(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, 0, comm);
    begin(late);
    MPI_Allgather(out, count, MPI_DOUBLE, in, count, MPI_DOUBLE, comm);
    begin(late);
    MPI_Alltoall(in, count, MPI_DOUBLE, out, count, MPI_DOUBLE, comm);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 1);
    recorded = atoi(argv[1]);
    double begun = MPI_Wtime();
    meet(argv[2]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);

    char *out = calloc(size, LONGEST), *in = calloc(size, LONGEST);
    for (int late = 0; late < 2; late++) {
        for (int bytes = 8; bytes <= LONGEST; bytes *= 32)
            messages(out, in, bytes, late);
        messages(out, in, LONGEST, late);
        for (int bytes = 8; bytes <= LONGEST / MANY; bytes *= 32)
            streams(out, in, bytes, late);
    }
    MPI_Pcontrol(1);
    for (int late = 0; late < 2; late++) {
        MPI_Comm row, copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &row);
        for (int count = 1; count <= LONGEST / 8; count *= 256) {
            collectives(MPI_COMM_WORLD, (double *) out, (double *) in, count, late);
            collectives(row, (double *) out, (double *) in, count, late);
        }
        MPI_Comm_free(&row);
        MPI_Comm_free(&copy);
    }
    MPI_Pcontrol(1);
    free(out);
    free(in);
    begun = MPI_Wtime() - begun;
    MPI_Finalize();
    return begun < 0;
}
