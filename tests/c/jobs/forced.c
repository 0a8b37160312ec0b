/* One collective, named by the first argument, in several sizes, from every root, blocking,
 * nonblocking and persistent. Its algorithm is forced, and other collectives may not be called,
 * so each rank checks its own results. After an MPI error the first rank prints it and the
 * program ends with 3. The second of three arguments names the algorithm: performance variables
 * must show that only this one has run. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 9000, RANKS_MOST = 16 };

static int rank, size;
static const int counts[] = {0, 1, 3, 40, 700, MOST};

static int send[MOST * RANKS_MOST], receive[MOST * RANKS_MOST + 1];
static int lengths[RANKS_MOST], starts[RANKS_MOST];

static int value(int whose, int to, int i) { return whose * 1009 + to * 101 + i; }

static int sum_below(int ranks, int to, int i)
{
    int sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, to, i);
    return sum;
}

static void fail(const char *what, int count, int root, int i, int got, int want)
{
    printf("rank %d: %s, count %d, root %d: [%d] is %d, not %d\n", rank, what, count, root, i, got, want);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 4);
}

static void must(int error)
{
    if (error == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(error, text, &length);
    if (rank == 0) printf("error: %s\n", text);
    fflush(stdout);
    MPI_Finalize();
    exit(3);
}

static void make_lengths(int count)
{
    for (int r = 0, at = 0; r < size; r++) {
        lengths[r] = count / (r + 1);
        starts[r] = at;
        at += lengths[r];
    }
}

enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

#define CALL(form, name, ...)                                                                   \
    do {                                                                                        \
        MPI_Request request = MPI_REQUEST_NULL;                                                 \
        if (form == BLOCKING) must(MPI_##name(__VA_ARGS__));                                    \
        if (form == NONBLOCKING) must(MPI_I##name##_of(__VA_ARGS__, &request));                 \
        if (form == PERSISTENT) must(MPI_##name##_init_of(__VA_ARGS__, &request));              \
        if (form == PERSISTENT) must(MPI_Start(&request));                                      \
        if (form != BLOCKING) must(MPI_Wait(&request, MPI_STATUS_IGNORE));                      \
        if (form == PERSISTENT) must(MPI_Request_free(&request));                               \
    } while (0)

#define MPI_IBarrier_of MPI_Ibarrier
#define MPI_IBcast_of MPI_Ibcast
#define MPI_IReduce_of MPI_Ireduce
#define MPI_IAllreduce_of MPI_Iallreduce
#define MPI_IGather_of MPI_Igather
#define MPI_IScatter_of MPI_Iscatter
#define MPI_IAllgather_of MPI_Iallgather
#define MPI_IAllgatherv_of MPI_Iallgatherv
#define MPI_IAlltoall_of MPI_Ialltoall
#define MPI_IAlltoallv_of MPI_Ialltoallv
#define MPI_IReduce_scatter_of MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block_of MPI_Ireduce_scatter_block
#define MPI_IScan_of MPI_Iscan
#define MPI_IExscan_of MPI_Iexscan
/* Persistent forms have an info before the request. */
#define MPI_Barrier_init_of(c, q) MPI_Barrier_init(c, MPI_INFO_NULL, q)
#define MPI_Bcast_init_of(b, n, t, r, c, q) MPI_Bcast_init(b, n, t, r, c, MPI_INFO_NULL, q)
#define MPI_Reduce_init_of(s, d, n, t, o, r, c, q) MPI_Reduce_init(s, d, n, t, o, r, c, MPI_INFO_NULL, q)
#define MPI_Allreduce_init_of(s, d, n, t, o, c, q) MPI_Allreduce_init(s, d, n, t, o, c, MPI_INFO_NULL, q)
#define MPI_Gather_init_of(s, n, t, d, m, u, r, c, q) MPI_Gather_init(s, n, t, d, m, u, r, c, MPI_INFO_NULL, q)
#define MPI_Scatter_init_of(s, n, t, d, m, u, r, c, q) MPI_Scatter_init(s, n, t, d, m, u, r, c, MPI_INFO_NULL, q)
#define MPI_Allgather_init_of(s, n, t, d, m, u, c, q) MPI_Allgather_init(s, n, t, d, m, u, c, MPI_INFO_NULL, q)
#define MPI_Allgatherv_init_of(s, n, t, d, m, a, u, c, q) \
    MPI_Allgatherv_init(s, n, t, d, m, a, u, c, MPI_INFO_NULL, q)
