/* The effect of parameters: parameters WHAT [NUMBER...]. Rank 1 is the peer of rank 0. Counts
 * are compared with the numbers, or printed if only two runs show the difference. */
#define _GNU_SOURCE
#include "../mpit.h"

#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

static MPI_T_pvar_session session;

static void pause_for(int ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void send_some(int messages, int bytes)
{
    char *buffer = allocate((size_t) bytes + 1);
    for (int i = 0; i < messages; i++) {
        if (rank == 0) MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(buffer);
}

/* LIMIT: a message of this length leaves at once, and one with a byte more is announced. */
static void eager(int limit)
{
    /* Before there is a path with more room, longer messages are announced. */
    send_some(20, 8);
    MPI_Barrier(MPI_COMM_WORLD);
    send_some(20, 8);
    MPI_T_pvar_handle announced = started(session, "rendezvous_messages_sent", NULL);
    send_some(3, limit);
    CHECK_EQ(value(session, announced), 0);
    send_some(3, limit + 1);
    CHECK_EQ(value(session, announced), rank == 0 ? 3 : 0);
}

/* BYTES: the kernel's buffer of each connection and direction (socket(7): it reports twice the
 * requested value). */
static void buffers(int bytes)
{
    int found = 0;
    send_some(3, 100);
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        if (getpeername(fd, (struct sockaddr *) &peer, &length) != 0 || peer.sin_family != AF_INET) continue;
        int out = 0, in = 0;
        length = sizeof out;
        CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &out, &length), 0);
        CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &in, &length), 0);
        CHECK_EQ(out, 2 * bytes);
        CHECK_EQ(in, 2 * bytes);
        found++;
    }
    CHECK(found > 0);
}

/* BYTES LEAST MOST: the number of messages of BYTES bytes that are sent, or wait without their
 * sender's memory, while their receiver is not in the library. */
