// ranks: 2 4 7
// transports: near
/* Ranks call collectives with different lengths, in shared memory: an error of class
 * MPI_ERR_TRUNCATE if more data come than a rank's length, of class MPI_ERR_COUNT if fewer come;
 * no byte is written behind that length, and the communicator stays usable. */
#include "check.h"

#ifndef LEVEL
#define LEVEL MPI_THREAD_SINGLE
#endif

enum { MOST = 200000, GUARD = 256, LONG_BLOCK = 20000 };

static unsigned char *from, *to;

typedef int call_function(int bytes, int is_later, MPI_Comm comm);

static int ended(int code, int is_later, MPI_Request *request)
{
    return code == MPI_SUCCESS && is_later ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

static int call_bcast(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    unsigned char *data = rank == 0 ? from : to;
    int code = is_later ? MPI_Ibcast(data, bytes, MPI_BYTE, 0, comm, &request) : MPI_Bcast(data, bytes, MPI_BYTE, 0, comm);
    return ended(code, is_later, &request);
}

static int call_scatter(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Iscatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, comm, &request)
                        : MPI_Scatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, comm);
    return ended(code, is_later, &request);
}

static int call_gather(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Igather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, comm, &request)
                        : MPI_Gather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, comm);
    return ended(code, is_later, &request);
}

static int call_allgather(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Iallgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm, &request)
                        : MPI_Allgather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm);
    return ended(code, is_later, &request);
}

static int call_alltoall(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Ialltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm, &request)
                        : MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, comm);
    return ended(code, is_later, &request);
}

static int call_reduce(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Ireduce(from, to, bytes, MPI_BYTE, MPI_BXOR, 0, comm, &request)
                        : MPI_Reduce(from, to, bytes, MPI_BYTE, MPI_BXOR, 0, comm);
    return ended(code, is_later, &request);
}

static int call_allreduce(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Iallreduce(from, to, bytes, MPI_BYTE, MPI_BXOR, comm, &request)
                        : MPI_Allreduce(from, to, bytes, MPI_BYTE, MPI_BXOR, comm);
    return ended(code, is_later, &request);
}

static int call_scan(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Iscan(from, to, bytes, MPI_BYTE, MPI_BXOR, comm, &request)
                        : MPI_Scan(from, to, bytes, MPI_BYTE, MPI_BXOR, comm);
    return ended(code, is_later, &request);
}

static int call_reduce_scatter_block(int bytes, int is_later, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_later ? MPI_Ireduce_scatter_block(from, to, bytes, MPI_BYTE, MPI_BXOR, comm, &request)
                        : MPI_Reduce_scatter_block(from, to, bytes, MPI_BYTE, MPI_BXOR, comm);
    return ended(code, is_later, &request);
}

/* The ranks that see the other length of one rank: this rank, the root, or all. */
enum { ODD_SEES, ALL_SEE, LATER_SEE };

static const struct {
    const char *name;
    call_function *call;
    int odd, who;
    int blocks;
} CALLS[] = {
    {"bcast", call_bcast, 1, ODD_SEES, 0},
    {"scatter", call_scatter, 1, ODD_SEES, 0},
    {"gather", call_gather, 0, ODD_SEES, 1},
    {"reduce", call_reduce, 0, ODD_SEES, 0},
    {"allgather", call_allgather, 1, ALL_SEE, 1},
    {"alltoall", call_alltoall, 1, ALL_SEE, 1},
    {"allreduce", call_allreduce, 1, ALL_SEE, 0},
    {"reduce_scatter_block", call_reduce_scatter_block, 1, ALL_SEE, 0},
    {"scan", call_scan, 0, LATER_SEE, 0},
};

