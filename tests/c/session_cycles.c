// ranks: 1 2 4 7
// transports: all
// every day: tcp-encrypted lamd ofi
/* Sessions before, during and after the World Model, many times, with the results of
 * MPI_Initialized and its like meanwhile. */
#include "sessions.h"

static void expect(int initialized, int finalized)
{
    int flag = -1;
    CHECK_OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, initialized);
    CHECK_OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, finalized);
}

static void cycle(const char *tag)
{
    MPI_Session session = open_session();
    MPI_Comm comm = comm_of(session, tag);
    exercise(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    close_session(&session);
}

static void overlap(void)
{
    MPI_Session first = open_session(), second = open_session();
    MPI_Comm one = comm_of(first, "one"), other = comm_of(second, "other");
    exercise(one);
    CHECK_OK(MPI_Comm_free(&one));
    close_session(&first);
    exercise(other);
    MPI_Session third = open_session();
    CHECK_OK(MPI_Comm_disconnect(&other));
    close_session(&second);
    one = comm_of(third, "third");
    exercise(one);
    CHECK_OK(MPI_Comm_disconnect(&one));
    close_session(&third);
}

/* The last messages of a session are delivered though its end follows, and some ranks are slow
 * to begin the next one. */
static void stragglers(void)
{
    for (int i = 0; i < 4; i++) {
        MPI_Session session = open_session();
        MPI_Comm comm = comm_of(session, "stragglers");
        int me, n, got = -1;
        MPI_Comm_rank(comm, &me);
        MPI_Comm_size(comm, &n);
        if (me == 0)
            for (int to = 1; to < n; to++) CHECK_OK(MPI_Send(&i, 1, MPI_INT, to, i, comm));
        else {
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, i, comm, MPI_STATUS_IGNORE));
            CHECK_EQ(got, i);
        }
        CHECK_OK(MPI_Comm_free(&comm));
        close_session(&session);
        if (me == i % n) usleep(20000);
    }
}

static void names(void)
{
    char name[MPI_MAX_PROCESSOR_NAME], version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0, level = -1, flag = -1;
    CHECK_OK(MPI_Get_processor_name(name, &length));
    CHECK(length > 0);
    CHECK_OK(MPI_Get_library_version(version, &length));
    CHECK_OK(MPI_Query_thread(&level));
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(flag, 1);
    CHECK(MPI_Wtime() >= 0);
}

int main(int argc, char **argv)
{
    check_watch();
    expect(0, 0);
    check_where("before MPI_Init");
    for (int i = 0; i < 20; i++) cycle("before");
    overlap();
    stragglers();
    MPI_Session before = open_session();
    names();
    expect(0, 0);
    MPI_Comm over = comm_of(before, "over");
    check_where("during the World Model");
    CHECK_OK(MPI_Init(&argc, &argv));
    check_ranks();
    expect(1, 0);
    exercise(over);
    exercise(MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++) cycle("during");
    overlap();
    exercise(MPI_COMM_WORLD);
    CHECK_OK(MPI_Finalize());
    check_where("after MPI_Finalize");
    expect(1, 1);
    exercise(over);
    CHECK_OK(MPI_Comm_free(&over));
    close_session(&before);
    expect(1, 1);
    for (int i = 0; i < 20; i++) cycle("after");
    overlap();
    stragglers();
    expect(1, 1);
    return sessions_end();
}