static void depth(int bytes, int least, int most)
{
    enum { ALL = 400 };
    static MPI_Request requests[ALL];
    char *buffer = allocate((size_t) bytes);
    /* Long messages do not wait for an answer, and the grant of a ring is read with the next
     * message of the receiver. */
    for (int i = 0; i < 4 && rank < 2 && bytes > 440; i++)
        MPI_Sendrecv_replace(buffer, 1, MPI_BYTE, 1 - rank, 2, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    send_some(20, bytes);
    meet();
    int done = 0;
    if (rank == 0) {
        for (int i = 0; i < ALL; i++) MPI_Isend(buffer, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        for (int i = 0; i < ALL; i++) {
            int flag = 0;
            MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
            done += flag;
        }
        check_where("%d messages are under way", done);
        CHECK(done >= least && done <= most);
    }
    meet();
    if (rank == 1)
        for (int i = 0; i < ALL; i++) MPI_Recv(buffer, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) CHECK_OK(MPI_Waitall(ALL, requests, MPI_STATUSES_IGNORE));
    free(buffer);
}

static void rings(int most)
{
    int word = 0;
    for (int i = 0; i < 50; i++)
        for (int peer = 1; peer < size; peer++) {
            if (rank == peer) MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
            if (rank == 0) MPI_Recv(&word, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    if (rank == 0) CHECK_EQ(value(session, pvar(session, "shm_rings_granted", NULL)), most);
}

static void pool(int bytes)
{
    char buffer[8000] = "";
    MPI_T_pvar_handle used = pvar(session, "shm_pool_used", NULL);
    CHECK_EQ(value(session, pvar(session, "shm_pool_size", NULL)), bytes);
    send_some(20, 8000);
    MPI_Barrier(MPI_COMM_WORLD);
    meet();
    if (rank == 0) {
        MPI_Send(buffer, sizeof buffer, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        CHECK_EQ(value(session, used) >= sizeof buffer, bytes > 0);
    }
    meet();
    if (rank == 1) MPI_Recv(buffer, sizeof buffer, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* BYTES: the part of MPI_Alloc_mem's memory from which peers can copy, which is used first. */
static void heap(int bytes)
{
    enum { WANTED = 1 << 20 };
    void *memory;
    MPI_T_pvar_handle used = pvar(session, "alloc_mem_used", NULL);
    CHECK_EQ(value(session, pvar(session, "alloc_mem_size", NULL)), bytes);
    number before = value(session, used);
    CHECK_OK(MPI_Alloc_mem(WANTED, MPI_INFO_NULL, &memory));
    memset(memory, 1, WANTED);
    CHECK_EQ(value(session, used) - before >= WANTED, bytes >= WANTED);
    CHECK_OK(MPI_Free_mem(memory));
}

static int may_copy(void)
{
    long out[2] = {getpid(), 0}, in[2] = {0, 0};
    char here = 1, there = 0;
    out[1] = (long) &here;
    MPI_Sendrecv(out, 2, MPI_LONG, rank ^ 1, 0, in, 2, MPI_LONG, rank ^ 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    struct iovec local = {&there, 1}, remote = {(void *) in[1], 1};
    int may = process_vm_readv((pid_t) in[0], &local, 1, &remote, 1, 0) == 1, all;
    MPI_Allreduce(&may, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* COPIES: a long message whose sender is not in the library arrives because its receiver copies
 * it (1), or does not arrive (0). */
static void alone(int copies)
{
    enum { BYTES = 4 << 20 };
    if (!may_copy()) return;
    char *buffer = allocate(BYTES);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_T_pvar_handle copied = started(session, "shm_single_copy_bytes", NULL);
    if (rank == 0) {
        MPI_Isend(buffer, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        meet();
    } else {
        int flag = 0;
        MPI_Irecv(buffer, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
        for (int ms = 0; ms < (copies ? 20000 : 300) && !flag; ms++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            pause_for(1);
        }
        CHECK_EQ(flag, copies);
        CHECK_EQ(value(session, copied), copies ? BYTES : 0);
        meet();
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    free(buffer);
}

static void in_all_forms(int bytes)
{
    enum { PLAIN, POSTED, UNEXPECTED, HALF, NOTHING, MATCHED, SYNCHRONOUS, PIECES, FORMS };
    if (rank > 1) return;
    MPI_Datatype pieces;
    MPI_Type_vector(bytes / 100, 100, 120, MPI_BYTE, &pieces);
    MPI_Type_commit(&pieces);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char *data = allocate((size_t) bytes), *into = allocate((size_t) bytes / 100 * 120);
    for (int i = 0; i < 60 * FORMS; i++) {
        int form = i % FORMS, have = bytes, error = MPI_SUCCESS, token = 0;
        for (int at = 0; at < bytes; at++) data[at] = (char) (at * 7 / 3 + i);
        if (rank == 0) {
            if (form == POSTED) MPI_Recv(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            (form == SYNCHRONOUS ? MPI_Ssend : MPI_Send)(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            if (form == UNEXPECTED) MPI_Send(&token, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
            continue;
        }
        MPI_Request request;
        MPI_Message message;
        MPI_Status status;
        memset(into, 0x55, (size_t) bytes / 100 * 120);
        if (form == POSTED) {
            MPI_Irecv(into, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request);
            MPI_Send(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
            error = MPI_Wait(&request, &status);
        } else if (form == MATCHED) {
            MPI_Mprobe(0, 0, MPI_COMM_WORLD, &message, &status);
            error = MPI_Mrecv(into, bytes, MPI_BYTE, &message, &status);
        } else if (form == PIECES) {
            error = MPI_Recv(into, 1, pieces, 0, 0, MPI_COMM_WORLD, &status);
            for (int piece = 1; piece < bytes / 100; piece++) memmove(into + 100 * piece, into + 120 * piece, 100);
        } else {
            if (form == UNEXPECTED) MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            have = form == HALF ? bytes / 2 : form == NOTHING ? 0 : bytes;
            error = MPI_Recv(into, have, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status);
        }
        int class, count;
        MPI_Error_class(error, &class);
        CHECK_EQ(class, have < bytes ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        if (have == bytes) {
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQ(count, bytes);
        }
        CHECK(memcmp(into, data, (size_t) have) == 0);
        CHECK(have == bytes || into[have] == 0x55);
    }
    free(data);
    free(into);
    MPI_Type_free(&pieces);
}

/* COPIES BYTES: whether receivers copy messages of BYTES bytes alone (1), or not (0). Data are
 * right in both cases. */
static void copies(int alone, int bytes)
{
    MPI_T_pvar_handle copied = started(session, "shm_single_copy_bytes", NULL);
    send_some(20, bytes);
    in_all_forms(bytes);
    if (may_copy()) CHECK_EQ(value(session, copied) > 0, alone && rank == 1);
}

static number counted(int ms, number (*count)(void))
{
    int word = 0;
    meet();
    number before = count();
    if (rank == 0) {
        pause_for(ms);
        for (int peer = 1; peer < size; peer++) MPI_Send(&word, 1, MPI_INT, peer, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    number after = count();
    meet();
    return after - before;
}

static number sleeps(void)
{
    static MPI_T_pvar_handle handle;
    if (!handle) handle = started(session, "sleeps", NULL);
    return value(session, handle);
}

static number switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (number) usage.ru_nvcsw;
}

/* ASLEEP: rank 1 sleeps in some wait (1), or does not (0). On a busy machine a single wait may
 * be too long or too short. */
static void asleep(int wanted)
{
    int is_so = 0;
    for (int i = 0; i < 50 && !is_so; i++) {
        is_so = (counted(30, sleeps) > 0) == wanted;
        MPI_Bcast(&is_so, 1, MPI_INT, 1, MPI_COMM_WORLD);
    }
    CHECK(is_so);
}

/* LEAST MOST: the number of yields of the core by rank 1 in a wait of 300 ms. */
static void gives(int least, int most)
{
    int is_so = 0;
    for (int i = 0; i < 20 && !is_so; i++) {
        number times = counted(300, switches);
        check_where("%llu times", times);
        is_so = times >= (number) least && times <= (number) most;
        MPI_Bcast(&is_so, 1, MPI_INT, 1, MPI_COMM_WORLD);
    }
    CHECK(is_so);
}

/* PAUSES: whether the sender at a full postbox yields its core (1), or polls until it is empty
 * (0). */
static void pauses(int wanted)
{
    enum { MESSAGES = 50 };
    int word = 0;
    MPI_T_pvar_handle handle = started(session, "postbox_pauses", NULL);
    meet();
    if (rank == 0)
        for (int i = 0; i < MESSAGES; i++) MPI_Send(&word, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    if (rank == 1) {
        pause_for(100);
        for (int i = 0; i < MESSAGES; i++) MPI_Recv(&word, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    meet();
    if (rank == 0) CHECK_EQ(value(session, handle) > 0, wanted);
}

static void sent(void)
{
    char *buffer = allocate(65536);
    MPI_T_pvar_handle handle = started(session, "shm_messages_sent", NULL);
    meet();
    number before = value(session, handle);
    MPI_Bcast(buffer, 65536, MPI_BYTE, 0, MPI_COMM_WORLD);
    number after = value(session, handle);
    meet();
    if (rank == 0) printf("%llu sent\n", after - before);
    free(buffer);
}

/* Prints the number of announced messages of rank 0 in an exchange before any other rank takes
 * part. */
static void outstanding(void)
{
    enum { BLOCK = 1 << 20 };
    MPI_Request request;
    char *in = allocate((size_t) size * BLOCK), *out = allocate((size_t) size * BLOCK);
    MPI_T_pvar_handle handle = started(session, "rendezvous_messages_sent", NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        number before = value(session, handle);
        MPI_Ialltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD, &request);
        printf("%llu announced\n", value(session, handle) - before);
        meet();
    } else {
        meet();
        MPI_Ialltoall(out, BLOCK, MPI_BYTE, in, BLOCK, MPI_BYTE, MPI_COMM_WORLD, &request);
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    free(in);
    free(out);
}

static void arguments(int checked)
{
    int out = 7, in = 0;
    MPI_Datatype type;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(1, MPI_INT, &type);
    CHECK_CLASS(MPI_Sendrecv(&out, 1, type, 0, 0, &in, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE),
                checked ? MPI_ERR_TYPE : MPI_SUCCESS);
    CHECK_EQ(in, checked ? 0 : 7);
    MPI_Type_free(&type);
}

/* STRICT: whether operations outside of the standard's tables are refused, or work as in other
 * libraries. */
static void strict(int is_strict)
{
    int op_class = is_strict ? MPI_ERR_OP : MPI_SUCCESS, type_class = is_strict ? MPI_ERR_TYPE : MPI_SUCCESS;
    char c = (char) (rank + 1), sum = 0, old = 0, *here;
    MPI_Aint a = rank, any = -1;
    MPI_Datatype pair;
    MPI_Win win;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Allreduce(&c, &sum, 1, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD), op_class);
    CHECK_EQ(sum, is_strict ? 0 : size * (size + 1) / 2);
    CHECK_CLASS(MPI_Reduce_local(&c, &sum, 1, MPI_CHAR, MPI_BAND), op_class);
    CHECK_CLASS(MPI_Allreduce(&a, &any, 1, MPI_AINT, MPI_LOR, MPI_COMM_WORLD), op_class);
    CHECK_EQ(any, is_strict ? -1 : size > 1);
    CHECK_CLASS(MPI_Reduce_local(&a, &any, 1, MPI_OFFSET, MPI_LAND), op_class);
    CHECK_CLASS(MPI_Reduce_local(&a, &any, 1, MPI_COUNT, MPI_LXOR), op_class);
    /* Operations in the tables always work, and unknown ones never. */
    CHECK_OK(MPI_Allreduce(&a, &any, 1, MPI_AINT, MPI_BOR, MPI_COMM_WORLD));
    CHECK_OK(MPI_Reduce_local(&c, &sum, 1, MPI_SIGNED_CHAR, MPI_SUM));
    CHECK_OK(MPI_Reduce_local(&c, &sum, 1, MPI_BYTE, MPI_BXOR));
    CHECK_CLASS(MPI_Reduce_local(&c, &sum, 1, MPI_BYTE, MPI_SUM), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce_local(&a, &any, 1, MPI_WCHAR, MPI_SUM), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce_local(&c, &sum, 1, MPI_CHARACTER, MPI_MAX), MPI_ERR_OP);
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &here, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_CHAR, &pair);
    MPI_Type_commit(&pair);
    char two[2] = {1, 2}, before[2], none = 0, got = 9;
    memset(here, 0, 8);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    CHECK_CLASS(MPI_Accumulate(two, 2, MPI_CHAR, 0, 0, 1, pair, MPI_SUM, win), op_class);
    CHECK_CLASS(MPI_Get_accumulate(two, 2, MPI_CHAR, before, 2, MPI_CHAR, rank, 2, 1, pair, MPI_MAX, win), op_class);
    CHECK_CLASS(MPI_Fetch_and_op(&c, &old, MPI_CHAR, 0, 4, MPI_SUM, win), op_class);
    CHECK_CLASS(MPI_Compare_and_swap(&c, &none, &got, MPI_CHAR, rank, 5, win), type_class);
    CHECK_OK(MPI_Accumulate(&c, 1, MPI_CHAR, rank, 6, 1, MPI_CHAR, MPI_REPLACE, win));
    CHECK_CLASS(MPI_Accumulate(&c, 1, MPI_BYTE, rank, 7, 1, MPI_BYTE, MPI_SUM, win), MPI_ERR_OP);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK_EQ(here[0], is_strict ? 0 : size);
        CHECK_EQ(here[1], is_strict ? 0 : 2 * size);
        CHECK_EQ(here[4], is_strict ? 0 : size * (size + 1) / 2);
    }
    CHECK_EQ(here[3], is_strict ? 0 : 2);
    CHECK_EQ(here[5], is_strict ? 0 : rank + 1);
    CHECK_EQ(here[6], rank + 1);
    CHECK_EQ(got, is_strict ? 9 : 0);
    MPI_Type_free(&pair);
    MPI_Win_free(&win);
    /* A buffer for a smaller overhead. */
    char buffer[152], data[65] = {0};
    void *back = NULL;
    int bytes = -1;
    CHECK_OK(MPI_Buffer_attach(buffer, sizeof buffer));
    CHECK_CLASS(MPI_Bsend(data, 64, MPI_CHAR, 0, 5, MPI_COMM_SELF), is_strict ? MPI_ERR_BUFFER : MPI_SUCCESS);
    if (!is_strict) CHECK_OK(MPI_Recv(data, 64, MPI_CHAR, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_CLASS(MPI_Bsend(data, sizeof data, MPI_CHAR, 0, 5, MPI_COMM_SELF), MPI_ERR_BUFFER);
    CHECK_OK(MPI_Buffer_detach(&back, &bytes));
    CHECK(back == buffer && bytes == sizeof buffer);
}

static void errors(void)
{
    CHECK_CLASS(MPI_Send(NULL, 0, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
}

/* Some collectives on MPI_COMM_WORLD, MPI_COMM_SELF and an intercommunicator, whose components
 * are reported. */
static void collectives(void)
{
    int mine[4] = {1, 2, 3, 4}, all[4];
    MPI_Comm half, inter;
    MPI_Request request;
    MPI_Allreduce(mine, all, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(all[3], 4 * size);
    MPI_Reduce(mine, all, 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Bcast(all, 4, MPI_INT, 0, MPI_COMM_WORLD);
    CHECK_EQ(all[3], 4 * size);
    MPI_Iallreduce(mine, all, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(mine, all, 4, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    CHECK_EQ(all[3], 4);
    if (size == 1) return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &inter);
    MPI_Barrier(inter);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    int provided;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_pvar_session_create(&session));
    meeting_open();
    const char *what = argc > 1 ? argv[1] : "";
    int first = argc > 2 ? atoi(argv[2]) : 0, second = argc > 3 ? atoi(argv[3]) : 0, third = argc > 4 ? atoi(argv[4]) : 0;
    if (!strcmp(what, "eager")) eager(first);
    else if (!strcmp(what, "buffers")) buffers(first);
    else if (!strcmp(what, "depth")) depth(first, second, third);
    else if (!strcmp(what, "rings")) rings(first);
    else if (!strcmp(what, "pool")) pool(first);
    else if (!strcmp(what, "heap")) heap(first);
    else if (!strcmp(what, "alone")) alone(first);
    else if (!strcmp(what, "copies")) copies(first, second);
    else if (!strcmp(what, "asleep")) asleep(first);
    else if (!strcmp(what, "gives")) gives(first, second);
    else if (!strcmp(what, "pauses")) pauses(first);
    else if (!strcmp(what, "sent")) sent();
    else if (!strcmp(what, "outstanding")) outstanding();
    else if (!strcmp(what, "arguments")) arguments(first);
    else if (!strcmp(what, "strict")) strict(first);
    else if (!strcmp(what, "errors")) errors();
    else if (!strcmp(what, "collectives")) collectives();
    else CHECK(!"an argument that is known");
    CHECK_OK(MPI_T_pvar_session_free(&session));
    int result = check_end();
    MPI_T_finalize();
    return result;
}
