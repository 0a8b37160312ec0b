// ranks: 1 2 4 7
// transports: all
/* Messages in an intercommunicator: ranks are those of the remote group, of all lengths, modes
 * and wildcards. */
#include "comms.h"

static MPI_Comm inter;
static int me, local, remote;
static int others[64];

static void lengths(void)
{
    static const int all[] = {0, 1, 56, 57, 1000, 5000, 70000, 400000};
    for (int k = 0; k < 8; k++) {
        size_t bytes = all[k];
        unsigned char *out = allocate(bytes), *in = allocate(bytes);
        check_where("%zu bytes", bytes);
        for (int shift = 0; shift < (local > remote ? local : remote); shift++) {
            /* Rank i of the first group and rank j of the second exchange messages if i + j is
             * `shift`, modulo the larger number. */
            int n = local > remote ? local : remote, peer = (shift - me + n) % n;
            if (peer >= remote) continue;
            MPI_Request sent;
            MPI_Status status;
            pattern_fill(out, bytes, (unsigned) rank);
            CHECK_OK(k % 2 ? MPI_Isend(out, (int) bytes, MPI_BYTE, peer, k, inter, &sent)
                           : MPI_Issend(out, (int) bytes, MPI_BYTE, peer, k, inter, &sent));
            CHECK_OK(MPI_Recv(in, (int) bytes, MPI_BYTE, peer, k, inter, &status));
            CHECK_STATUS(&status, peer, k, (int) bytes);
            CHECK_EQ(pattern_differs(in, bytes, (unsigned) others[peer]), -1);
            CHECK_OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
        }
        free(out);
        free(in);
    }
}

static void wildcards(void)
{
    MPI_Request sends[64];
    int heard[64] = {0};
    check_where("wildcards");
    for (int i = 0; i < remote; i++) CHECK_OK(MPI_Isend(&rank, 1, MPI_INT, i, 100 + me, inter, &sends[i]));
    for (int i = 0; i < remote; i++) {
        MPI_Status found, status;
        int value = -1;
        CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &found));
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, i % 2 ? found.MPI_SOURCE : MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
        if (i % 2) CHECK_EQ(status.MPI_SOURCE, found.MPI_SOURCE);
        if (!CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < remote)) continue;
        CHECK_STATUS(&status, status.MPI_SOURCE, 100 + status.MPI_SOURCE, 4);
        CHECK_EQ(value, others[status.MPI_SOURCE]);
        CHECK_EQ(heard[status.MPI_SOURCE]++, 0);
    }
    CHECK_OK(MPI_Waitall(remote, sends, MPI_STATUSES_IGNORE));
    int flag = -1;
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
}

/* The same two processes and tags in the intercommunicator and in the world: nothing mixes. */
static void beside_world(void)
{
    MPI_Request requests[2];
    int in[2] = {-1, -1}, peer = me < remote ? me : -1;
    check_where("beside the world");
    if (peer < 0) return;
    int a = rank, b = rank + 1000;
    CHECK_OK(MPI_Irecv(&in[0], 1, MPI_INT, others[peer], 4, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Irecv(&in[1], 1, MPI_INT, peer, 4, inter, &requests[1]));
    CHECK_OK(MPI_Send(&b, 1, MPI_INT, peer, 4, inter));
    CHECK_OK(MPI_Send(&a, 1, MPI_INT, others[peer], 4, MPI_COMM_WORLD));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(in[0], others[peer]);
    CHECK_EQ(in[1], others[peer] + 1000);
}

static void no_process(void)
{
    MPI_Status status;
    int value = 5;
    check_where("MPI_PROC_NULL");
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 1, inter));
    CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, inter, &status));
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    CHECK_EQ(value, 5);
}

static void arguments(void)
{
    MPI_Request request;
    int value = 0, flag;
    check_where("arguments");
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, remote, 0, inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Isend(&value, 1, MPI_INT, -7, 0, inter, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, remote, 0, inter, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Irecv(&value, 1, MPI_INT, remote, 0, inter, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Iprobe(remote, 0, inter, &flag, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, 0, -1, inter), MPI_ERR_TAG);
    if (remote > local) /* a rank that only the remote group has is right */
        CHECK_OK(MPI_Iprobe(remote - 1, 0, inter, &flag, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    if (size > 1) {
        MPI_Comm group;
        /* One group of a third of the ranks, at least one, and the others; both in reverse
         * order. */
        int few = size / 3 > 0 ? size / 3 : 1, second = rank >= few;
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, second, -rank, &group));
        CHECK_OK(MPI_Intercomm_create(group, 0, MPI_COMM_WORLD, second ? few - 1 : size - 1, 1, &inter));
        CHECK_OK(MPI_Comm_free(&group));
        CHECK_OK(MPI_Comm_rank(inter, &me));
        CHECK_OK(MPI_Comm_size(inter, &local));
        remote = remote_members_of(inter, others);
        CHECK_EQ(local, second ? size - few : few);
        CHECK_EQ(remote, size - local);
        for (int i = 0; i < remote; i++) CHECK_EQ(others[i], second ? few - 1 - i : size - 1 - i);
        for (int round = 0; round < 5; round++) {
            lengths();
            MPI_Barrier(MPI_COMM_WORLD); /* the wildcard receives are for these messages alone */
            wildcards();
            MPI_Barrier(MPI_COMM_WORLD);
            beside_world();
            no_process();
            arguments();
        }
        CHECK_OK(MPI_Comm_free(&inter));
    }
    return check_end();
}
