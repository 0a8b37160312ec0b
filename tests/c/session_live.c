// ranks: 1 2 4 7
// transports: all
/* Objects that exist at MPI_Session_finalize, and at MPI_Finalize while a session lives. */
#include "sessions.h"

/* Active operations are an error that loses nothing. */
static void requests(void)
{
    check_where("requests");
    MPI_Session session = open_session(), kept;
    MPI_Comm comm = comm_of(session, "requests");
    MPI_Request request, barrier;
    int me, n, got = -1;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    kept = session;
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, me, 3, comm, &request));
    CHECK_CLASS(MPI_Session_finalize(&session), MPI_ERR_PENDING);
    CHECK(session == kept);
    CHECK_OK(MPI_Send(&me, 1, MPI_INT, me, 3, comm));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(got, me);
    if (n > 1) {
        /* No rank can have finished before rank 0 comes. */
        MPI_Comm gate;
        MPI_Comm_dup(comm, &gate);
        if (me > 0) {
            CHECK_OK(MPI_Ibarrier(comm, &barrier));
            CHECK_CLASS(MPI_Session_finalize(&session), MPI_ERR_PENDING);
            CHECK_OK(MPI_Barrier(gate));
        } else {
            CHECK_OK(MPI_Barrier(gate));
            CHECK_OK(MPI_Ibarrier(comm, &barrier));
        }
        CHECK_OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
    }
    MPI_Request persistent;
    CHECK_OK(MPI_Send_init(&me, 1, MPI_INT, me, 0, comm, &persistent));
    exercise(comm);
    CHECK_OK(MPI_Request_free(&persistent));
    close_session(&session);
}

static void messages(void)
{
    enum { LONG = 300000 };
    check_where("messages");
    MPI_Session session = open_session();
    MPI_Comm comm = comm_of(session, "messages");
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    unsigned char *out = malloc(LONG), *in = malloc(LONG);
    pattern_fill(out, LONG, (unsigned) me);
    MPI_Request request;
    if (n > 1 && me == 0) {
        CHECK_OK(MPI_Isend(out, LONG, MPI_BYTE, n - 1, 1, comm, &request));
        CHECK_OK(MPI_Request_free(&request));
    }
    if (n > 1 && me == n - 1) {
        usleep(10000);
        CHECK_OK(MPI_Recv(in, LONG, MPI_BYTE, 0, 1, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(in, LONG, 0), -1);
    }
    /* The end of the session disconnects the communicator, and its groups and further
     * communicators. */
    MPI_Comm more;
    MPI_Group group;
    CHECK_OK(MPI_Comm_dup(comm, &more));
    CHECK_OK(MPI_Comm_group(more, &group));
    MPI_Session other = open_session();
    close_session(&session);
    MPI_Comm again = comm_of(other, "again");
    exercise(again);
    MPI_Comm_free(&again);
    close_session(&other);
    free(out);
    free(in);
}

static void handles(void)
{
    check_where("handles");
    MPI_Session session = open_session();
    MPI_Comm comm = comm_of(session, "handles");
    MPI_Group group = group_of(session, "mpi://WORLD");
    int n = 0, me = -1;
    close_session(&session);
    CHECK_CLASS(MPI_Comm_size(comm, &n), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Send(&n, 0, MPI_INT, 0, 0, comm), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_free(&comm), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Group_rank(group, &me), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n), MPI_ERR_SESSION);
}

static void world(void)
{
    enum { LONG = 300000 };
    check_where("world");
    MPI_Session session = open_session();
    MPI_Comm comm = comm_of(session, "world"), duplicate;
    MPI_Request request;
    unsigned char *out = malloc(LONG), *in = malloc(LONG);
    pattern_fill(out, LONG, (unsigned) rank);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
    if (size > 1 && rank == 0) {
        CHECK_OK(MPI_Isend(out, LONG, MPI_BYTE, size - 1, 1, duplicate, &request));
        CHECK_OK(MPI_Request_free(&request));
    }
    if (size > 1 && rank == size - 1) {
        usleep(10000);
        CHECK_OK(MPI_Recv(in, LONG, MPI_BYTE, 0, 1, duplicate, MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(in, LONG, 0), -1);
    }
    CHECK_OK(MPI_Finalize());
    exercise(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    close_session(&session);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_watch();
    requests();
    MPI_Init(&argc, &argv);
    check_ranks();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, RETURN);
    requests();
    messages();
    handles();
    world();
    return sessions_end();
}
