/* Common parts of the tests of sessions. */
#ifndef SESSIONS_H
#define SESSIONS_H

#include "check.h"

#define FATAL MPI_ERRORS_ARE_FATAL
#define RETURN MPI_ERRORS_RETURN

static inline MPI_Session open_session(void)
{
    MPI_Session session = MPI_SESSION_NULL;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, RETURN, &session));
    CHECK(session != MPI_SESSION_NULL);
    return session;
}

static inline void close_session(MPI_Session *session)
{
    CHECK_OK(MPI_Session_finalize(session));
    CHECK(*session == MPI_SESSION_NULL);
}

static inline MPI_Group group_of(MPI_Session session, const char *set)
{
    MPI_Group group = MPI_GROUP_NULL;
    CHECK_OK(MPI_Group_from_session_pset(session, set, &group));
    return group;
}

static inline MPI_Comm comm_of(MPI_Session session, const char *tag)
{
    MPI_Group group = group_of(session, "mpi://WORLD");
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK_OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, RETURN, &comm));
    CHECK_OK(MPI_Group_free(&group));
    return comm;
}

static inline void exercise(MPI_Comm comm)
{
    static const int lengths[] = {0, 1, 8, 1000, 100000};
    int me, n, sum = 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        unsigned char *out = malloc((size_t) lengths[i] + 1), *in = malloc((size_t) lengths[i] + 1);
        pattern_fill(out, (size_t) lengths[i], (unsigned) me);
        CHECK_OK(MPI_Sendrecv(out, lengths[i], MPI_BYTE, (me + 1) % n, 7, in, lengths[i], MPI_BYTE, (me + n - 1) % n, 7,
                              comm, MPI_STATUS_IGNORE));
        CHECK_EQ(pattern_differs(in, (size_t) lengths[i], (unsigned) ((me + n - 1) % n)), -1);
        free(out);
        free(in);
    }
    CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, n * (n - 1) / 2);
}

static inline int sessions_end(void)
{
    MPI_Session session = open_session();
    MPI_Comm comm = comm_of(session, "verdict");
    int total = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Allreduce(&check_failures, &total, 1, MPI_INT, MPI_SUM, comm);
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    fflush(stdout);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
    return total != 0 || check_failures != 0;
}

#endif
