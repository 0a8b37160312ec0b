// ranks: 1 2 4
// transports: all
/* The tool interface from several threads: variables are read and events are delivered while
 * other threads send and receive; a thread that may not call MPI gets an error. */
#include "mpit.h"

#include <pthread.h>

enum { THREADS = 4, MESSAGES = 300 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle messages, shared;
static MPI_Comm comms[THREADS];
static atomic_int told, stop;

static void on_event(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety,
                     void *user_data)
{
    (void) registration, (void) safety, (void) user_data;
    static atomic_int inside;
    int tag = -1;
    if (atomic_fetch_add(&inside, 1) != 0) check_report(0, __FILE__, __LINE__, "two callbacks at a time");
    if (MPI_T_event_read(instance, 1, &tag) != MPI_SUCCESS) check_report(0, __FILE__, __LINE__, "no tag");
    atomic_fetch_add(&told, 1);
    atomic_fetch_sub(&inside, 1);
}

static void *talk(void *number_of)
{
    int id = (int) (intptr_t) number_of, in = -1;
    for (int i = 0; i < scaled(MESSAGES); i++) {
        MPI_Request request;
        if (i % 2) MPI_Irecv(&in, 1, MPI_INT, rank, i, comms[id], &request);
        MPI_Send(&i, 1, MPI_INT, rank, i, comms[id]);
        if (i % 2)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            MPI_Recv(&in, 1, MPI_INT, rank, i, comms[id], MPI_STATUS_IGNORE);
        if (in != i) check_report(0, __FILE__, __LINE__, "wrong message");
    }
    return NULL;
}

static void *look(void *nothing)
{
    number last = 0;
    while (!atomic_load(&stop)) {
        number now = 0, level;
        if (MPI_T_pvar_read(session, messages, &now) != MPI_SUCCESS || now < last)
            check_report(0, __FILE__, __LINE__, "it goes back");
        last = now;
        if (MPI_T_pvar_readreset(session, shared, &level) != MPI_SUCCESS) check_report(0, __FILE__, __LINE__, "no reset");
        MPI_T_pvar_session mine;
        MPI_T_pvar_handle handle;
        int count;
        if (MPI_T_pvar_session_create(&mine) || MPI_T_pvar_handle_alloc(mine, 0, NULL, &handle, &count) ||
            MPI_T_pvar_read(mine, handle, &count) || MPI_T_pvar_session_free(&mine))
            check_report(0, __FILE__, __LINE__, "no session of its own");
        sched_yield();
    }
    return nothing;
}

int main(int argc, char **argv)
{
    check_watch();
    int provided = -1, index = -1;
    pthread_t threads[THREADS], looker;
    MPI_T_event_registration registration;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    CHECK_OK(MPI_T_pvar_session_create(&session));
    messages = started(session, "self_messages", NULL);
    shared = started(session, "self_bytes", NULL);
    CHECK_OK(MPI_T_event_get_index("unexpected_message_matched", &index));
    CHECK_OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration));
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, on_event));
    number before = value(session, messages);
    int told_before = atomic_load(&told);
    pthread_create(&looker, NULL, look, NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, talk, (void *) (intptr_t) i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    atomic_store(&stop, 1);
    pthread_join(looker, NULL);
    CHECK_EQ(value(session, messages) - before, THREADS * scaled(MESSAGES));
    CHECK_EQ(atomic_load(&told) - told_before, THREADS * ((scaled(MESSAGES) + 1) / 2));
    CHECK_OK(MPI_T_event_handle_free(registration, NULL, NULL));
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    int result = check_end();
    MPI_T_finalize();
    return result;
}
