// ranks: 1 2 4 7
// transports: all
// every day: tcp-encrypted lamd ofi
/* MPI_Comm_free with messages under way, which still arrive, and MPI_Comm_disconnect, which
 * waits for them. */
#include "comms.h"

enum { LONG = 300000, MANY = 20 };

static void freed_with_traffic(MPI_Comm comm, int to, int from, int seed_to, int seed_from)
{
    unsigned char *out = allocate(LONG * 2), *in = allocate(LONG * 2);
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int sizes[2] = {100, LONG};
    for (int i = 0; i < 2; i++) {
        memset(in + i * LONG, 0, LONG);
        pattern_fill(out + i * LONG, sizes[i], (unsigned) (seed_to + i));
        CHECK_OK(MPI_Irecv(in + i * LONG, LONG, MPI_BYTE, from, i, comm, &requests[i]));
        CHECK_OK(MPI_Issend(out + i * LONG, sizes[i], MPI_BYTE, to, i, comm, &requests[2 + i]));
    }
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK(comm == MPI_COMM_NULL);
    /* Communicators that are made meanwhile must not be taken for it. */
    for (int i = 0; i < 3; i++) {
        MPI_Comm other;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        use(other);
        CHECK_OK(MPI_Comm_free(&other));
    }
    CHECK_OK(MPI_Waitall(4, requests, statuses));
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(&statuses[i], from, i, sizes[i]);
        CHECK_EQ(pattern_differs(in + i * LONG, sizes[i], (unsigned) (seed_from + i)), -1);
    }
    free(out);
    free(in);
}

static void freed(void)
{
    MPI_Comm comm, half;
    check_where("freed with traffic");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    freed_with_traffic(comm, right, left, rank, left);
    if (size % 2) return;
    check_where("an intercommunicator freed with traffic");
    comm = even_odd(&half, 1);
    CHECK_OK(MPI_Comm_free(&half));
    freed_with_traffic(comm, rank / 2, rank / 2, rank, rank ^ 1);
}

static void disconnected(void)
{
    static int out[MANY], in[MANY];
    MPI_Comm comm;
    check_where("disconnected");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    int right = (rank + 1) % size, left = (rank + size - 1) % size, sum = -1, one = 1;
    unsigned char *long_out = allocate(LONG), *long_in = allocate(LONG);
    MPI_Request requests[4], all;
    pattern_fill(long_out, LONG, (unsigned) rank);
    for (int i = 0; i < MANY; i++) {
        out[i] = 100 * rank + i;
        in[i] = -1;
        MPI_Request request;
        CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, right, i, comm, &request));
        CHECK_OK(MPI_Request_free(&request));
        CHECK_OK(MPI_Irecv(&in[i], 1, MPI_INT, left, i, comm, &request));
        CHECK_OK(MPI_Request_free(&request));
    }
    CHECK_OK(MPI_Isend(long_out, LONG, MPI_BYTE, right, MANY, comm, &requests[0]));
    CHECK_OK(MPI_Irecv(long_in, LONG, MPI_BYTE, left, MANY, comm, &requests[1]));
    CHECK_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &all));
    CHECK_OK(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL);
    for (int i = 0; i < MANY; i++) CHECK_EQ(in[i], 100 * left + i);
    CHECK_EQ(pattern_differs(long_in, LONG, (unsigned) left), -1);
    CHECK_EQ(sum, size);
    int flag = 0;
    CHECK_OK(MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 1);
    CHECK_OK(MPI_Wait(&all, MPI_STATUS_IGNORE));
    free(long_out);
    free(long_in);
}

static void disconnected_inter(void)
{
    MPI_Comm comm, half;
    int in = -1, me, n;
    if (size < 2) return;
    check_where("an intercommunicator disconnected");
    comm = even_odd(&half, 1);
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_remote_size(comm, &n));
    if (me < n) {
        MPI_Request request;
        CHECK_OK(MPI_Irecv(&in, 1, MPI_INT, me, 0, comm, &request));
        if (rank % 2) pause_ms(20);
        CHECK_OK(MPI_Ssend(&rank, 1, MPI_INT, me, 0, comm));
        CHECK_OK(MPI_Request_free(&request));
    }
    CHECK_OK(MPI_Comm_disconnect(&comm));
    if (me < n) CHECK_EQ(in, rank ^ 1);
    CHECK_OK(MPI_Comm_disconnect(&half));
    CHECK(half == MPI_COMM_NULL && comm == MPI_COMM_NULL);
}

static void arguments(void)
{
    MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF, none = MPI_COMM_NULL, twin, kept;
    check_where("arguments");
    CHECK_CLASS(MPI_Comm_disconnect(&world), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_disconnect(&self), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_disconnect(&none), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_disconnect(NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_free(&world), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_free(NULL), MPI_ERR_ARG);
    CHECK(world == MPI_COMM_WORLD && self == MPI_COMM_SELF);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    kept = twin;
    CHECK_OK(MPI_Comm_disconnect(&twin));
    CHECK_CLASS(MPI_Comm_disconnect(&kept), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_free(&kept), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_rank(kept, &(int){0}), MPI_ERR_COMM);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    for (int round = 0; round < 5; round++) {
        freed();
        disconnected();
        disconnected_inter();
        arguments();
    }
    return check_end();
}
