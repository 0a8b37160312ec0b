/* The calls of MPI in which one rank, the target, waits for another, or tests. Progress of its
 * process must go on in each of them. */
#ifndef PLACES_H
#define PLACES_H

#include "files.h"
#include "win.h"

enum { LONG = 1 << 20, TAG = 7 };
enum {
    RECV, SSEND, LONG_SEND, SENDRECV, DETACH, PROBE, MPROBE, IPROBE, IMPROBE, WAIT, WAITANY, WAITSOME, WAITALL, TEST, TESTANY,
    TESTSOME, TESTALL, GET_STATUS, GET_STATUS_ANY, INACTIVE, PARRIVED, BARRIER, IBARRIER, BCAST, LONG_BCAST, PERSISTENT, NEIGHBOURS,
    DUP, IDUP, SPLIT, CREATE_GROUP, INTERCOMM, FENCE, WIN_LOCK, WIN_COMPLETE, WIN_WAIT, WIN_TEST, WIN_CREATE, FILE_OPEN, FILE_ALL,
    FILE_SPLIT, ACCEPT, CONNECT, PLACES
};

static int target;
/* Ports of the target and of rank 0. */
static char ports[2][MPI_MAX_PORT_NAME];
static char *bytes;

/* Whether all ranks take part in the call, and not only the target and rank 0. */
static int is_for_all(int place) { return (place >= BARRIER && place <= SPLIT) || (place >= FENCE && place <= FILE_SPLIT); }

/* Whether the target waits in an epoch of a window. */
static int is_epoch(int place) { return place >= WIN_LOCK && place <= WIN_TEST; }

/* The part of the target and rank 0. Rank 0 comes later and ends the target's wait. */
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
    case DETACH:
        if (is_target) {
            int room = LONG + MPI_BSEND_OVERHEAD;
            void *attached = allocate((size_t) room), *detached = NULL;
            CHECK_OK(MPI_Buffer_attach(attached, room));
            CHECK_OK(MPI_Bsend(bytes, LONG, MPI_BYTE, 0, TAG, world));
            CHECK_OK(MPI_Buffer_detach(&detached, &room));
            free(attached);
        } else {
            CHECK_OK(MPI_Recv(bytes, LONG, MPI_BYTE, target, TAG, world, &status));
        }
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
    case IDUP:
        CHECK_OK(MPI_Comm_idup(world, &other, &request));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_OK(MPI_Comm_free(&other));
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
    case WIN_CREATE:
        CHECK_OK(MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, world, &win));
        if (place == FENCE) CHECK_OK(MPI_Win_fence(0, win));
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
    case CONNECT:
        if (is_target == (place == ACCEPT)) CHECK_OK(MPI_Comm_accept(ports[place == CONNECT], MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        else CHECK_OK(MPI_Comm_connect(ports[place == CONNECT], MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        CHECK_OK(MPI_Comm_disconnect(&other));
        return;
    }
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

/* Epochs of a window that the target waits for. All other ranks call `before` first; only then
 * rank 0 ends the wait. */
static void epochs(int place, struct window *w, void (*before)(void))
{
    int flag = 0, zero = 0;
    MPI_Group group, other;
    if (place == WIN_LOCK) {
        if (rank == 0) CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win));
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == target) {
            CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win));
            CHECK_OK(MPI_Put(&zero, 1, MPI_INT, 0, 0, 1, MPI_INT, w->win));
            CHECK_OK(MPI_Win_unlock(0, w->win));
        } else {
            before();
            if (rank == 0) CHECK_OK(MPI_Win_unlock(0, w->win));
        }
        return;
    }
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_incl(group, 1, rank == 0 ? &target : &zero, &other);
    if (rank == target && place == WIN_COMPLETE) {
        CHECK_OK(MPI_Win_start(other, 0, w->win));
        CHECK_OK(MPI_Put(&zero, 1, MPI_INT, 0, 0, 1, MPI_INT, w->win));
        CHECK_OK(MPI_Win_complete(w->win));
    } else if (rank == target) {
        CHECK_OK(MPI_Win_post(other, 0, w->win));
        while (place == WIN_TEST && !flag) CHECK_OK(MPI_Win_test(w->win, &flag));
        if (place == WIN_WAIT) CHECK_OK(MPI_Win_wait(w->win));
    } else {
        before();
        if (rank == 0 && place == WIN_COMPLETE) {
            CHECK_OK(MPI_Win_post(other, 0, w->win));
            CHECK_OK(MPI_Win_wait(w->win));
        } else if (rank == 0) {
            CHECK_OK(MPI_Win_start(other, 0, w->win));
            CHECK_OK(MPI_Win_complete(w->win));
        }
    }
    MPI_Group_free(&group);
    MPI_Group_free(&other);
}

static void places_begin(void)
{
    target = size - 1;
    bytes = allocate(LONG);
    file_begin();
    for (int i = 0; i < 2; i++) {
        int owner = i == 0 ? target : 0;
        if (rank == owner) CHECK_OK(MPI_Open_port(MPI_INFO_NULL, ports[i]));
        MPI_Bcast(ports[i], MPI_MAX_PORT_NAME, MPI_CHAR, owner, MPI_COMM_WORLD);
    }
}

static void places_end(void)
{
    if (rank == target) CHECK_OK(MPI_Close_port(ports[0]));
    if (rank == 0) CHECK_OK(MPI_Close_port(ports[1]));
    free(bytes);
}

#endif
