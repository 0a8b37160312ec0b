// ranks: 2
// transports: near
// every day: shm-single-copy
// not over: shm-denied, because without single copy a receiver needs the sender in the library
// not over: usysv, because a message announced in a postbox needs its sender in the library
// not over: sysv, because a message announced in a postbox needs its sender in the library
/* A long message whose sender has just waited in the library for something else, and leaves it:
 * its receiver, which may have requested the data meanwhile, gets them while the sender computes
 * until then. */
#define _GNU_SOURCE
#include "counters.h"

enum { LONGEST = 3 << 20, ROUNDS = 60, LIMIT_S = 10 };

static unsigned char out[LONGEST], in[LONGEST];

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    counters_open();
    int rounds = scaled(ROUNDS);
    for (int i = 0; i < rounds; i++) {
        int length = i % 3 == 2 ? LONGEST : 1 << 20, sends = (rank + i) % 2 == 0;
        check_where("round %d", i);
        if (sends) {
            MPI_Request request;
            for (int at = 0; at < length; at++) out[at] = pattern_byte((unsigned) i, at);
            CHECK_OK(MPI_Isend(out, length, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            compute_until(i % COUNTERS, 1 + i / COUNTERS, LIMIT_S);
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            CHECK_OK(MPI_Recv(in, LONGEST, MPI_BYTE, rank ^ 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(pattern_differs(in, length, (unsigned) i), -1);
            counter_add(i % COUNTERS);
        }
    }
    return check_end();
}
