// ranks: 2
// transports: near
// not over: shm-denied, because without single copy a receiver needs the sender in the library
// not over: usysv, because a message announced in a postbox needs its sender in the library
// not over: sysv, because a message announced in a postbox needs its sender in the library
/* The call that finds room in the buffer for buffered sends takes it: a tool's callback that is
 * called after the progress of this call, and sends as well, finds none. (A thread at that
 * moment has the same effect, but rarely hits it.) */
#include "mpit.h"

#include <sched.h>

enum { BYTES = 1 << 20 };

static char *data;
static int calls, late_class = MPI_SUCCESS;

static void send_too(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void) instance, (void) registration, (void) safety, (void) user_data;
    if (calls++ == 0) MPI_Error_class(MPI_Bsend(data, BYTES, MPI_BYTE, 1, 3, MPI_COMM_WORLD), &late_class);
}

int main(int argc, char **argv)
{
    int provided, index = -1, bytes, room = BYTES + MPI_BSEND_OVERHEAD;
    volatile int *received;
    void *buffer;
    MPI_Win win;
    MPI_Request request;
    MPI_T_event_registration registration;
    check_watch();
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_T_event_get_index("rendezvous_matched", &index));
    data = allocate(BYTES);
    char *into = allocate(BYTES);
    buffer = allocate((size_t) room);
    CHECK_OK(MPI_Win_allocate_shared(sizeof *received, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &received, &win));
    MPI_Win_shared_query(win, 0, &(MPI_Aint){0}, &bytes, &received);
    *received = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK_OK(MPI_Buffer_attach(buffer, room));
        CHECK_OK(MPI_Irecv(into, BYTES, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Bsend(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        CHECK_CLASS(MPI_Bsend(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD), MPI_ERR_BUFFER);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration));
        CHECK_OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, send_too));
        while (!__atomic_load_n(received, __ATOMIC_ACQUIRE)) sched_yield();
        /* In one poll: there is room, and an event. */
        CHECK_OK(MPI_Bsend(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(calls > 0);
        CHECK_EQ(late_class, MPI_ERR_BUFFER);
        __atomic_store_n(received, 2, __ATOMIC_RELEASE);
        CHECK_OK(MPI_T_event_handle_free(registration, NULL, NULL));
        CHECK_OK(MPI_Buffer_detach(&buffer, &bytes));
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Recv(into, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Isend(data, BYTES, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &request));
        __atomic_store_n(received, 1, __ATOMIC_RELEASE);
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        /* The buffer is full until then. */
        while (__atomic_load_n(received, __ATOMIC_ACQUIRE) != 2) sched_yield();
        CHECK_OK(MPI_Recv(into, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI_Win_free(&win);
    free(buffer);
    free(data);
    free(into);
    int result = check_end();
    MPI_T_finalize();
    return result;
}
