// ranks: 1 2 4 7
// transports: all
/* Buffers of sessions for buffered sends: their precedence, and that all is delivered. */
#include "sessions.h"

enum { BYTES = 1000, ROOM = 4 * (BYTES + MPI_BSEND_OVERHEAD) };

static char buffer[ROOM], other_buffer[ROOM], message[BYTES], received[BYTES];
static int me, n;

static void receive(int count, int tag, MPI_Comm comm)
{
    for (int i = 0; i < count; i++)
        CHECK_OK(MPI_Recv(received, BYTES, MPI_BYTE, (me + n - 1) % n, tag, comm, MPI_STATUS_IGNORE));
}

static void detach(MPI_Session session, const void *wanted)
{
    void *address = NULL;
    int bytes = -1;
    CHECK_OK(MPI_Session_detach_buffer(session, &address, &bytes));
    CHECK(address == wanted);
    CHECK_EQ(bytes, ROOM);
}

static void counts(void)
{
    MPI_Session session = open_session(), other = open_session();
    MPI_Comm early = comm_of(session, "early"), stranger = comm_of(other, "stranger");
    MPI_Request flush;
    void *address;
    int bytes, next;
    MPI_Comm_rank(early, &me);
    MPI_Comm_size(early, &n);
    next = (me + 1) % n;
    check_where("none is attached");
    CHECK_CLASS(MPI_Bsend(message, BYTES, MPI_BYTE, next, 0, early), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Session_detach_buffer(session, &address, &bytes), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Session_flush_buffer(session), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Session_iflush_buffer(session, &flush), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Session_attach_buffer(session, buffer, -1), MPI_ERR_COUNT);
    check_where("one of the session");
    CHECK_OK(MPI_Session_attach_buffer(session, buffer, ROOM));
    CHECK_CLASS(MPI_Session_attach_buffer(session, other_buffer, ROOM), MPI_ERR_BUFFER);
    MPI_Comm late;
    CHECK_OK(MPI_Comm_dup(early, &late));
    CHECK_OK(MPI_Bsend(message, BYTES, MPI_BYTE, next, 1, early));
    CHECK_OK(MPI_Bsend(message, BYTES, MPI_BYTE, next, 1, late));
    CHECK_CLASS(MPI_Bsend(buffer, ROOM, MPI_BYTE, next, 1, late), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Bsend(message, BYTES, MPI_BYTE, next, 1, stranger), MPI_ERR_BUFFER);
    receive(1, 1, early);
    receive(1, 1, late);
    CHECK_OK(MPI_Session_flush_buffer(session));
    CHECK_OK(MPI_Session_iflush_buffer(session, &flush));
    CHECK_OK(MPI_Wait(&flush, MPI_STATUS_IGNORE));
    check_where("one of the communicator before it");
    CHECK_OK(MPI_Comm_attach_buffer(late, other_buffer, BYTES));
    CHECK_CLASS(MPI_Bsend(message, BYTES, MPI_BYTE, next, 2, late), MPI_ERR_BUFFER);
    CHECK_OK(MPI_Comm_detach_buffer(late, &address, &bytes));
    CHECK_OK(MPI_Bsend(message, BYTES, MPI_BYTE, next, 2, late));
    receive(1, 2, late);
    detach(session, buffer);
    CHECK_CLASS(MPI_Bsend(message, BYTES, MPI_BYTE, next, 3, late), MPI_ERR_BUFFER);
    check_where("one of the process behind it");
    CHECK_OK(MPI_Buffer_attach(buffer, ROOM));
    CHECK_OK(MPI_Session_attach_buffer(session, other_buffer, BYTES));
    CHECK_CLASS(MPI_Bsend(message, BYTES, MPI_BYTE, next, 4, late), MPI_ERR_BUFFER);
    CHECK_OK(MPI_Bsend(message, BYTES, MPI_BYTE, next, 4, stranger));
    receive(1, 4, stranger);
    MPI_Count count;
    CHECK_OK(MPI_Session_detach_buffer_c(session, &address, &count));
    CHECK(address == other_buffer && count == BYTES);
    CHECK_OK(MPI_Bsend(message, BYTES, MPI_BYTE, next, 5, late));
    receive(1, 5, late);
    CHECK_OK(MPI_Buffer_detach(&address, &bytes));
    check_where("the library finds the room");
    CHECK_OK(MPI_Session_attach_buffer_c(session, MPI_BUFFER_AUTOMATIC, 0));
    for (int i = 0; i < 100; i++) CHECK_OK(MPI_Bsend(message, BYTES, MPI_BYTE, next, 6, early));
    receive(100, 6, early);
    CHECK_OK(MPI_Session_detach_buffer(session, &address, &bytes));
    CHECK(address == MPI_BUFFER_AUTOMATIC);
    MPI_Comm_free(&early);
    MPI_Comm_free(&late);
    MPI_Comm_free(&stranger);
    close_session(&session);
    close_session(&other);
}

static void delivers(void)
{
    check_where("the end delivers");
    MPI_Session session = open_session(), kept = open_session();
    MPI_Comm comm = comm_of(session, "delivers");
    CHECK_OK(MPI_Session_attach_buffer(session, buffer, ROOM));
    pattern_fill(message, BYTES, (unsigned) me);
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Bsend(message, BYTES, MPI_BYTE, (me + 1) % n, 0, comm));
    memset(message, 0, BYTES);
    if (me % 2) usleep(5000);
    receive(3, 0, comm);
    CHECK_EQ(pattern_differs(received, BYTES, (unsigned) ((me + n - 1) % n)), -1);
    close_session(&session);
    CHECK_OK(MPI_Session_attach_buffer(kept, buffer, ROOM));
    detach(kept, buffer);
    close_session(&kept);
}

int main(void)
{
    check_watch();
    counts();
    delivers();
    return sessions_end();
}
