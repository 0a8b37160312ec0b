// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy
// not over: lamd, because a daemon takes a message before its receive
/* Buffers of the process and of communicators: precedence, flushing, automatic ones. */
#include "check.h"

enum { BIG = 600000 }; /* longer than any eager limit */
static char space[1000], more[2 * BIG], message[BIG], got[BIG];

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Comm dup;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    void *gone;
    int bytes;
    MPI_Count many;

    check_where("none");
    CHECK_CLASS(MPI_Bsend(message, 1, MPI_CHAR, to, 0, dup), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Comm_detach_buffer(dup, &gone, &bytes), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Comm_flush_buffer(dup), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Buffer_flush(), MPI_ERR_BUFFER);

    check_where("the communicator's counts first");
    MPI_Buffer_attach(space, sizeof space);
    CHECK_CLASS(MPI_Bsend(message, BIG, MPI_CHAR, to, 0, dup), MPI_ERR_BUFFER);
    MPI_Comm_attach_buffer(dup, more, sizeof more);
    CHECK_CLASS(MPI_Comm_attach_buffer(dup, more, sizeof more), MPI_ERR_BUFFER);
    for (int i = 0; i < BIG; i++) message[i] = (char) (rank + i);
    CHECK_OK(MPI_Bsend(message, BIG, MPI_CHAR, to, 1, dup));
    memset(message, 0, sizeof message);
    MPI_Request request;
    CHECK_OK(MPI_Comm_iflush_buffer(dup, &request));
    int done = 0;
    if (size > 1) {
        /* No rank has received the message: it is long, so it waits. */
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        CHECK_EQ(done, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Recv(got, BIG, MPI_CHAR, from, 1, dup, MPI_STATUS_IGNORE);
    for (int i = 0; i < BIG; i++)
        if (!CHECK_EQ(got[i], (char) (from + i))) break;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_OK(MPI_Comm_flush_buffer(dup));
    CHECK_OK(MPI_Comm_detach_buffer_c(dup, &gone, &many));
    CHECK(gone == more);
    CHECK_EQ(many, sizeof more);

    check_where("automatic");
    CHECK_OK(MPI_Comm_attach_buffer(dup, MPI_BUFFER_AUTOMATIC, 0));
    CHECK_OK(MPI_Bsend(message, BIG, MPI_CHAR, to, 2, dup));
    MPI_Recv(got, BIG, MPI_CHAR, from, 2, dup, MPI_STATUS_IGNORE);
    CHECK_OK(MPI_Comm_detach_buffer(dup, &gone, &bytes));
    CHECK(gone == MPI_BUFFER_AUTOMATIC);

    check_where("the process's");
    CHECK_OK(MPI_Bsend(message, 100, MPI_CHAR, to, 3, dup));
    MPI_Recv(got, 100, MPI_CHAR, from, 3, dup, MPI_STATUS_IGNORE);
    CHECK_OK(MPI_Buffer_iflush(&request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_OK(MPI_Buffer_flush());
    CHECK_OK(MPI_Buffer_detach(&gone, &bytes));
    CHECK(gone == space);
    CHECK_EQ(bytes, sizeof space);

    if (size > 1) {
        check_where("a flush is of what is there");
        int go = 1;
        CHECK_OK(MPI_Buffer_attach(more, sizeof more));
        CHECK_OK(MPI_Bsend(message, BIG / 2, MPI_CHAR, to, 4, dup));
        CHECK_OK(MPI_Buffer_iflush(&request));
        CHECK_OK(MPI_Bsend(message, BIG / 2, MPI_CHAR, to, 5, dup));
        /* From the buffer of the process, although the communicator has one now. */
        CHECK_OK(MPI_Comm_attach_buffer(dup, space, sizeof space));
        CHECK_OK(MPI_Bsend(message, 100, MPI_CHAR, to, 6, dup));
        MPI_Recv(got, BIG / 2, MPI_CHAR, from, 4, dup, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&go, 1, MPI_INT, to, 7, &go, 1, MPI_INT, from, 7, dup, MPI_STATUS_IGNORE);
        MPI_Recv(got, 100, MPI_CHAR, from, 6, dup, MPI_STATUS_IGNORE);
        CHECK_OK(MPI_Comm_detach_buffer(dup, &gone, &bytes));
        MPI_Recv(got, BIG / 2, MPI_CHAR, from, 5, dup, MPI_STATUS_IGNORE);
        CHECK_OK(MPI_Buffer_detach(&gone, &bytes));
    }

    check_where("freed with a buffer");
    CHECK_OK(MPI_Comm_attach_buffer_c(dup, more, sizeof more));
    MPI_Comm_free(&dup);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    return check_end();
}
