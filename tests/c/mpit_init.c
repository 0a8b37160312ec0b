// ranks: 1 2
// transports: one
/* The tool interface before, between and after MPI_Init and MPI_Finalize; counts of its
 * initialization; calls that need it. */
#include "mpit.h"

static void needs_it(void)
{
    int n = 0, indices[4];
    char text[8];
    MPI_Count ticks = 0;
    MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    MPI_T_cvar_handle cvar_handle = MPI_T_CVAR_HANDLE_NULL;
    MPI_T_event_registration registration = 0;
    MPI_Info info = MPI_INFO_NULL;
#define NEEDS(call) CHECK_EQ(call, MPI_T_ERR_NOT_INITIALIZED)
    NEEDS(MPI_T_cvar_get_num(&n));
    NEEDS(MPI_T_cvar_get_info(0, text, &n, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    NEEDS(MPI_T_cvar_get_index("rpi", &n));
    NEEDS(MPI_T_cvar_handle_alloc(0, NULL, &cvar_handle, &n));
    NEEDS(MPI_T_cvar_handle_free(&cvar_handle));
    NEEDS(MPI_T_cvar_read(cvar_handle, &n));
    NEEDS(MPI_T_cvar_write(cvar_handle, &n));
    NEEDS(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, NULL, NULL));
    NEEDS(MPI_T_enum_get_item(MPI_T_ENUM_NULL, 0, &n, NULL, NULL));
    NEEDS(MPI_T_pvar_get_num(&n));
    NEEDS(MPI_T_pvar_get_info(0, text, &n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    NEEDS(MPI_T_pvar_get_index("sleeps", MPI_T_PVAR_CLASS_COUNTER, &n));
    NEEDS(MPI_T_pvar_session_create(&session));
    NEEDS(MPI_T_pvar_session_free(&session));
    NEEDS(MPI_T_pvar_handle_alloc(session, 0, NULL, &handle, &n));
    NEEDS(MPI_T_pvar_handle_free(session, &handle));
    NEEDS(MPI_T_pvar_start(session, handle));
    NEEDS(MPI_T_pvar_stop(session, handle));
    NEEDS(MPI_T_pvar_read(session, handle, &n));
    NEEDS(MPI_T_pvar_write(session, handle, &n));
    NEEDS(MPI_T_pvar_reset(session, handle));
    NEEDS(MPI_T_pvar_readreset(session, handle, &n));
    NEEDS(MPI_T_category_get_num(&n));
    NEEDS(MPI_T_category_get_info(0, text, &n, NULL, NULL, NULL, NULL, NULL));
    NEEDS(MPI_T_category_get_num_events(0, &n));
    NEEDS(MPI_T_category_get_index("shm", &n));
    NEEDS(MPI_T_category_get_cvars(0, 4, indices));
    NEEDS(MPI_T_category_get_pvars(0, 4, indices));
    NEEDS(MPI_T_category_get_events(0, 4, indices));
    NEEDS(MPI_T_category_get_categories(0, 4, indices));
    NEEDS(MPI_T_category_changed(&n));
    NEEDS(MPI_T_source_get_num(&n));
    NEEDS(MPI_T_source_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    NEEDS(MPI_T_source_get_timestamp(0, &ticks));
    NEEDS(MPI_T_event_get_num(&n));
    NEEDS(MPI_T_event_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    NEEDS(MPI_T_event_get_index("process_lost", &n));
    NEEDS(MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &registration));
    NEEDS(MPI_T_event_handle_set_info(registration, MPI_INFO_NULL));
    NEEDS(MPI_T_event_handle_get_info(registration, &info));
    NEEDS(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, NULL));
    NEEDS(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL));
    NEEDS(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
    NEEDS(MPI_T_event_set_dropped_handler(registration, NULL));
    NEEDS(MPI_T_event_handle_free(registration, NULL, NULL));
    NEEDS(MPI_T_event_read(0, 0, &n));
    NEEDS(MPI_T_event_copy(0, &n));
    NEEDS(MPI_T_event_get_timestamp(0, &ticks));
    NEEDS(MPI_T_event_get_source(0, &n));
    NEEDS(MPI_T_finalize());
}

int main(int argc, char **argv)
{
    check_watch();
    int provided = -1, n = -1, flag = -1;
    needs_it();

    CHECK_EQ(MPI_T_init_thread(MPI_THREAD_MULTIPLE, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_SINGLE);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 0);
    MPI_T_pvar_session session;
    CHECK_OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle own = started(session, "self_messages", NULL);
    CHECK_EQ(value(session, own), 0);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_T_pvar_handle none;
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, pvar_index("comm_posted_queue_length", NULL), &world, &none, &n),
             MPI_T_ERR_INVALID_HANDLE);
    CHECK_OK(MPI_T_finalize());
    CHECK_EQ(value(session, own), 0);

    /* The older handle counts from MPI_Init on. */
    MPI_Init(&argc, &argv);
    check_ranks();
    int sent = 7, got = 0;
    for (int i = 0; i < 3; i++)
        MPI_Sendrecv(&sent, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    CHECK_EQ(value(session, own), 3);

    CHECK_OK(MPI_T_finalize());
    needs_it();
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided));
    number read;
    CHECK_EQ(MPI_T_pvar_read(session, own, &read), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_session_free(&session), MPI_T_ERR_INVALID_SESSION);
    CHECK_OK(MPI_T_pvar_session_create(&session));
    own = started(session, "self_messages", NULL);
    MPI_Sendrecv(&sent, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);

    int total = check_total();
    MPI_Finalize();

    CHECK_EQ(value(session, own), 1);
    MPI_T_pvar_handle late = started(session, "self_messages", NULL);
    CHECK_EQ(value(session, late), 0);
    CHECK_OK(MPI_T_pvar_handle_free(session, &late));
    CHECK(late == MPI_T_PVAR_HANDLE_NULL);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK(session == MPI_T_PVAR_SESSION_NULL);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_OK(MPI_T_finalize());
    CHECK_OK(MPI_T_finalize());
    needs_it();
    if (total || check_failures) return 1;
    if (rank == 0) printf("ok\n");
    return 0;
}
