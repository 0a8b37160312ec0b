// ranks: 2
// transports: one
/* Both ranks send and receive, one of them late, in memory of MPI_Alloc_mem: the late one copies
 * the message out of its own mapping of the sender's memory. So the sender, which waits for a
 * message itself, has made no private copy, which only the kernel could read. */
#include "mpit.h"

enum { LENGTH = 64 * 1024, LATE_MS = 20 };

/* MPI_Waitall waits for its requests in their order: the receive is first. */
enum { SENDRECV, ISENDRECV, ISEND_AND_RECV, ISEND_AND_PROBE, WAITALL, PERSISTENT, PATTERNS };
static const char *const pattern_names[] = {"MPI_Sendrecv", "MPI_Isendrecv", "MPI_Isend, MPI_Recv",
                                            "MPI_Isend, MPI_Probe", "MPI_Waitall", "persistent requests"};

static unsigned char *out, *in;
static int partner;

static MPI_Comm world = MPI_COMM_WORLD;

static void exchange(int pattern)
{
    MPI_Request requests[2];
    MPI_Request *receive = &requests[0], *send = &requests[1];
    switch (pattern) {
    case SENDRECV:
        CHECK_OK(MPI_Sendrecv(out, LENGTH, MPI_BYTE, partner, 1, in, LENGTH, MPI_BYTE, partner, 1, world, MPI_STATUS_IGNORE));
        break;
    case ISENDRECV:
        CHECK_OK(MPI_Isendrecv(out, LENGTH, MPI_BYTE, partner, 1, in, LENGTH, MPI_BYTE, partner, 1, world, requests));
        CHECK_OK(MPI_Wait(requests, MPI_STATUS_IGNORE));
        break;
    case ISEND_AND_RECV:
    case ISEND_AND_PROBE:
        CHECK_OK(MPI_Isend(out, LENGTH, MPI_BYTE, partner, 1, world, send));
        if (pattern == ISEND_AND_PROBE) CHECK_OK(MPI_Probe(partner, 1, world, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Recv(in, LENGTH, MPI_BYTE, partner, 1, world, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(send, MPI_STATUS_IGNORE));
        break;
    case WAITALL:
        CHECK_OK(MPI_Irecv(in, LENGTH, MPI_BYTE, partner, 1, world, receive));
        CHECK_OK(MPI_Isend(out, LENGTH, MPI_BYTE, partner, 1, world, send));
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        break;
    case PERSISTENT:
        CHECK_OK(MPI_Recv_init(in, LENGTH, MPI_BYTE, partner, 1, world, receive));
        CHECK_OK(MPI_Send_init(out, LENGTH, MPI_BYTE, partner, 1, world, send));
        CHECK_OK(MPI_Startall(2, requests));
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK_OK(MPI_Request_free(receive));
        CHECK_OK(MPI_Request_free(send));
        break;
    }
}

int main(int argc, char **argv)
{
    MPI_T_pvar_session session;
    int threads;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &threads);
    check_begin(&argc, &argv);
    MPI_T_pvar_session_create(&session);
    partner = 1 - rank;
    CHECK_OK(MPI_Alloc_mem(LENGTH, MPI_INFO_NULL, &out));
    CHECK_OK(MPI_Alloc_mem(LENGTH, MPI_INFO_NULL, &in));
    /* The first messages may take another route: each pattern runs twice, and counts once. */
    for (int k = 0; k < 2 * PATTERNS; k++) {
        int pattern = k % PATTERNS;
        pattern_fill(out, LENGTH, (unsigned) (k + rank));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_T_pvar_handle read = started(session, "shm_single_copy_bytes", NULL);
        MPI_T_pvar_handle mapped = started(session, "shm_heap_copy_bytes", NULL);
        check_where("%s", pattern_names[pattern]);
        if (rank == 1) {
            CHECK_OK(MPI_Probe(partner, 1, world, MPI_STATUS_IGNORE));
            pause_ms(LATE_MS); /* the other one goes to sleep */
        }
        exchange(pattern);
        CHECK_EQ(pattern_differs(in, LENGTH, (unsigned) (k + partner)), -1);
        /* The early rank may read a copy that the late one made after its receives. */
        if (rank == 1 && k >= PATTERNS) {
            CHECK_EQ(value(session, read), 0);
            CHECK_EQ(value(session, mapped), LENGTH);
        }
        CHECK_OK(MPI_T_pvar_handle_free(session, &read));
        CHECK_OK(MPI_T_pvar_handle_free(session, &mapped));
    }
    CHECK_OK(MPI_Free_mem(out));
    CHECK_OK(MPI_Free_mem(in));
    MPI_T_pvar_session_free(&session);
    int failed = check_end();
    MPI_T_finalize();
    return failed;
}
