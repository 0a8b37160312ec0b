// ranks: 2
// transports: all
// not over: lamd, because the events that it waits for are those of shared memory and sockets
// not over: ofi, because the events that it waits for are those of shared memory and sockets
// A tool's callback may wait in MPI, in each call in which this process waits meanwhile.
#include "must.h"
#include "moved.h"

static int called;

static void happened(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data)
{
    (void) event, (void) registration, (void) safety, (void) data;
    if (called++) return;
    int value = 0;
    CHECK(MPI_Recv(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS && value == 66);
}

int main(void)
{
    int level, rank, index, value = 66;
    static char long_message[4 << 20];
    CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level) == MPI_SUCCESS);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    moved_begin();
    if (rank == 0) {
        MPI_T_event_registration registration;
        CHECK(MPI_T_event_get_index("rendezvous_matched", &index) == MPI_SUCCESS);
        CHECK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration) == MPI_SUCCESS);
        CHECK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, NULL, happened) ==
              MPI_SUCCESS);
        MPI_Send(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(long_message, sizeof long_message, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(MPI_T_event_handle_free(registration, NULL, NULL) == MPI_SUCCESS);
        CHECK(called > 0);
    } else {
        MPI_Request sent;
        MPI_Recv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Isend(long_message, sizeof long_message, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &sent);
        // The receiver is in its callback by then, or will be.
        MPI_Send(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
    }
    moved_end();
    MPI_Finalize();
    MPI_T_finalize();
    if (rank == 0) puts("ok");
    return 0;
}
