// ranks: 2 3
/* The target of one-sided access helps in whichever call it waits or tests: accumulates, gets, compare-and-swaps and locks of the
 * others are complete before it is let go. */
#include "files.h"
#include "win.h"

enum { LONG = 1 << 20, TAG = 7 };
enum {
    RECV, SSEND, LONG_SEND, SENDRECV, PROBE, MPROBE, IPROBE, IMPROBE, WAIT, WAITANY, WAITSOME, WAITALL, TEST, TESTANY, TESTSOME,
    TESTALL, GET_STATUS, GET_STATUS_ANY, INACTIVE, PARRIVED, BARRIER, IBARRIER, BCAST, LONG_BCAST, PERSISTENT, NEIGHBOURS, DUP, SPLIT,
    CREATE_GROUP, INTERCOMM, FENCE, WIN_LOCK, WIN_WAIT, WIN_TEST, WIN_CREATE, FILE_OPEN, FILE_ALL, FILE_SPLIT, ACCEPT, PLACES
};

static int target;
static char port[MPI_MAX_PORT_NAME];
static char *bytes;

/* What the target and rank 0 do together; only rank 0, which comes later, lets the target go. */
static void together(int place)
{
    MPI_Comm world = MPI_COMM_WORLD, other;
    MPI_Request request, two[2];
    MPI_Status status, statuses[2];
    MPI_Message message;
    MPI_Win win;
    MPI_Group group;
    MPI_File fh;
    int value = 0, flag = 0, index, count, at[2], is_target = rank == target, peer = is_target ? 0 : target;
    int pair[2] = {0, target};
    switch (place) {
    case SSEND:
        if (is_target) CHECK_OK(MPI_Ssend(&value, 1, MPI_INT, 0, TAG, world));
        else CHECK_OK(MPI_Recv(&value, 1, MPI_INT, target, TAG, world, &status));
        return;
    case LONG_SEND:
        if (is_target) CHECK_OK(MPI_Send(bytes, LONG, MPI_BYTE, 0, TAG, world));
        else CHECK_OK(MPI_Recv(bytes, LONG, MPI_BYTE, target, TAG, world, &status));
        return;
    case SENDRECV:
        CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, peer, TAG, &flag, 1, MPI_INT, peer, TAG, world, &status));
        return;
    case PARRIVED:
        if (is_target) {
            CHECK_OK(MPI_Precv_init(bytes, 1, LONG, MPI_BYTE, 0, TAG, world, MPI_INFO_NULL, &request));
            CHECK_OK(MPI_Start(&request));
            while (!flag) CHECK_OK(MPI_Parrived(request, 0, &flag));
        } else {
            CHECK_OK(MPI_Psend_init(bytes, 1, LONG, MPI_BYTE, target, TAG, world, MPI_INFO_NULL, &request));
            CHECK_OK(MPI_Start(&request));
            CHECK_OK(MPI_Pready(0, request));
        }
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_OK(MPI_Request_free(&request));
        return;
    case BARRIER: CHECK_OK(MPI_Barrier(world)); return;
    case IBARRIER:
        CHECK_OK(MPI_Ibarrier(world, &request));
        while (!flag) CHECK_OK(MPI_Test(&request, &flag, &status));
        return;
    case BCAST: CHECK_OK(MPI_Bcast(&value, 1, MPI_INT, 0, world)); return;
    case LONG_BCAST: CHECK_OK(MPI_Bcast(bytes, LONG, MPI_BYTE, 0, world)); return;
    case PERSISTENT:
        CHECK_OK(MPI_Allreduce_init(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request));
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_OK(MPI_Request_free(&request));
        return;
    case NEIGHBOURS: {
        int periodic = 1, out[2] = {1, 2}, in[2];
        CHECK_OK(MPI_Cart_create(world, 1, &size, &periodic, 0, &other));
        CHECK_OK(MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, other));
        CHECK_OK(MPI_Comm_free(&other));
        return;
    }
    case DUP:
        CHECK_OK(MPI_Comm_dup(world, &other));
        CHECK_OK(MPI_Comm_disconnect(&other));
        return;
    case SPLIT:
        CHECK_OK(MPI_Comm_split(world, 0, rank, &other));
        CHECK_OK(MPI_Comm_free(&other));
        return;
    case CREATE_GROUP:
        MPI_Comm_group(world, &group);
        MPI_Group pair_group;
        MPI_Group_incl(group, 2, pair, &pair_group);
        CHECK_OK(MPI_Comm_create_group(world, pair_group, 3, &other));
        MPI_Group_free(&group);
        MPI_Group_free(&pair_group);
        CHECK_OK(MPI_Comm_free(&other));
        return;
    case INTERCOMM:
        CHECK_OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, world, peer, 4, &other));
        CHECK_OK(MPI_Comm_free(&other));
        return;
    case FENCE:
        CHECK_OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, world, &win));
        CHECK_OK(MPI_Win_free(&win));
        return;
    case FILE_OPEN:
    case FILE_ALL:
    case FILE_SPLIT:
        fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
        if (place == FILE_ALL) CHECK_OK(MPI_File_write_at_all(fh, rank, bytes, 1, MPI_BYTE, &status));
        if (place == FILE_SPLIT) {
            CHECK_OK(MPI_File_write_ordered_begin(fh, bytes, 1, MPI_BYTE));
            CHECK_OK(MPI_File_write_ordered_end(fh, bytes, &status));
        }
        CHECK_OK(MPI_File_close(&fh));
        return;
    case ACCEPT:
        if (is_target) CHECK_OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        else CHECK_OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        CHECK_OK(MPI_Comm_disconnect(&other));
        return;
    }
    /* A message from rank 0, for which the target waits in all kinds of ways. */
    if (!is_target) {
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, target, TAG, world));
        return;
    }
    switch (place) {
    case PROBE: CHECK_OK(MPI_Probe(0, TAG, world, &status)); break;
    case IPROBE: while (!flag) CHECK_OK(MPI_Iprobe(0, TAG, world, &flag, &status)); break;
    case MPROBE: CHECK_OK(MPI_Mprobe(0, TAG, world, &message, &status)); break;
    case IMPROBE: while (!flag) CHECK_OK(MPI_Improbe(0, TAG, world, &flag, &message, &status)); break;
    }
    if (place == MPROBE || place == IMPROBE) {
        CHECK_OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
        return;
    }
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, 0, TAG, world, &two[0]));
    two[1] = MPI_REQUEST_NULL;
    switch (place) {
    case WAITANY: CHECK_OK(MPI_Waitany(2, two, &index, &status)); break;
    case WAITSOME: CHECK_OK(MPI_Waitsome(2, two, &count, at, statuses)); break;
    case WAITALL: CHECK_OK(MPI_Waitall(2, two, statuses)); break;
    case TEST: while (!flag) CHECK_OK(MPI_Test(two, &flag, &status)); break;
    case TESTANY: while (!flag) CHECK_OK(MPI_Testany(2, two, &index, &flag, &status)); break;
    case TESTSOME: for (count = 0; count == 0;) CHECK_OK(MPI_Testsome(2, two, &count, at, statuses)); break;
    case TESTALL: while (!flag) CHECK_OK(MPI_Testall(2, two, &flag, statuses)); break;
    case GET_STATUS: while (!flag) CHECK_OK(MPI_Request_get_status(two[0], &flag, &status)); break;
    case GET_STATUS_ANY: while (!flag) CHECK_OK(MPI_Request_get_status_any(2, two, &index, &flag, &status)); break;
    }
    CHECK_OK(MPI_Wait(two, &status));
}

