/* A job that another launcher has started: joined RANKS. Checks the world, messages between all
 * pairs, the routes of the messages, which ranks share a node, windows, and a spawned process.
 *
 * joined end HOW RANK: the rank ends by itself behind MPI_Init, and the others wait for it.
 * joined tool: rank 1 runs this program as a tool, which is a job of one rank.
 * joined some: only rank 0 calls MPI_Init.
 * joined wait: prints a line, and waits for signals. */
#include "../mpit.h"

enum { MOST = 1 << 20, NAME = 64 };

static const int lengths[] = {1, 100, 4097, 65536, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static MPI_T_pvar_session variables;
static MPI_T_pvar_handle near_sent, far_sent;
static char names[64][NAME];

static int is_near(int peer) { return strcmp(names[rank], names[peer]) == 0; }

/* Exchanges messages of all lengths with the other ranks on this node, or on other nodes. */
static void exchange(int near)
{
    static unsigned char out[MOST], in[MOST];
    for (int distance = 1; distance < size; distance++) {
        int to = (rank + distance) % size, from = (rank + size - distance) % size;
        for (int i = 0; i < LENGTHS; i++) {
            MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
            int length = lengths[i];
            check_where("%d bytes from %d, to %d", length, from, to);
            pattern_fill(out, length, rank * LENGTHS + i);
            memset(in, 0, length);
            if (is_near(from) == near) MPI_Irecv(in, length, MPI_BYTE, from, i, MPI_COMM_WORLD, &requests[0]);
            if (is_near(to) == near) MPI_Isend(out, length, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            if (is_near(from) == near) CHECK_EQ(pattern_differs(in, length, from * LENGTHS + i), -1);
        }
    }
    check_where("%s", "");
}

static void routes(void)
{
    int on_node = 0;
    for (int peer = 0; peer < size; peer++) on_node += is_near(peer);
    number near_before = value(variables, near_sent), far_before = value(variables, far_sent);
    exchange(1);
    CHECK_EQ(value(variables, near_sent) - near_before >= LENGTHS, on_node > 1);
    CHECK_EQ(value(variables, far_sent) - far_before, 0);
    far_before = value(variables, far_sent);
    exchange(0);
    CHECK_EQ(value(variables, far_sent) - far_before >= LENGTHS, on_node < size);
}

/* The node of MPI_Comm_split_type has the ranks with this host name, and their memory. */
static void nodes(void)
{
    MPI_Comm node;
    MPI_Win win;
    int *own, *other, unit, node_rank, node_size, on_node = 0;
    MPI_Aint bytes;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_size);
    for (int peer = 0; peer < size; peer++) on_node += is_near(peer);
    CHECK_EQ(node_size, on_node);
    CHECK_OK(MPI_Win_allocate_shared(sizeof *own, 1, MPI_INFO_NULL, node, &own, &win));
    MPI_Win_fence(0, win);
    *own = rank;
    MPI_Win_fence(0, win);
    CHECK_OK(MPI_Win_shared_query(win, (node_rank + 1) % node_size, &bytes, &unit, &other));
    CHECK(*other < size && is_near(*other));
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
    MPI_Info info;
    char found[64] = "";
    int length = sizeof found, flag;
    MPI_Info_create(&info);
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &node));
    CHECK_EQ(node != MPI_COMM_NULL, on_node < size);
    MPI_Info_get_string(info, "mpi_hw_resource_type", &length, found, &flag);
    CHECK_EQ(flag && !strcmp(found, "mpi_shared_memory"), on_node < size);
    if (node != MPI_COMM_NULL) MPI_Comm_free(&node);
    MPI_Info_free(&info);
}

static void windows(void)
{
    long *numbers, one = 1, before;
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate(2 * sizeof *numbers, sizeof *numbers, MPI_INFO_NULL, MPI_COMM_WORLD, &numbers, &win));
    numbers[0] = numbers[1] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    long sent = rank + 1;
    MPI_Put(&sent, 1, MPI_LONG, (rank + 1) % size, 0, 1, MPI_LONG, win);
    for (int i = 0; i < 10; i++) {
        MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 1, MPI_SUM, win);
        MPI_Win_flush(0, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK_EQ(numbers[0], (rank + size - 1) % size + 1);
    if (rank == 0) CHECK_EQ(numbers[1], 10 * size);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
}

/* The sum over the ranks of both sides of an intercommunicator, which is disconnected. */
static void with_child(MPI_Comm between, int is_child)
{
    MPI_Comm all;
    int sum = 0, mine = 1, wanted;
    MPI_Intercomm_merge(between, is_child, &all);
    MPI_Comm_size(all, &wanted);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK_EQ(sum, wanted);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&between);
}

static void end(const char *how, int victim)
{
    int nothing;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == victim) {
        if (!strcmp(how, "kill")) raise(SIGKILL);
        if (!strcmp(how, "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
        exit(0);
    }
    MPI_Recv(&nothing, 1, MPI_INT, victim, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int is_first_task(void)
{
    const char *number = getenv("SLURM_PROCID");
    if (!number) number = getenv("PMI_RANK");
    if (!number) number = getenv("PMI_ID");
    if (!number) number = getenv("PMIX_RANK");
    return number && atoi(number) == 0;
}

int main(int argc, char **argv)
{
    char command[4096];
    const char *act = argc > 1 ? argv[1] : "1";
    if (!strcmp(act, "some") && !is_first_task()) {
        pause_ms(300);
        return 0;
    }
    check_begin(&argc, &argv);
    if (!strcmp(act, "some")) return check_end();
    if (!strcmp(act, "end")) end(argv[2], atoi(argv[3]));
    if (!strcmp(act, "wait")) {
        printf("rank %d %d\n", rank, (int) getpid());
        fflush(stdout);
        MPI_Barrier(MPI_COMM_WORLD);
        pause_ms(60000);
    }
    if (!strcmp(act, "tool")) {
        snprintf(command, sizeof command, "'%s' 1", argv[0]);
        if (rank == 1) CHECK_EQ(system(command), 0);
        return check_end();
    }
    MPI_Comm parent, child;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        with_child(parent, 1);
        MPI_Finalize();
        return check_failures != 0;
    }
    CHECK_EQ(size, atoi(act));
    int provided, sum, mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(sum, size * (size + 1) / 2);
    gethostname(names[rank], NAME);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, names, NAME, MPI_CHAR, MPI_COMM_WORLD);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&variables);
    near_sent = started(variables, "shm_messages_sent", NULL);
    far_sent = started(variables, "tcp_messages_sent", NULL);
    routes();
    nodes();
    windows();
    CHECK_OK(MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE));
    with_child(child, 0);
    return check_end();
}
