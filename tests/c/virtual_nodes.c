// ranks: 1 2 4 5 7
// transports: all
// every day: nodes lamd ofi
/* A job on several nodes: messages within a node go through shared memory, all others over
 * sockets. On one node, or over sockets alone, one kind of peers is missing, and the rest is
 * still true. */
#include "mpit.h"

enum { MESSAGES = 30 };

static MPI_T_pvar_session session;
static int node_of[16], way; /* 0: shared memory, 1: sockets, 2: both */

static int is_far(int peer) { return way == 1 || (way == 2 && node_of[peer] != node_of[rank]); }

static void find_nodes(void)
{
    MPI_Comm node;
    int lowest = rank, i, n;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MPI_Bcast(&lowest, 1, MPI_INT, 0, node);
    MPI_Allgather(&lowest, 1, MPI_INT, node_of, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Comm_size(node, &n);
    for (i = 0; i < size; i++) n -= node_of[i] == node_of[rank];
    CHECK_EQ(n, 0);
    for (i = 1; i < size; i++) CHECK(node_of[i] == node_of[i - 1] || node_of[i] == i);
    const char *wanted = getenv("OXMPI_MCA_mpi_virtual_nodes");
    if (wanted) {
        int nodes = atoi(wanted) < size ? atoi(wanted) : size, found = 0;
        for (i = 0; i < size; i++) found += node_of[i] == i;
        CHECK_EQ(found, nodes);
    }
    CHECK_OK(MPI_Comm_free(&node));
}

/* Each rank sends to each other one; the counts of each transport follow from the nodes of the
 * peers. */
static void traffic(size_t bytes)
{
    check_where("%zu bytes", bytes);
    const char *names[2][2] = {{"shm_messages_sent", "shm_messages_received"}, {"tcp_messages_sent", "tcp_messages_received"}};
    const char *sums[2][2] = {{"shm_bytes_sent", "shm_bytes_received"}, {"tcp_bytes_sent", "tcp_bytes_received"}};
    MPI_T_pvar_handle counts[2][2], volumes[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            counts[i][j] = started(session, names[i][j], NULL);
            volumes[i][j] = started(session, sums[i][j], NULL);
        }
    check_where("%zu bytes", bytes);
    unsigned char *out = allocate(bytes + 1), *in = allocate(bytes + 1);
    number peers[2] = {0, 0};
    meet();
    for (int i = 0; i < MESSAGES; i++)
        for (int d = 1; d < size; d++) {
            int to = (rank + d) % size, from = (rank + size - d) % size;
            memset(out, rank + i, bytes);
            MPI_Sendrecv(out, (int) bytes, MPI_BYTE, to, i, in, (int) bytes, MPI_BYTE, from, i, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            for (size_t b = 0; b < bytes; b += 997) CHECK_EQ(in[b], (unsigned char) (from + i));
        }
    for (int r = 0; r < size; r++) peers[is_far(r)] += r != rank;
    CHECK_OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
    meet();
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            check_where("%zu bytes, %s", bytes, names[i][j]);
            CHECK_EQ(value(session, counts[i][j]), MESSAGES * peers[i]);
            CHECK_EQ(value(session, volumes[i][j]), MESSAGES * peers[i] * bytes);
        }
    free(out), free(in);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    meet();
    check_where("%s", "");
}

/* Near and far peers wake a sleeping rank: also a rank of its own node, which rings the door of
 * an owner that sleeps on its sockets. */
static void sleepers(void)
{
    int token = 0;
    for (int turn = 0; turn < 3; turn++)
        for (int r = 0; r < size; r++) {
            int to = (r + 1) % size;
            if (size < 2) return;
            if (rank == r) {
                usleep(3000);
                MPI_Send(&turn, 1, MPI_INT, to, 9, MPI_COMM_WORLD);
            }
            if (rank == to) {
                MPI_Recv(&token, 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK_EQ(token, turn);
            }
        }
}

static void groups(void)
{
    MPI_Comm parts[2];
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &parts[0]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &parts[1]));
    for (int i = 0; i < 200; i++)
        for (int p = 0; p < 2; p++) {
            int n, one = 1, sum = 0;
            MPI_Comm_size(parts[p], &n);
            MPI_Barrier(parts[p]);
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parts[p]);
            CHECK_EQ(sum, n);
        }
    CHECK_OK(MPI_Comm_free(&parts[0]));
    CHECK_OK(MPI_Comm_free(&parts[1]));
}

int main(int argc, char **argv)
{
    int provided;
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle transport = pvar(session, "transport", NULL);
    CHECK_OK(MPI_T_pvar_read(session, transport, &way));
    CHECK_OK(MPI_T_pvar_handle_free(session, &transport));
    find_nodes();
    meeting_open();
    for (int i = 0; i < 3; i++) traffic((size_t[]) {0, 1000, 300000}[i]);
    sleepers();
    groups();
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_finalize());
    return check_end();
}
