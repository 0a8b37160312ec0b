// ranks: 1 2
// transports: one
/* Performance variables: their description, sessions, handles, starting, stopping, writing,
 * resetting, wrong arguments. */
#include "mpit.h"

enum { MOST_SESSIONS = 4096 };

static void send_to_self(int times)
{
    int sent = 1, got;
    for (int i = 0; i < times; i++)
        MPI_Sendrecv(&sent, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void all(void)
{
    int count = 0, classes[10] = {0};
    MPI_T_pvar_session session;
    CHECK_OK(MPI_T_pvar_session_create(&session));
    CHECK_OK(MPI_T_pvar_get_num(&count));
    CHECK(count > 40);
    for (int i = 0; i < count; i++) {
        char name[128], text[1024];
        int name_len = sizeof name, text_len = sizeof text, level = -1, class_of = -1, bind = -1, index = -1, elements = -1;
        int readonly = -1, continuous = -1, atomic = -1;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum items = MPI_T_ENUM_NULL;
        CHECK_OK(MPI_T_pvar_get_info(i, name, &name_len, &level, &class_of, &type, &items, text, &text_len, &bind,
                                     &readonly, &continuous, &atomic));
        check_where("%s", name);
        if (!CHECK(class_of >= MPI_T_PVAR_CLASS_STATE && class_of <= MPI_T_PVAR_CLASS_GENERIC)) continue;
        classes[class_of - MPI_T_PVAR_CLASS_STATE]++;
        CHECK(strlen(name) + 1 == (size_t) name_len && strlen(text) + 1 == (size_t) text_len);
        CHECK_OK(MPI_T_pvar_get_index(name, class_of, &index));
        CHECK_EQ(index, i);
        CHECK_EQ(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_GENERIC, &index), MPI_T_ERR_INVALID_NAME);
        CHECK(bind == MPI_T_BIND_NO_OBJECT || bind == MPI_T_BIND_MPI_COMM);
        switch (class_of) {
        case MPI_T_PVAR_CLASS_STATE:
            CHECK(type == MPI_INT && items != MPI_T_ENUM_NULL);
            break;
        case MPI_T_PVAR_CLASS_PERCENTAGE:
        case MPI_T_PVAR_CLASS_TIMER:
            CHECK(type == MPI_DOUBLE && items == MPI_T_ENUM_NULL);
            break;
        default:
            CHECK(type == MPI_UNSIGNED_LONG_LONG && items == MPI_T_ENUM_NULL);
        }
        MPI_Comm self = MPI_COMM_SELF;
        MPI_T_pvar_handle handle;
        union { int state; number count; double real; } value = {.count = 0}, again;
        CHECK_OK(MPI_T_pvar_handle_alloc(session, i, &self, &handle, &elements));
        CHECK_EQ(elements, 1);
        CHECK_OK(MPI_T_pvar_read(session, handle, &value));
        CHECK_EQ(MPI_T_pvar_read(session, handle, NULL), MPI_T_ERR_INVALID);
        int changes = continuous ? MPI_T_ERR_PVAR_NO_STARTSTOP : MPI_SUCCESS;
        CHECK_EQ(MPI_T_pvar_start(session, handle), changes);
        CHECK_EQ(MPI_T_pvar_stop(session, handle), changes);
        int writes = readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS;
        CHECK_EQ(MPI_T_pvar_write(session, handle, &value), writes);
        CHECK_EQ(MPI_T_pvar_reset(session, handle), writes);
        CHECK_EQ(MPI_T_pvar_readreset(session, handle, &again), atomic ? MPI_SUCCESS : MPI_T_ERR_PVAR_NO_ATOMIC);
        if (class_of == MPI_T_PVAR_CLASS_PERCENTAGE) CHECK(value.real >= 0 && value.real <= 1);
        if (class_of == MPI_T_PVAR_CLASS_TIMER) CHECK(value.real == 0);
        if (class_of == MPI_T_PVAR_CLASS_COUNTER) CHECK_EQ(value.count, 0);
        CHECK_OK(MPI_T_pvar_handle_free(session, &handle));
        check_where("%s", "");
    }
    const int there[] = {MPI_T_PVAR_CLASS_STATE, MPI_T_PVAR_CLASS_LEVEL, MPI_T_PVAR_CLASS_SIZE,
                         MPI_T_PVAR_CLASS_PERCENTAGE, MPI_T_PVAR_CLASS_HIGHWATERMARK, MPI_T_PVAR_CLASS_COUNTER,
                         MPI_T_PVAR_CLASS_AGGREGATE, MPI_T_PVAR_CLASS_TIMER};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) CHECK(classes[there[i] - MPI_T_PVAR_CLASS_STATE] > 0);
    CHECK_EQ(MPI_T_pvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
             MPI_T_ERR_INVALID_INDEX);
    CHECK_OK(MPI_T_pvar_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    CHECK_OK(MPI_T_pvar_session_free(&session));
}

static void counting(void)
{
    MPI_T_pvar_session session, second;
    CHECK_OK(MPI_T_pvar_session_create(&session));
    CHECK_OK(MPI_T_pvar_session_create(&second));
    MPI_T_pvar_handle a = pvar(session, "self_messages", NULL), b = pvar(session, "self_messages", NULL);
    MPI_T_pvar_handle c = started(second, "self_messages", NULL), bytes = pvar(session, "self_bytes", NULL);
    MPI_T_pvar_handle level = pvar(session, "posted_queue_length", NULL);
    number read = 99;
    send_to_self(3);
    CHECK_EQ(value(session, a), 0);
    CHECK_EQ(value(second, c), 3);
    CHECK_OK(MPI_T_pvar_start(session, a));
    CHECK_OK(MPI_T_pvar_start(session, a));
    send_to_self(2);
    CHECK_EQ(value(session, a), 2);
    CHECK_EQ(value(session, b), 0);
    CHECK_OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    send_to_self(4);
    CHECK_EQ(value(session, a), 6);
    CHECK_EQ(value(session, b), 4);
    CHECK_EQ(value(session, bytes), 16);
    CHECK_OK(MPI_T_pvar_stop(session, b));
    CHECK_OK(MPI_T_pvar_stop(session, b));
    send_to_self(1);
    CHECK_EQ(value(session, a), 7);
    CHECK_EQ(value(session, b), 4);
    read = 1000;
    CHECK_OK(MPI_T_pvar_write(session, a, &read));
    CHECK_OK(MPI_T_pvar_write(session, b, &read));
    send_to_self(5);
    CHECK_EQ(value(session, a), 1005);
    CHECK_EQ(value(session, b), 1000);
    CHECK_OK(MPI_T_pvar_readreset(session, a, &read));
    CHECK_EQ(read, 1005);
    CHECK_EQ(MPI_T_pvar_readreset(session, a, NULL), MPI_T_ERR_INVALID);
    send_to_self(1);
    CHECK_EQ(value(session, a), 1);
    CHECK_OK(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES));
    CHECK_EQ(value(session, a), 0);
    CHECK_EQ(value(session, b), 0);
    CHECK_EQ(value(session, bytes), 0);
    CHECK_EQ(value(second, c), 16);
    CHECK_OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
    send_to_self(1);
    CHECK_EQ(value(session, a), 0);

    /* ALL_HANDLES is for these calls only. */
    CHECK_EQ(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, &read), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_write(session, MPI_T_PVAR_ALL_HANDLES, &read), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_readreset(session, MPI_T_PVAR_ALL_HANDLES, &read), MPI_T_ERR_INVALID_HANDLE);

    CHECK_EQ(MPI_T_pvar_read(second, a, &read), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_start(second, a), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_handle_free(second, &a), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_read(MPI_T_PVAR_SESSION_NULL, a, &read), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_start(MPI_T_PVAR_SESSION_NULL, MPI_T_PVAR_ALL_HANDLES), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_read(session, MPI_T_PVAR_HANDLE_NULL, &read), MPI_T_ERR_INVALID_HANDLE);
    MPI_T_pvar_session old = session;
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_EQ(MPI_T_pvar_read(old, a, &read), MPI_T_ERR_INVALID_SESSION);
    CHECK_EQ(MPI_T_pvar_read(second, a, &read), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(value(second, c), 17);
    CHECK_OK(MPI_T_pvar_handle_free(second, &c));
    CHECK_OK(MPI_T_pvar_start(second, MPI_T_PVAR_ALL_HANDLES));
    CHECK_OK(MPI_T_pvar_session_free(&second));
}

