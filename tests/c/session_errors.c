// ranks: 1 2 4 7
// transports: one
/* The precedence of error handlers: the session's, the argument of a creating call, and that of
 * calls without an object. */
#include "sessions.h"

static int told, told_code;
static MPI_Session told_session;
static MPI_Comm told_comm;

static void on_session(MPI_Session *session, int *code, ...)
{
    told++;
    told_code = *code;
    told_session = *session;
}

static void on_comm(MPI_Comm *comm, int *code, ...)
{
    told++;
    told_code = *code;
    told_comm = *comm;
}

static void of_sessions(void)
{
    check_where("of sessions");
    MPI_Errhandler mine, for_comms, got;
    MPI_Session session;
    MPI_Group group;
    int length = 0;
    CHECK_OK(MPI_Session_create_errhandler(on_session, &mine));
    CHECK_OK(MPI_Comm_create_errhandler(on_comm, &for_comms));
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, mine, &session));
    CHECK_OK(MPI_Session_get_errhandler(session, &got));
    CHECK(got == mine);
    CHECK_OK(MPI_Errhandler_free(&got));
    CHECK_OK(MPI_Errhandler_free(&mine));
    told = 0;
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, NULL), MPI_ERR_ARG);
    CHECK(told == 1 && told_code == MPI_ERR_ARG && told_session == session);
    CHECK_CLASS(MPI_Group_from_session_pset(session, "nowhere", &group), MPI_ERR_ARG);
    CHECK_EQ(told, 2);
    CHECK_OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK(told == 3 && told_code == MPI_ERR_OTHER);
    CHECK_CLASS(MPI_Session_set_errhandler(session, for_comms), MPI_ERR_ERRHANDLER);
    CHECK_EQ(told, 4);
    CHECK_OK(MPI_Session_set_errhandler(session, RETURN));
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_call_errhandler(session, 123456789), MPI_ERR_ARG);
    CHECK_EQ(told, 4);
    CHECK_OK(MPI_Errhandler_free(&for_comms));
    close_session(&session);
}

static void of_creations(void)
{
    check_where("of creations");
    MPI_Errhandler for_sessions, for_comms;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info;
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK_OK(MPI_Session_create_errhandler(on_session, &for_sessions));
    CHECK_OK(MPI_Comm_create_errhandler(on_comm, &for_comms));
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_PLENTY");
    told = 0;
    CHECK_CLASS(MPI_Session_init(info, for_sessions, &session), MPI_ERR_INFO_VALUE);
    CHECK(told == 1 && told_session == MPI_SESSION_NULL && session == MPI_SESSION_NULL);
    MPI_Info_free(&info);
    CHECK_CLASS(MPI_Session_init(MPI_INFO_NULL, for_sessions, NULL), MPI_ERR_ARG);
    CHECK_EQ(told, 2);
    session = open_session();
    MPI_Group group = group_of(session, "mpi://SELF");
    told = 0;
    CHECK_CLASS(MPI_Comm_create_from_group(MPI_GROUP_NULL, "t", MPI_INFO_NULL, for_comms, &comm), MPI_ERR_GROUP);
    CHECK(told == 1 && told_comm == MPI_COMM_NULL && told_code == MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create_from_group(group, NULL, MPI_INFO_NULL, for_comms, &comm), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_create_from_group(group, "t", MPI_INFO_NULL, for_comms, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Intercomm_create_from_groups(group, 0, group, 0, "t", MPI_INFO_NULL, for_comms, &comm), MPI_ERR_GROUP);
    CHECK_EQ(told, 4);
    CHECK_CLASS(MPI_Comm_create_from_group(group, "t", MPI_INFO_NULL, RETURN, NULL), MPI_ERR_ARG);
    CHECK_EQ(told, 4);
    CHECK_OK(MPI_Comm_create_from_group(group, "t", MPI_INFO_NULL, for_comms, &comm));
    CHECK_CLASS(MPI_Send(&told, 1, MPI_INT, 1, 0, comm), MPI_ERR_RANK);
    CHECK(told == 5 && told_comm == comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Errhandler_free(&for_comms);
    MPI_Errhandler_free(&for_sessions);
    close_session(&session);
}

static void without_session(void)
{
    check_where("without a session");
    MPI_Session none = MPI_SESSION_NULL;
    MPI_Info info;
    MPI_Group group;
    MPI_Errhandler handler;
    int n = 0;
    char name[MPI_MAX_PSET_NAME_LEN];
    CHECK_CLASS(MPI_Session_finalize(&none), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_finalize(NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_info(none, &info), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_get_num_psets(none, MPI_INFO_NULL, &n), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_get_nth_pset(none, MPI_INFO_NULL, 0, &n, name), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_get_pset_info(none, "mpi://SELF", &info), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Group_from_session_pset(none, "mpi://SELF", &group), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_get_errhandler(none, &handler), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_set_errhandler(none, RETURN), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_call_errhandler(none, MPI_ERR_OTHER), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_init(MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &none), MPI_ERR_ERRHANDLER);
    MPI_Session ended = open_session(), copy = ended;
    close_session(&ended);
    CHECK_CLASS(MPI_Session_finalize(&copy), MPI_ERR_SESSION);
    CHECK_CLASS(MPI_Session_get_num_psets(copy, MPI_INFO_NULL, &n), MPI_ERR_SESSION);
}

int main(int argc, char **argv)
{
    check_watch();
    of_sessions();
    of_creations();
    MPI_Init(&argc, &argv);
    check_ranks();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, RETURN);
    of_sessions();
    of_creations();
    without_session();
    MPI_Session session = open_session();
    MPI_Finalize();
    check_where("after MPI_Finalize");
    of_sessions();
    of_creations();
    close_session(&session);
    return sessions_end();
}