#define MPI_Alltoall_init_of(s, n, t, d, m, u, c, q) MPI_Alltoall_init(s, n, t, d, m, u, c, MPI_INFO_NULL, q)
#define MPI_Alltoallv_init_of(s, n, a, t, d, m, b, u, c, q) \
    MPI_Alltoallv_init(s, n, a, t, d, m, b, u, c, MPI_INFO_NULL, q)
#define MPI_Reduce_scatter_init_of(s, d, n, t, o, c, q) MPI_Reduce_scatter_init(s, d, n, t, o, c, MPI_INFO_NULL, q)
#define MPI_Reduce_scatter_block_init_of(s, d, n, t, o, c, q) \
    MPI_Reduce_scatter_block_init(s, d, n, t, o, c, MPI_INFO_NULL, q)
#define MPI_Scan_init_of(s, d, n, t, o, c, q) MPI_Scan_init(s, d, n, t, o, c, MPI_INFO_NULL, q)
#define MPI_Exscan_init_of(s, d, n, t, o, c, q) MPI_Exscan_init(s, d, n, t, o, c, MPI_INFO_NULL, q)

#define EXPECT(n, want)                                                                          \
    for (int i = 0; i < (n); i++)                                                                \
        if (receive[i] != (want)) fail(name, count, root, i, receive[i], (want))

static void fill(int count, int uneven)
{
    for (int to = 0; to < size; to++)
        for (int i = 0; i < (uneven ? lengths[to] : count); i++)
            send[(uneven ? starts[to] : to * count) + i] = value(rank, to, i);
    memset(receive, -1, sizeof receive);
}

static int one(const char *name, int count, int root, int form)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype type = MPI_INT;
    int is_root = rank == root;
    make_lengths(count);
    fill(count, 0);
    if (!strcmp(name, "barrier")) {
        CALL(form, Barrier, world);
    } else if (!strcmp(name, "bcast")) {
        if (is_root) memcpy(receive, send, count * sizeof *send);
        CALL(form, Bcast, receive, count, type, root, world);
        EXPECT(count, value(root, 0, i));
    } else if (!strcmp(name, "reduce")) {
        CALL(form, Reduce, send, receive, count, type, MPI_SUM, root, world);
        if (is_root) EXPECT(count, sum_below(size, 0, i));
    } else if (!strcmp(name, "allreduce")) {
        CALL(form, Allreduce, send, receive, count, type, MPI_SUM, world);
        EXPECT(count, sum_below(size, 0, i));
    } else if (!strcmp(name, "scan")) {
        CALL(form, Scan, send, receive, count, type, MPI_SUM, world);
        EXPECT(count, sum_below(rank + 1, 0, i));
    } else if (!strcmp(name, "exscan")) {
        CALL(form, Exscan, send, receive, count, type, MPI_SUM, world);
        if (rank > 0) EXPECT(count, sum_below(rank, 0, i));
    } else if (!strcmp(name, "gather")) {
        CALL(form, Gather, send, count, type, receive, count, type, root, world);
        if (is_root) EXPECT(count * size, value(i / count, 0, i % count));
    } else if (!strcmp(name, "scatter")) {
        CALL(form, Scatter, send, count, type, receive, count, type, root, world);
        EXPECT(count, value(root, rank, i));
    } else if (!strcmp(name, "allgather")) {
        CALL(form, Allgather, send, count, type, receive, count, type, world);
        EXPECT(count * size, value(i / count, 0, i % count));
    } else if (!strcmp(name, "alltoall")) {
        CALL(form, Alltoall, send, count, type, receive, count, type, world);
        EXPECT(count * size, value(i / count, rank, i % count));
    } else if (!strcmp(name, "allgatherv")) {
        CALL(form, Allgatherv, send, lengths[rank], type, receive, lengths, starts, type, world);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < lengths[r]; i++)
                if (receive[starts[r] + i] != value(r, 0, i))
                    fail(name, count, r, i, receive[starts[r] + i], value(r, 0, i));
    } else if (!strcmp(name, "alltoallv")) {
        int theirs[RANKS_MOST], at[RANKS_MOST];
        for (int r = 0; r < size; r++) theirs[r] = lengths[rank], at[r] = r * lengths[rank];
        fill(count, 1);
        CALL(form, Alltoallv, send, lengths, starts, type, receive, theirs, at, type, world);
        EXPECT(size * lengths[rank], value(i / lengths[rank], rank, i % lengths[rank]));
    } else if (!strcmp(name, "reduce_scatter")) {
        fill(count, 1);
        CALL(form, Reduce_scatter, send, receive, lengths, type, MPI_SUM, world);
        EXPECT(lengths[rank], sum_below(size, rank, i));
    } else if (!strcmp(name, "reduce_scatter_block")) {
        CALL(form, Reduce_scatter_block, send, receive, count, type, MPI_SUM, world);
        EXPECT(count, sum_below(size, rank, i));
    } else {
        return 0;
    }
    return 1;
}

