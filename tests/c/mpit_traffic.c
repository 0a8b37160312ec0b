// ranks: 1 2 4
// transports: all
// every day: usysv sysv
// not over: gm, because it knows the variables of shared memory and sockets alone
// not over: nodes, because it knows the variables of shared memory and sockets alone
// not over: ofi, because it knows the variables of shared memory and sockets alone
// not over: shm-single-copy, because it counts protocols that the parameters of this way change
/* Counts equal the sent data: messages and bytes of each transport, protocols, queues, requests,
 * collectives. */
#include "mpit.h"

enum { MESSAGES = 40 };

static MPI_T_pvar_session session;
static const char *way, *other;
static char rpi[64];
/* The longest message that leaves before its receive is known to be posted. */
static size_t eager_limit;

static MPI_T_pvar_handle of_way(const char *transport, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", transport, what);
    return started(session, name, NULL);
}

static size_t asked_limit(void)
{
    if (strcmp(rpi, "lamd") == 0) return SIZE_MAX; /* the daemon takes all at once */
    if (strcmp(rpi, "shm") == 0) return int_cvar("shm_eager_limit_bytes");
    char name[96];
    snprintf(name, sizeof name, "rpi_%s_short", rpi);
    size_t is_short = int_cvar(name);
    /* In the guide's two transports short messages take one packet or two. */
    return strcmp(rpi, "sysv") == 0 || strcmp(rpi, "usysv") == 0 ? 2 * is_short : is_short;
}