/* Collectives with equal lengths, more than there are segments: some long, from every root. */
static void go_on(int is_later, MPI_Comm comm)
{
    for (int n = 0; n < 12; n++) {
        int root = n % size, bytes = n % 3 == 2 ? 30000 : 8 + n;
        MPI_Request request;
        pattern_fill(from, MOST, (unsigned) (rank + n));
        if (rank == root) pattern_fill(to, (size_t) bytes, (unsigned) (100 + n));
        if (is_later) {
            CHECK_OK(MPI_Ibcast(to, bytes, MPI_BYTE, root, comm, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            CHECK_OK(MPI_Bcast(to, bytes, MPI_BYTE, root, comm));
        }
        CHECK_EQ(pattern_differs(to, (size_t) bytes, (unsigned) (100 + n)), -1);
        int block = n % 2 ? 40 : 2000;
        if (is_later) {
            CHECK_OK(MPI_Iallgather(from, block, MPI_BYTE, to, block, MPI_BYTE, comm, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            CHECK_OK(MPI_Allgather(from, block, MPI_BYTE, to, block, MPI_BYTE, comm));
        }
        for (int r = 0; r < size; r++)
            CHECK_EQ(pattern_differs(to + (size_t) r * (size_t) block, (size_t) block, (unsigned) (r + n)), -1);
    }
}

static void differ(int k, int is_later, int odd_bytes, int bytes, MPI_Comm comm)
{
    int own = rank == CALLS[k].odd ? odd_bytes : bytes, other = rank == CALLS[k].odd ? bytes : odd_bytes;
    check_where("%s%s of %d bytes, %d at rank %d", is_later ? "nonblocking " : "", CALLS[k].name, bytes, odd_bytes,
                CALLS[k].odd);
    int sees = CALLS[k].who == ALL_SEE || (rank == CALLS[k].odd) == (CALLS[k].who == ODD_SEES);
    size_t named = (size_t) own * (size_t) (CALLS[k].blocks ? size : 1);
    size_t room = (size_t) (own > other ? own : other) * (size_t) size + GUARD;
    memset(from, rank + 1, room);
    memset(to, 0xAB, room);
    int want = !sees ? MPI_SUCCESS : other > own ? MPI_ERR_TRUNCATE : MPI_ERR_COUNT;
    CHECK_CLASS(CALLS[k].call(own, is_later, comm), want);
    CHECK_EQ(bytes_differ(to, named, room, 0xAB), -1);
    go_on(is_later, comm);
}

/* The last rank sends longer blocks than it receives: it gets an error, and so do all ranks to
 * which more comes. */
static void own_block(MPI_Comm comm)
{
    static const int blocks[] = {8, 200, 60000};
    for (int n = 0; n < 3; n++) {
        int block = blocks[n], sent = rank == size - 1 ? 2 * block : block;
        size_t named = (size_t) block * (size_t) size, room = named + GUARD;
        check_where("own block, %d bytes", block);
        memset(to, 0xAB, room);
        CHECK_CLASS(MPI_Allgather(from, sent, MPI_BYTE, to, block, MPI_BYTE, comm), MPI_ERR_TRUNCATE);
        CHECK_CLASS(MPI_Alltoall(from, sent, MPI_BYTE, to, block, MPI_BYTE, comm), MPI_ERR_TRUNCATE);
        int code = MPI_Gather(from, sent, MPI_BYTE, to, block, MPI_BYTE, size - 1, comm);
        if (rank == size - 1) CHECK_CLASS(code, MPI_ERR_TRUNCATE);
        code = MPI_Scatter(from, sent, MPI_BYTE, to, block, MPI_BYTE, size - 1, comm);
        CHECK_CLASS(code, MPI_ERR_TRUNCATE);
        CHECK_EQ(bytes_differ(to, named, room, 0xAB), -1);
        go_on(0, comm);
    }
}

/* One rank sends more pieces than the others: no rank waits without end, and nothing is written
 * behind the lengths. */
static void apart(void)
{
    MPI_Comm comm;
    check_where("apart");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    go_on(0, comm);
    size_t named = (size_t) LONG_BLOCK * (size_t) size;
    memset(to, 0xAB, named + GUARD);
    int code = call_gather(rank == 1 ? 4 * LONG_BLOCK : LONG_BLOCK, 0, comm);
    if (rank == 0) CHECK_CLASS(code, MPI_ERR_TRUNCATE);
    for (int n = 0; n < 12; n++) call_allreduce(8 + n, 0, comm);
    if (rank == 0) CHECK_EQ(bytes_differ(to, named, named + GUARD, 0xAB), -1);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    static const int pairs[][2] = {{8, 2}, {40, 8}, {60, 8}, {300, 60}, {2000, 300}, {18000, 4000}, {60000, 18000},
                                   {180000, 60000}};
    int level;
    MPI_Comm comms[2] = {MPI_COMM_WORLD};
    check_watch();
    MPI_Init_thread(&argc, &argv, LEVEL, &level);
    check_ranks();
    return_errors();
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    from = allocate((size_t) MOST * (size_t) size + GUARD);
    to = allocate((size_t) MOST * (size_t) size + GUARD);
    for (int c = 0; c < 2; c++) {
        own_block(comms[c]);
        go_on(0, comms[c]);
        go_on(1, comms[c]);
        for (int k = 0; k < (int) (sizeof CALLS / sizeof *CALLS); k++) {
            for (int p = 0; p < (int) (sizeof pairs / sizeof *pairs); p++) {
                int more = pairs[p][0], less = pairs[p][1];
                /* In a scan of several contributions some ranks see no other length: skipped for
                 * this length. */
                if (CALLS[k].who == LATER_SEE && size > 2 && more > 18000) continue;
                differ(k, 0, less, more, comms[c]);
                differ(k, 0, more, less, comms[c]);
                if (more * size > (CALLS[k].who == LATER_SEE ? 64 : 128) << 10 || more > 60000) continue;
                differ(k, 1, less, more, comms[c]);
                differ(k, 1, more, less, comms[c]);
            }
        }
    }
    apart();
    free(from);
    free(to);
    MPI_Comm_free(&comms[1]);
    return check_end();
}