static void mistakes(void)
{
    int n = 0;
    number read = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    CHECK_EQ(MPI_T_pvar_get_num(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_get_index("none", MPI_T_PVAR_CLASS_COUNTER, &n), MPI_T_ERR_INVALID_NAME);
    CHECK_EQ(MPI_T_pvar_get_index(NULL, MPI_T_PVAR_CLASS_COUNTER, &n), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_get_index("sleeps", MPI_T_PVAR_CLASS_COUNTER, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_session_create(NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_session_free(NULL), MPI_T_ERR_INVALID);
    CHECK_OK(MPI_T_pvar_session_create(&session));
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, -1, NULL, &handle, &n), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, 1 << 20, NULL, &handle, &n), MPI_T_ERR_INVALID_INDEX);
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, 0, NULL, NULL, &n), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, 0, NULL, &handle, NULL), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_handle_alloc(MPI_T_PVAR_SESSION_NULL, 0, NULL, &handle, &n), MPI_T_ERR_INVALID_SESSION);
    int bound = pvar_index("comm_posted_queue_length", NULL);
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, bound, NULL, &handle, &n), MPI_T_ERR_INVALID);
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, bound, &comm, &handle, &n), MPI_T_ERR_INVALID_HANDLE);
    comm = (MPI_Comm) 0x123456789abcdf;
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, bound, &comm, &handle, &n), MPI_T_ERR_INVALID_HANDLE);
    CHECK(handle == MPI_T_PVAR_HANDLE_NULL);
    CHECK_EQ(MPI_T_pvar_handle_free(session, &handle), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_handle_free(session, NULL), MPI_T_ERR_INVALID);
    handle = pvar(session, "self_messages", NULL);
    CHECK_EQ(MPI_T_pvar_write(session, handle, NULL), MPI_T_ERR_INVALID);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_EQ(MPI_T_pvar_session_free(&session), MPI_T_ERR_INVALID_SESSION);
}

static void limit(void)
{
    static MPI_T_pvar_session sessions[MOST_SESSIONS + 1];
    int made = 0, code = MPI_SUCCESS;
    while (made <= MOST_SESSIONS && (code = MPI_T_pvar_session_create(&sessions[made])) == MPI_SUCCESS) made++;
    CHECK_EQ(made, MOST_SESSIONS);
    CHECK_EQ(code, MPI_T_ERR_OUT_OF_SESSIONS);
    CHECK_OK(MPI_T_pvar_session_free(&sessions[0]));
    CHECK_OK(MPI_T_pvar_session_create(&sessions[0]));
    for (int i = 0; i < made; i++) CHECK_OK(MPI_T_pvar_session_free(&sessions[i]));
}

int main(int argc, char **argv)
{
    int provided;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_begin(&argc, &argv);
    all();
    counting();
    mistakes();
    limit();
    int result = check_end();
    MPI_T_finalize();
    return result;
}