enum { CALLS_MOST = 64 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle calls[CALLS_MOST];
static char calls_names[CALLS_MOST][128];
static int calls_len;

static void begin_counting(const char *collective)
{
    char start[64];
    int provided, variables, handles, level, class_of;
    snprintf(start, sizeof start, "coll_%s_", collective);
    must(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    must(MPI_T_pvar_session_create(&session));
    must(MPI_T_pvar_get_num(&variables));
    for (int i = 0; i < variables && calls_len < CALLS_MOST; i++) {
        char *name = calls_names[calls_len];
        int length = sizeof calls_names[0];
        must(MPI_T_pvar_get_info(i, name, &length, &level, &class_of, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
        size_t end = strlen(name);
        if (strncmp(name, start, strlen(start)) || end < 6 || strcmp(name + end - 6, "_calls")) continue;
        must(MPI_T_pvar_handle_alloc(session, i, NULL, &calls[calls_len], &handles));
        must(MPI_T_pvar_start(session, calls[calls_len++]));
    }
}

static void end_counting(const char *collective, const char *algorithm)
{
    char wanted[160];
    int found = 0;
    snprintf(wanted, sizeof wanted, "coll_%s_%s_calls", collective, algorithm);
    for (int i = 0; i < calls_len; i++) {
        unsigned long long counted = 0;
        int is_it = !strcmp(calls_names[i], wanted);
        must(MPI_T_pvar_read(session, calls[i], &counted));
        if ((counted > 0) != is_it) {
            printf("rank %d: %s is %llu\n", rank, calls_names[i], counted);
            fflush(stdout);
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
        found += is_it;
    }
    if (found != 1) {
        printf("rank %d: there is no performance variable %s\n", rank, wanted);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    must(MPI_T_pvar_session_free(&session));
    must(MPI_T_finalize());
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *name = argc > 1 ? argv[1] : "";
    /* Communicators can be made with any forced algorithm, and one of a single rank has no
     * choice. */
    MPI_Comm copy;
    must(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    must(MPI_Comm_free(&copy));
    must(MPI_Barrier(MPI_COMM_SELF));
    if (argc > 3) begin_counting(name);
    for (int form = 0; form < FORMS; form++)
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (int root = 0; root < size; root += counts[c] > 1000 ? size - 1 + !(size - 1) : 1)
                if (!one(name, counts[c], root, form)) {
                    printf("there is no collective '%s'\n", name);
                    return 2;
                }
    if (argc > 3) end_counting(name, argv[2]);
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
