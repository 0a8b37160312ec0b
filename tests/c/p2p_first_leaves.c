// ranks: 2 8
// transports: all
// every day: tcp-shared
// not over: tcp, because its ranks compute before a collective's first message comes
// not over: gm, because a first contact needs both processes in the library
// not over: nodes, because its ranks compute before a collective's first message comes
// not over: lamd, because its ranks compute before a collective's first message comes
// not over: tcp-encrypted, because its ranks compute before a collective's first message comes
/* The first message between two ranks leaves at once: its send is complete while the receiver
 * computes, and the receiver then gets it while the sender computes. Each pair of ranks sends in
 * another mode. */
#define _GNU_SOURCE
#include "counters.h"

enum { LIMIT_S = 20, BYTES = 100 };
enum { POSTED = 0, SENT = 8, RECEIVED = 16 };

static void send_first(const char *out, int to, int pair)
{
    static char room[BYTES + MPI_BSEND_OVERHEAD];
    MPI_Request request;
    int flag = 0;
    switch (pair) {
    case 0: CHECK_OK(MPI_Send(out, BYTES, MPI_CHAR, to, 5, MPI_COMM_WORLD)); break;
    case 1:
        CHECK_OK(MPI_Buffer_attach(room, sizeof room));
        CHECK_OK(MPI_Bsend(out, BYTES, MPI_CHAR, to, 5, MPI_COMM_WORLD));
        break;
    case 2:
        CHECK_OK(MPI_Isend(out, BYTES, MPI_CHAR, to, 5, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(flag);
        if (!flag) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 3: CHECK_OK(MPI_Rsend(out, BYTES, MPI_CHAR, to, 5, MPI_COMM_WORLD)); break;
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    counters_open();
    char bytes[BYTES];
    int pair = rank / 2, peer = rank ^ 1;
    check_where("pair %d", pair);
    if (rank % 2 == 0) {
        compute_until(POSTED + pair, 1, LIMIT_S);
        for (int at = 0; at < BYTES; at++) bytes[at] = (char) pattern_byte((unsigned) pair, at);
        send_first(bytes, peer, pair);
        memset(bytes, 0, sizeof bytes);
        counter_add(SENT + pair);
        compute_until(RECEIVED + pair, 1, LIMIT_S);
    } else {
        MPI_Request request;
        MPI_Status status;
        int count;
        CHECK_OK(MPI_Irecv(bytes, BYTES, MPI_CHAR, peer, 5, MPI_COMM_WORLD, &request));
        counter_add(POSTED + pair);
        compute_until(SENT + pair, 1, LIMIT_S);
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, BYTES);
        CHECK_EQ(pattern_differs(bytes, BYTES, (unsigned) pair), -1);
        counter_add(RECEIVED + pair);
    }
    if (rank == 2) {
        void *room;
        int length;
        CHECK_OK(MPI_Buffer_detach(&room, &length));
    }
    return check_end();
}
