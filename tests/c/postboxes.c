// ranks: 1 2 4 7
// transports: near
// every day: usysv sysv
/* Messages around the lengths at which the guide's shared memory changes its protocol, many long
 * ones at once, more than the pool can hold. Counts agree with the parameters: the size of the
 * segment by the guide's formula, the announced messages, the pieces through the pool. Other
 * transports only carry the messages. */
#include "mpit.h"

enum { MANY = 100, LONG = 60000 };

static MPI_T_pvar_session session;

static long long parameter(const char *way, const char *what, long long otherwise)
{
    char name[80];
    snprintf(name, sizeof name, "OXMPI_MCA_rpi_%s_%s", way, what);
    const char *text = getenv(name);
    return text ? atoll(text) : otherwise;
}

static unsigned char byte_of(int number, size_t at)
{
    return (unsigned char) (number * 13 + at * 7 + at / 255);
}

static void fill(unsigned char *data, size_t len, int number)
{
    for (size_t at = 0; at < len; at++) data[at] = byte_of(number, at);
}

static int holds(const unsigned char *data, size_t len, int number)
{
    for (size_t at = 0; at < len; at++)
        if (data[at] != byte_of(number, at)) return 0;
    return 1;
}

static void lengths(long long s)
{
    long long all[] = {0, 1, s - 1, s, s + 1, 2 * s - 1, 2 * s, 2 * s + 1, 3 * s, 20 * s + 5, 300000};
    unsigned char *data = allocate(20 * s + 300001);
    for (size_t n = 0; n < sizeof all / sizeof *all && rank < 2 && size > 1; n++) {
        int len = (int) all[n];
        check_where("%d bytes", len);
        if (rank == 0) {
            fill(data, len, (int) n);
            CHECK_OK(MPI_Send(data, len, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
            CHECK_OK(MPI_Ssend(data, len, MPI_BYTE, 1, 2, MPI_COMM_WORLD));
            CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 3, MPI_COMM_WORLD));
        } else {
            MPI_Status status;
            int count;
            CHECK_OK(MPI_Recv(data, len + 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status));
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQ(count, len);
            CHECK(holds(data, len, (int) n));
            memset(data, 0, len);
            CHECK_OK(MPI_Recv(data, len, MPI_BYTE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status));
            CHECK(holds(data, len, (int) n));
            CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        check_where("%s", "");
    }
    free(data);
}

/* Each rank has a hundred long messages to its neighbour under way at once, and receives them in
 * reverse. */
static void many(void)
{
    static MPI_Request requests[2 * MANY];
    unsigned char *out = allocate((size_t) MANY * LONG), *in = allocate((size_t) MANY * LONG);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int n = 0; n < MANY; n++) {
        fill(out + (size_t) n * LONG, LONG, n + rank);
        MPI_Isend(out + (size_t) n * LONG, LONG, MPI_BYTE, to, n, MPI_COMM_WORLD, &requests[n]);
    }
    for (int n = MANY - 1; n >= 0; n--)
        MPI_Irecv(in + (size_t) n * LONG, LONG, MPI_BYTE, from, n, MPI_COMM_WORLD, &requests[MANY + n]);
    CHECK_OK(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
    for (int n = 0; n < MANY; n++) {
        check_where("message %d", n);
        CHECK(holds(in + (size_t) n * LONG, LONG, n + from));
    }
    check_where("%s", "");
    free(out);
    free(in);
}

static void counted(long long len, number announced, number *pooled, number *boxed)
{
    check_where("%lld bytes", len);
    MPI_T_pvar_handle rendezvous = started(session, "rendezvous_messages_sent", NULL);
    MPI_T_pvar_handle pool = started(session, "postbox_pieces_pooled", NULL);
    MPI_T_pvar_handle boxes = started(session, "postbox_pieces_boxed", NULL);
    unsigned char *data = allocate(len + 1);
    check_where("%lld bytes", len);
    if (rank == 0) CHECK_OK(MPI_Send(data, (int) len, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
    if (rank == 1) CHECK_OK(MPI_Recv(data, (int) len, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(value(session, rendezvous), rank == 0 ? announced : 0);
    *pooled = value(session, pool);
    *boxed = value(session, boxes);
    free(data);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    check_where("%s", "");
    MPI_Barrier(MPI_COMM_WORLD);
}

static void numbers(const char *way)
{
    long long s = parameter(way, "short", 8192), n = size, p = parameter(way, "shmpoolsize", n << 20);
    long long most = parameter(way, "shmmaxalloc", p / n / 4 < 256 << 10 ? p / n / 4 : 256 << 10);
    MPI_T_pvar_handle segment = pvar(session, "postbox_segment_size", NULL);
    CHECK_EQ(value(session, segment), (number) (2 * 64 + n * (n - 1) * (s + 64) + p));
    number pooled, boxed;
    counted(2 * s, 0, &pooled, &boxed);
    CHECK_EQ(pooled + boxed, 0);
    counted(2 * s + 1, 1, &pooled, &boxed);
    if (rank == 0) CHECK(pooled + boxed >= 1);
    long long rest = 10 * s + 3;
    counted(s + rest, 1, &pooled, &boxed);
    if (rank != 0) return;
    if (most >= 1 && most <= p / 2) {
        CHECK_EQ(pooled, (number) ((rest + most - 1) / most));
        CHECK_EQ(boxed, 0);
    } else if (p == 0) {
        CHECK_EQ(pooled, 0);
        CHECK_EQ(boxed, (number) ((rest + s - 1) / s));
    }
}

int main(int argc, char **argv)
{
    int provided;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_pvar_session_create(&session));
    const char *way = getenv("OXMPI_MCA_rpi"), *nodes = getenv("OXMPI_MCA_mpi_virtual_nodes");
    int has_postboxes = way && (strcmp(way, "usysv") == 0 || strcmp(way, "sysv") == 0);
    lengths(has_postboxes ? parameter(way, "short", 8192) : 8192);
    many();
    if (has_postboxes && size > 1 && !(nodes && atoi(nodes) > 1)) {
        numbers(way);
        CHECK_EQ(value(session, pvar(session, "postbox_pool_used", NULL)), 0);
    }
    int result = check_end();
    MPI_T_finalize();
    return result;
}
