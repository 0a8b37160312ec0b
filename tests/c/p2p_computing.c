// ranks: 2 4
/* 100000 sends are complete, then their sender computes for as long as it takes: all of them are received meanwhile, and none waits
 * for a call of the sender's, let alone for its MPI_Finalize. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MESSAGES = 100000, LIMIT_S = 40 };

/* How many receivers have everything, for those who call no MPI. */
static atomic_int *done;

static void open_count(void)
{
    char name[64] = "/tmp/oxmpi-computing-XXXXXX";
    if (rank == 0) {
        int file = mkstemp(name);
        if (file < 0 || ftruncate(file, sizeof *done) != 0) name[0] = 0;
        if (file >= 0) close(file);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    int file = open(name, O_RDWR);
    if (!CHECK(file >= 0)) MPI_Abort(MPI_COMM_WORLD, 1);
    done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) unlink(name);
    if (!CHECK(done != MAP_FAILED)) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void send_and_compute(int to, int messages)
{
    long *values = allocate(messages * sizeof *values);
    MPI_Request *sends = allocate(messages * sizeof *sends);
    for (int i = 0; i < messages; i++) {
        values[i] = i;
        CHECK_OK(MPI_Isend(&values[i], 1, MPI_LONG, to, 3, MPI_COMM_WORLD, &sends[i]));
    }
    CHECK_OK(MPI_Waitall(messages, sends, MPI_STATUSES_IGNORE));
    memset(values, 0xff, messages * sizeof *values);
    double end = MPI_Wtime() + LIMIT_S;
    while (atomic_load(done) < size / 2 && MPI_Wtime() < end) sched_yield();
    CHECK_EQ(atomic_load(done), size / 2);
    free(values);
    free(sends);
}

static void receive(int from, int messages)
{
    pause_ms(100);
    for (int i = 0; i < messages; i++) {
        long value = -1;
        CHECK_OK(MPI_Recv(&value, 1, MPI_LONG, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(value, i);
    }
    atomic_fetch_add(done, 1);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    open_count();
    int messages = scaled(MESSAGES);
    if (rank % 2 == 0) send_and_compute(rank + 1, messages);
    else receive(rank - 1, messages);
    return check_end();
}