/* Every access that needs the target where its memory is not shared, complete before this returns. */
static void access_all(struct window *w)
{
    int one = 1, old, got[2], none = -1;
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
    CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_INT, target, 1, MPI_SUM, w->win));
    CHECK_OK(MPI_Win_flush(target, w->win));
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, target, 1, 1, MPI_INT, MPI_SUM, w->win));
    CHECK_OK(MPI_Compare_and_swap(&none, &one, &old, MPI_INT, target, 2, w->win));
    CHECK_OK(MPI_Win_unlock(target, w->win));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
    CHECK_OK(MPI_Get(got, 2, MPI_INT, target, 1, 2, MPI_INT, w->win));
    CHECK_OK(MPI_Win_unlock(target, w->win));
    CHECK(got[0] >= 2 && got[1] == 0);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win));
    CHECK_OK(MPI_Put(bytes, LONG / 2, MPI_BYTE, target, 8, LONG / 2, MPI_BYTE, w->win));
    CHECK_OK(MPI_Win_unlock(target, w->win));
}

/* Epochs of a second window that the target waits for. */
static void epochs(int place, struct window *first, struct window *second)
{
    int flag = 0, zero = 0;
    MPI_Group group, other;
    if (place == WIN_LOCK) {
        /* The target wants what rank 0 has. */
        if (rank == 0) CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, second->win));
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == target) {
            CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, second->win));
            CHECK_OK(MPI_Put(&zero, 1, MPI_INT, 0, 0, 1, MPI_INT, second->win));
            CHECK_OK(MPI_Win_unlock(0, second->win));
        } else {
            access_all(first);
            if (rank == 0) CHECK_OK(MPI_Win_unlock(0, second->win));
        }
        return;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_incl(group, 1, rank == 0 ? &target : &zero, &other);
    if (rank == target) {
        CHECK_OK(MPI_Win_post(other, 0, second->win));
        while (place == WIN_TEST && !flag) CHECK_OK(MPI_Win_test(second->win, &flag));
        if (place == WIN_WAIT) CHECK_OK(MPI_Win_wait(second->win));
    } else {
        access_all(first);
        if (rank == 0) {
            CHECK_OK(MPI_Win_start(other, 0, second->win));
            CHECK_OK(MPI_Win_complete(second->win));
        }
    }
    MPI_Group_free(&group);
    MPI_Group_free(&other);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    target = size - 1;
    bytes = allocate(LONG);
    file_begin();
    if (rank == target) CHECK_OK(MPI_Open_port(MPI_INFO_NULL, port));
    MPI_Bcast(port, sizeof port, MPI_CHAR, target, MPI_COMM_WORLD);
    for (enum memory kind = 0; kind < KINDS; kind++) {
        struct window w = make_window(kind, LONG, 4, MPI_COMM_WORLD), second = make_window(kind, 4096, 4, MPI_COMM_WORLD);
        for (int place = 0; place < PLACES; place++) {
            check_where("place %d, %s", place, memory_names[kind]);
            memset(bytes, 0, LONG);
            MPI_Barrier(MPI_COMM_WORLD);
            if (place == WIN_LOCK || place == WIN_WAIT || place == WIN_TEST) {
                epochs(place, &w, &second);
                continue;
            }
            int all = (place >= BARRIER && place <= SPLIT) || (place >= FENCE && place < ACCEPT);
            if (rank != target) {
                access_all(&w);
                if (size > 2) {
                    /* Rank 0 comes when the others are done with it as well. */
                    int word = 0;
                    if (rank == 1) CHECK_OK(MPI_Send(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
                    else CHECK_OK(MPI_Recv(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                }
            }
            if (place == INACTIVE) {
                /* It looks at its memory, which a message of ours changes only with its help. */
                struct window seen = w;
                if (rank == target) {
                    MPI_Request idle;
                    int flag, value;
                    CHECK_OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &idle));
                    while (((volatile int *) seen.base)[4] != 77) CHECK_OK(MPI_Test(&idle, &flag, MPI_STATUS_IGNORE));
                    CHECK_OK(MPI_Request_free(&idle));
                } else if (rank == 0) {
                    int value = 77;
                    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, seen.win));
                    CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, 4, 1, MPI_INT, seen.win));
                    CHECK_OK(MPI_Win_unlock(target, seen.win));
                }
                continue;
            }
            if (rank == 0 || rank == target || all) together(place);
        }
        free_window(&second);
        free_window(&w);
    }
    if (rank == target) CHECK_OK(MPI_Close_port(port));
    free(bytes);
    return check_end();
}
