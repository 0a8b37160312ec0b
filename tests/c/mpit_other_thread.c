// ranks: 1 2
// transports: all
/* A tool's thread in a program with one thread that calls MPI, another one: the data of that
 * thread are not accessible, all others are. */
#include "mpit.h"

#include <pthread.h>

static void *tool(void *nothing)
{
    MPI_T_pvar_session session;
    MPI_T_event_registration registration = 0;
    int index = -1, value = 40;
    number read;
    CHECK_OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int count;
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, pvar_index("self_messages", NULL), NULL, &handle, &count),
             MPI_T_ERR_NOT_ACCESSIBLE);
    CHECK_OK(MPI_T_event_get_index("unexpected_message_matched", &index));
    CHECK_EQ(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration), MPI_T_ERR_NOT_ACCESSIBLE);
    MPI_T_cvar_handle yields = cvar("wait_yields");
    CHECK_EQ(MPI_T_cvar_write(yields, &value), MPI_T_ERR_CVAR_SET_NOT_NOW);
    CHECK_OK(MPI_T_cvar_read(yields, &value));
    CHECK(value != 40);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    (void) read;
    return nothing;
}

int main(int argc, char **argv)
{
    int provided = -1;
    pthread_t thread;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    check_begin(&argc, &argv);
    pthread_create(&thread, NULL, tool, NULL);
    pthread_join(thread, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    int result = check_end();
    MPI_T_finalize();
    return result;
}