static void transport(size_t bytes)
{
    int is_long = bytes > eager_limit;
    check_where("%zu bytes", bytes);
    MPI_T_pvar_handle sent = of_way(way, "messages_sent"), bytes_sent = of_way(way, "bytes_sent");
    MPI_T_pvar_handle received = of_way(way, "messages_received"), bytes_received = of_way(way, "bytes_received");
    MPI_T_pvar_handle wrong = of_way(other, "messages_sent"), wrong_in = of_way(other, "bytes_received");
    MPI_T_pvar_handle eager = started(session, "eager_messages_sent", NULL);
    MPI_T_pvar_handle rendezvous = started(session, "rendezvous_messages_sent", NULL);
    MPI_T_pvar_handle matched = started(session, "rendezvous_messages_received", NULL);
    check_where("%zu bytes", bytes);
    unsigned char *buffer = allocate(bytes);
    meet();
    int sends = rank % 2 == 0 && rank + 1 < size, receives = rank % 2 == 1;
    for (int i = 0; i < MESSAGES; i++) {
        if (sends) MPI_Send(buffer, (int) bytes, MPI_BYTE, rank + 1, i, MPI_COMM_WORLD);
        if (receives) MPI_Recv(buffer, (int) bytes, MPI_BYTE, rank - 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    CHECK_OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
    /* Later messages are not counted. */
    meet();
    MPI_Barrier(MPI_COMM_WORLD);
    number out = sends ? MESSAGES : 0, in = receives ? MESSAGES : 0;
    CHECK_EQ(value(session, sent), out);
    CHECK_EQ(value(session, bytes_sent), out * bytes);
    CHECK_EQ(value(session, received), in);
    CHECK_EQ(value(session, bytes_received), in * bytes);
    CHECK_EQ(value(session, wrong), 0);
    CHECK_EQ(value(session, wrong_in), 0);
    CHECK_EQ(value(session, rendezvous), is_long ? out : 0);
    CHECK_EQ(value(session, eager), is_long ? 0 : out);
    CHECK_EQ(value(session, matched), is_long ? in : 0);
    free(buffer);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    meet();
    check_where("%s", "");
}

/* All kinds of calls, each with messages of 24 bytes. */
static void calls(void)
{
    MPI_T_pvar_handle sent = of_way(way, "messages_sent"), bytes_sent = of_way(way, "bytes_sent");
    MPI_T_pvar_handle received = of_way(way, "messages_received"), bytes_received = of_way(way, "bytes_received");
    meet();
    int peer = rank ^ 1;
    double out[3] = {1, 2, 3}, in[3];
    if (peer < size) {
        MPI_Request requests[2];
        MPI_Isend(out, 3, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(in, 3, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Irecv(in, 3, MPI_DOUBLE, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Issend(out, 3, MPI_DOUBLE, peer, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(out, 3, MPI_DOUBLE, peer, 3, in, 3, MPI_DOUBLE, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send_init(out, 3, MPI_DOUBLE, peer, 4, MPI_COMM_WORLD, &requests[0]);
        MPI_Recv_init(in, 3, MPI_DOUBLE, peer, 4, MPI_COMM_WORLD, &requests[1]);
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
    meet();
    number count = peer < size ? 4 : 0;
    CHECK_EQ(value(session, sent), count);
    CHECK_EQ(value(session, bytes_sent), count * sizeof out);
    CHECK_EQ(value(session, received), count);
    CHECK_EQ(value(session, bytes_received), count * sizeof in);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    meet();
}

static void self(void)
{
    MPI_T_pvar_handle messages = started(session, "self_messages", NULL), bytes = started(session, "self_bytes", NULL);
    MPI_T_pvar_handle sent = of_way(way, "messages_sent");
    char out[100] = "", in[100];
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        MPI_Irecv(in, 100, MPI_CHAR, rank, 5, MPI_COMM_WORLD, &request);
        MPI_Send(out, 100, MPI_CHAR, rank, 5, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    CHECK_EQ(value(session, messages), MESSAGES);
    CHECK_EQ(value(session, bytes), MESSAGES * 100);
    CHECK_EQ(value(session, sent), 0);
}

static void queues(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    meet();
    MPI_T_pvar_handle waiting = pvar(session, "comm_unexpected_queue_length", &comm);
    MPI_T_pvar_handle peak = started(session, "comm_unexpected_queue_peak", &comm);
    MPI_T_pvar_handle early = pvar(session, "comm_unexpected_queue_peak", &comm);
    MPI_T_pvar_handle matched = started(session, "unexpected_messages_matched", NULL);
    MPI_T_pvar_handle came = started(session, "unexpected_messages", NULL);
    MPI_T_pvar_handle all_waiting = pvar(session, "unexpected_queue_length", NULL);
    int previous = (rank + size - 1) % size, next = (rank + 1) % size, word = 0;
    number before = value(session, all_waiting);
    CHECK_EQ(value(session, waiting), 0);
    meet();
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        MPI_Isend(&i, 1, MPI_INT, next, 6, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    /* When this has arrived all earlier ones have. */
    MPI_Sendrecv(&word, 1, MPI_INT, next, 7, &word, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(value(session, waiting), MESSAGES);
    CHECK_EQ(value(session, peak), MESSAGES);
    CHECK_EQ(value(session, early), 0);
    CHECK(value(session, all_waiting) >= before + MESSAGES);
    CHECK(value(session, came) >= MESSAGES);
    number earlier = value(session, matched);
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Recv(&word, 1, MPI_INT, previous, 6, comm, MPI_STATUS_IGNORE);
        CHECK_EQ(word, i);
        CHECK_EQ(value(session, waiting), MESSAGES - 1 - i);
        if (i == MESSAGES / 2) {
            CHECK_OK(MPI_T_pvar_start(session, early));
            CHECK_EQ(value(session, early), MESSAGES - 1 - i);
        }
    }
    CHECK(value(session, matched) >= earlier + MESSAGES);
    CHECK_EQ(value(session, peak), MESSAGES);
    CHECK_EQ(value(session, early), MESSAGES - 1 - MESSAGES / 2);
    number last = 0;
    CHECK_OK(MPI_T_pvar_readreset(session, peak, &last));
    CHECK_EQ(last, MESSAGES);
    CHECK_EQ(value(session, peak), 0);
    CHECK_EQ(value(session, early), MESSAGES - 1 - MESSAGES / 2);

    MPI_T_pvar_handle posted = pvar(session, "comm_posted_queue_length", &comm);
    MPI_T_pvar_handle all_posted = pvar(session, "posted_queue_length", NULL), requests = pvar(session, "requests", NULL);
    MPI_Request receives[5];
    number all_before = value(session, all_posted), requests_before = value(session, requests);
    for (int i = 0; i < 5; i++) MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, i, comm, &receives[i]);
    CHECK_EQ(value(session, posted), 5);
    CHECK_EQ(value(session, all_posted), all_before + 5);
    CHECK_EQ(value(session, requests), requests_before + 5);
    for (int i = 0; i < 5; i++) {
        MPI_Cancel(&receives[i]);
        MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
    }
    CHECK_EQ(value(session, posted), 0);
    CHECK_EQ(value(session, requests), requests_before);

    MPI_Comm old = comm;
    MPI_Comm_free(&comm);
    number read;
    CHECK_EQ(MPI_T_pvar_read(session, posted, &read), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQ(MPI_T_pvar_read(session, peak, &read), MPI_T_ERR_INVALID_HANDLE);
    MPI_T_pvar_handle none;
    int count;
    CHECK_EQ(MPI_T_pvar_handle_alloc(session, pvar_index("comm_posted_queue_length", NULL), &old, &none, &count),
             MPI_T_ERR_INVALID_HANDLE);
}

static int counters_of(const char *begin, MPI_T_pvar_handle *counters, int most)
{
    int names = 0, count = 0;
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count && names < most; i++) {
        char name[128];
        int length = sizeof name, level, class_of;
        MPI_T_pvar_get_info(i, name, &length, &level, &class_of, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        if (strncmp(name, begin, strlen(begin)) == 0 && class_of == MPI_T_PVAR_CLASS_COUNTER)
            counters[names++] = started(session, name, NULL);
    }
    return names;
}

static void collectives(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_T_pvar_handle on_comm = started(session, "comm_collectives", &comm);
    MPI_T_pvar_handle on_self = started(session, "comm_collectives", &(MPI_Comm){MPI_COMM_SELF});
    int algorithm = -1;
    MPI_T_pvar_handle counters[64];
    int names = counters_of("coll_bcast_", counters, 64);
    CHECK(names >= 3);
    MPI_T_pvar_handle last = pvar(session, "coll_bcast_algorithm", NULL);
    int word = rank;
    for (int i = 0; i < 9; i++) MPI_Bcast(&word, 1, MPI_INT, 0, comm);
    MPI_Request request;
    MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    number sum = 0;
    for (int i = 0; i < names; i++) sum += value(session, counters[i]);
    CHECK_EQ(sum, 10);
    CHECK_EQ(value(session, on_comm), 10);
    CHECK_EQ(value(session, on_self), 0);
    CHECK_OK(MPI_T_pvar_read(session, last, &algorithm));
    CHECK(algorithm > 0);
    for (int i = 0; i < 7; i++) MPI_Barrier(comm);
    CHECK_EQ(value(session, on_comm), 17);
    /* A persistent one counts at each start, and not before. */
    MPI_Bcast_init(&word, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request);
    CHECK_EQ(value(session, on_comm), 17);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    sum = 0;
    for (int i = 0; i < names; i++) sum += value(session, counters[i]);
    CHECK_EQ(sum, 13);
    CHECK_EQ(value(session, on_comm), 20);
    MPI_Comm_free(&comm);
}

static void barriers(void)
{
    MPI_T_pvar_handle section = started(session, "coll_barrier_control_section_calls", NULL);
    MPI_T_pvar_handle sums = started(session, "coll_allreduce_control_section_calls", NULL);
    MPI_T_pvar_handle counters[64];
    int names = counters_of("coll_barrier_", counters, 64);
    MPI_T_pvar_handle last = pvar(session, "coll_barrier_algorithm", NULL);
    int one = 1, all = 0, algorithm = -1;
    for (int i = 0; i < 6; i++) MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++) MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    /* The collectives of a host use its memory also over sockets, unless the job says otherwise;
     * over these two transports they are messages. */
    int small = size > 1 && strcmp(rpi, "lamd") != 0 && strcmp(rpi, "crtcp") != 0 && !getenv("OXMPI_MCA_coll");
    CHECK_EQ(value(session, section), small ? 6 : 0);
    number sum = 0;
    for (int i = 0; i < names; i++) sum += value(session, counters[i]);
    CHECK(names >= 3);
    CHECK_EQ(sum, 6);
    CHECK_EQ(value(session, sums), small ? 4 : 0);
    CHECK_OK(MPI_T_pvar_read(session, last, &algorithm));
    CHECK_EQ(algorithm == 255, small);
}

static void memory(void)
{
    MPI_T_pvar_handle used = pvar(session, "alloc_mem_used", NULL), all = pvar(session, "alloc_mem_size", NULL);
    number before = value(session, used);
    void *memory;
    MPI_Alloc_mem(100000, MPI_INFO_NULL, &memory);
    number taken = value(session, used) - before;
    CHECK(value(session, all) == 0 ? taken == 0 : taken >= 100000 && taken < 200000);
    MPI_Free_mem(memory);
    CHECK_EQ(value(session, used), before);
}

int main(int argc, char **argv)
{
    int provided;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_pvar_session_create(&session));
    way = is_over_tcp(session) ? "tcp" : "shm";
    other = is_over_tcp(session) ? "shm" : "tcp";
    word_cvar("rpi", rpi, sizeof rpi);
    eager_limit = asked_limit();
    meeting_open();
    meet();
    const size_t lengths[] = {0, 8, 56, 57, 100, 4096, 20000, 300000, 3000000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) transport(lengths[i]);
    calls();
    self();
    queues();
    collectives();
    barriers();
    memory();
    int result = check_end();
    MPI_T_finalize();
    return result;
}
