// ranks: 2 4
// transports: all
// every day: shm-single-copy
/* 100000 sends are complete, then their sender computes as long as necessary: all are received
 * meanwhile, and none waits for a call of the sender, not even MPI_Finalize. */
#define _GNU_SOURCE
#include "counters.h"

enum { MESSAGES = 100000, LIMIT_S = 40 };
enum { DONE };

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
    compute_until(DONE, size / 2, LIMIT_S);
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
    counter_add(DONE);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    counters_open();
    int messages = scaled(MESSAGES);
    if (rank % 2 == 0) send_and_compute(rank + 1, messages);
    else receive(rank - 1, messages);
    return check_end();
}
