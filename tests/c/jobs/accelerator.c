/* Messages and collectives with buffers on a device. Any load or store there by the library ends
 * the program. */
#include "../check.h"
#include "device.h"

#include <mpi-ext.h>

#include <pthread.h>

enum { LENGTHS = 7 };
/* Short, one piece of the pipeline, more and less than some pieces. */
static const int lengths[LENGTHS] = {0, 1, 13, 1000, 131072, 131073, 700001};

static int value(int from, int i) { return from * 7919 + i * 31 + 5; }

static int *numbers(int from, int n)
{
    int *host = malloc(((size_t) n + 1) * sizeof(int)), *at = device_new(((size_t) n + 1) * sizeof(int));
    for (int i = 0; i < n; i++) host[i] = value(from, i);
    host[n] = -77;
    device_put(at, host, ((size_t) n + 1) * sizeof(int));
    free(host);
    return at;
}

static void are(const int *at, int from, int n, int room, int line)
{
    int *host = malloc(((size_t) room + 1) * sizeof(int)), wrong = 0;
    device_take(host, at, ((size_t) room + 1) * sizeof(int));
    for (int i = 0; i < n; i++) wrong += host[i] != value(from, i);
    if (wrong || host[room] != -77) check_where("are, line %d, n %d, room %d, from %d", line, n, room, from);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(host[room], -77);
    free(host);
}
#define ARE(at, from, n, room) are(at, from, n, room, __LINE__)

static void modes(int n)
{
    static char space[4 << 20];
    MPI_Buffer_attach(space, sizeof space);
    for (int mode = 0; mode < 10; mode++) {
        check_where("mode %d, n %d", mode, n);
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;
        if (rank == 0) {
            int *at = numbers(mode, n);
            if (mode == 2 || mode == 6) CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            switch (mode) {
                case 0: CHECK_OK(MPI_Send(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD)); break;
                case 1: CHECK_OK(MPI_Ssend(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD)); break;
                case 2: CHECK_OK(MPI_Rsend(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD)); break;
                case 3: CHECK_OK(MPI_Bsend(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD)); break;
                case 4: CHECK_OK(MPI_Isend(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD, &request)); break;
                case 5: CHECK_OK(MPI_Issend(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD, &request)); break;
                case 6: CHECK_OK(MPI_Irsend(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD, &request)); break;
                case 7: CHECK_OK(MPI_Ibsend(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD, &request)); break;
                case 8: {
                    MPI_Datatype whole;
                    MPI_Type_contiguous(n, MPI_INT, &whole);
                    MPI_Type_commit(&whole);
                    CHECK_OK(MPI_Send(at, 1, whole, 1, 1, MPI_COMM_WORLD));
                    MPI_Type_free(&whole);
                    break;
                }
                default: CHECK_OK(MPI_Send_c(at, n, MPI_INT, 1, 1, MPI_COMM_WORLD));
            }
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            device_end(at);
        } else if (rank == 1) {
            int *into = numbers(-1, n + 3), got = -1;
            if (mode % 2 || mode == 2 || mode == 6) {
                CHECK_OK(MPI_Irecv(into, n + 3, MPI_INT, 0, 1, MPI_COMM_WORLD, &request));
                if (mode == 2 || mode == 6) CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 9, MPI_COMM_WORLD));
                CHECK_OK(MPI_Wait(&request, &status));
            } else CHECK_OK(MPI_Recv(into, n + 3, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
            MPI_Get_count(&status, MPI_INT, &got);
            CHECK_EQ(got, n);
            ARE(into, mode, n, n + 3);
            device_end(into);
        }
    }
    void *back;
    int len;
    MPI_Buffer_detach(&back, &len);
}

/* One side on the device, the other in host or managed memory; buffers that are too short;
 * messages to itself. */
static void mixed(int n)
{
    check_where("mixed, n %d", n);
    int *host = malloc(((size_t) n + 1) * sizeof(int));
    if (rank == 0) {
        for (int i = 0; i < n; i++) host[i] = value(40, i);
        CHECK_OK(MPI_Send(host, n, MPI_INT, 1, 2, MPI_COMM_WORLD));
        int *at = numbers(41, n);
        CHECK_OK(MPI_Send(at, n, MPI_INT, 1, 2, MPI_COMM_WORLD));
        CHECK_OK(MPI_Send(at, n, MPI_INT, 1, 2, MPI_COMM_WORLD));
        device shared = 0;
        CHECK_EQ(cuda.managed(&shared, (size_t) n * sizeof(int) + 1, 1), 0);
        int *managed = (int *) (uintptr_t) shared;
        for (int i = 0; i < n; i++) managed[i] = value(42, i);
        CHECK_OK(MPI_Send(managed, n, MPI_INT, 1, 2, MPI_COMM_WORLD));
        cuda.free(shared);
        device_end(at);
    } else if (rank == 1) {
        int *into = numbers(-1, n);
        CHECK_OK(MPI_Recv(into, n, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        ARE(into, 40, n, n);
        CHECK_OK(MPI_Recv(host, n, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < n; i++) if (host[i] != value(41, i)) { CHECK_EQ(host[i], value(41, i)); break; }
        int less = n > 0 ? n - 1 : 0;
        int *small = numbers(-1, less);
        if (n > 0) CHECK_CLASS(MPI_Recv(small, less, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        else CHECK_OK(MPI_Recv(small, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        ARE(small, 41, less, less);
        device_end(small);
        CHECK_OK(MPI_Recv(into, n, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        ARE(into, 42, n, n);
        device_end(into);
    }
    int *own = numbers(43, n), *copy = numbers(-1, n);
    CHECK_OK(MPI_Sendrecv(own, n, MPI_INT, rank, 3, copy, n, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    ARE(copy, 43, n, n);
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    device_end(own);
    own = numbers(rank, n);
    CHECK_OK(MPI_Sendrecv(own, n, MPI_INT, next, 3, copy, n, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    ARE(copy, before, n, n);
    CHECK_OK(MPI_Sendrecv_replace(own, n, MPI_INT, next, 4, before, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    ARE(own, before, n, n);
    device_end(own);
    device_end(copy);
    free(host);
}

static void requests(int n)
{
    check_where("requests, n %d", n);
    if (rank > 1) return;
    int *at = numbers(-1, n), *host = malloc(((size_t) n + 1) * sizeof(int));
    MPI_Request request;
    if (rank == 0) CHECK_OK(MPI_Send_init(at, n, MPI_INT, 1, 5, MPI_COMM_WORLD, &request));
    else CHECK_OK(MPI_Recv_init(at, n, MPI_INT, 0, 5, MPI_COMM_WORLD, &request));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) host[i] = value(60 + round, i);
        if (rank == 0) device_put(at, host, (size_t) n * sizeof(int));
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (rank == 1) ARE(at, 60 + round, n, n);
    }
    MPI_Request_free(&request);
    MPI_Message message;
    if (rank == 0) {
        CHECK_OK(MPI_Send(at, n, MPI_INT, 1, 6, MPI_COMM_WORLD));
        CHECK_OK(MPI_Send(at, n, MPI_INT, 1, 6, MPI_COMM_WORLD));
    } else {
        int *into = numbers(-1, n);
        CHECK_OK(MPI_Mprobe(0, 6, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Mrecv(into, n, MPI_INT, &message, MPI_STATUS_IGNORE));
        ARE(into, 62, n, n);
        device_end(into);
        into = numbers(-1, n);
        CHECK_OK(MPI_Mprobe(0, 6, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Imrecv(into, n, MPI_INT, &message, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(into, 62, n, n);
        device_end(into);
    }
    enum { PARTS = 4 };
    int part = n / PARTS;
    if (rank == 0) CHECK_OK(MPI_Psend_init(at, PARTS, part, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    else CHECK_OK(MPI_Precv_init(at, PARTS, part, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) host[i] = value(70 + round, i);
        if (rank == 0) device_put(at, host, (size_t) n * sizeof(int));
        CHECK_OK(MPI_Start(&request));
        for (int i = PARTS - 1; rank == 0 && i >= 0; i--) CHECK_OK(MPI_Pready(i, request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (rank == 1) ARE(at, 70 + round, part * PARTS, n);
    }
    MPI_Request_free(&request);
    device_end(at);
    free(host);
}

/* Many short partitions of long data, made ready one after another in two rounds. Each is filled
 * just before, so data that were read too early are wrong. */
static void partitions(void)
{
    enum { PARTS = 256, PART = 1000, ALL = PARTS * PART };
    check_where("%d partitions", PARTS);
    if (rank > 1) return;
    int *at = numbers(-1, ALL), *host = malloc(PART * sizeof(int));
    MPI_Request request;
    if (rank == 0) CHECK_OK(MPI_Psend_init(at, PARTS, PART, MPI_INT, 1, 10, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    else CHECK_OK(MPI_Precv_init(at, PARTS, PART, MPI_INT, 0, 10, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; round++) {
        CHECK_OK(MPI_Start(&request));
        for (int part = 0; rank == 0 && part < PARTS; part++) {
            for (int i = 0; i < PART; i++) host[i] = value(90 + round, part * PART + i);
            device_put(at + part * PART, host, PART * sizeof(int));
            CHECK_OK(MPI_Pready(part, request));
        }
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (rank == 1) ARE(at, 90 + round, ALL, ALL);
    }
    MPI_Request_free(&request);
    device_end(at);
    free(host);
}

/* Columns of a matrix, whose gaps stay unchanged. Two at a time, which must not disturb each
 * other. */
static void columns(int rows)
{
    enum { WIDTH = 6 };
    check_where("columns, %d rows", rows);
    if (rank > 1) return;
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, WIDTH, MPI_INT, &column);
    MPI_Type_commit(&column);
    int all = rows * WIDTH, *at = numbers(rank, all), position = 0;
    MPI_Request both[2];
    if (rank == 0) {
        CHECK_OK(MPI_Isend(at + 1, 1, column, 1, 8, MPI_COMM_WORLD, &both[0]));
        CHECK_OK(MPI_Isend(at + 4, 1, column, 1, 8, MPI_COMM_WORLD, &both[1]));
    } else {
        CHECK_OK(MPI_Irecv(at + 1, 1, column, 0, 8, MPI_COMM_WORLD, &both[0]));
        CHECK_OK(MPI_Irecv(at + 4, 1, column, 0, 8, MPI_COMM_WORLD, &both[1]));
    }
    CHECK_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    int *host = malloc((size_t) all * sizeof(int)), wrong = 0;
    device_take(host, at, (size_t) all * sizeof(int));
    for (int i = 0; i < all; i++) wrong += host[i] != value(rank == 1 && i % WIDTH % 3 == 1 ? 0 : rank, i);
    CHECK_EQ(wrong, 0);
    /* Packed by hand, both sides on the device. */
    int *packed = numbers(-1, rows);
    CHECK_OK(MPI_Pack(at + 1, 1, column, packed, rows * (int) sizeof(int), &position, MPI_COMM_WORLD));
    CHECK_EQ(position, rows * (int) sizeof(int));
    position = 0;
    CHECK_OK(MPI_Unpack(packed, rows * (int) sizeof(int), &position, at + 2, 1, column, MPI_COMM_WORLD));
    int *again = malloc((size_t) all * sizeof(int));
    device_take(again, at, (size_t) all * sizeof(int));
    wrong = 0;
    for (int i = 0; i < all; i++) wrong += again[i] != host[i % WIDTH == 2 ? i - 1 : i];
    CHECK_EQ(wrong, 0);
    device_end(packed);
    device_end(at);
    free(host);
    free(again);
    MPI_Type_free(&column);
}

static void halve(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *len; i++) ((int *) inout)[i] += ((int *) in)[i];
}

enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
static int form;
static MPI_Request pending;
#define CALL(upper, lower, ...) \
    do { \
        if (form == BLOCKING) CHECK_OK(MPI_##upper(__VA_ARGS__)); \
        else if (form == NONBLOCKING) { \
            CHECK_OK(MPI_I##lower(__VA_ARGS__, &pending)); \
            CHECK_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE)); \
        } else { \
            CHECK_OK(MPI_##upper##_init(__VA_ARGS__, MPI_INFO_NULL, &pending)); \
            CHECK_OK(MPI_Start(&pending)); \
            CHECK_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE)); \
            CHECK_OK(MPI_Request_free(&pending)); \
        } \
    } while (0)

static void blocks_are(const int *at, int from, int n, int line)
{
    int *host = malloc((size_t) size * (size_t) n * sizeof(int) + 1), wrong = 0;
    device_take(host, at, (size_t) size * (size_t) n * sizeof(int));
    for (int r = 0; r < size; r++) for (int i = 0; i < n; i++) wrong += host[r * n + i] != value(from + r, i);
    if (wrong) check_where("blocks, line %d, n %d, form %d", line, n, form);
    CHECK_EQ(wrong, 0);
    free(host);
}

static void collectives(int n)
{
    check_where("collectives, n %d, form %d", n, form);
    MPI_Comm world = MPI_COMM_WORLD;
    int root = n % size, all = n * size;
    int *one = numbers(100 + rank, n), *many = numbers(-1, all), *other = numbers(-1, all);
    CALL(Bcast, bcast, rank == root ? one : many, n, MPI_INT, root, world);
    ARE(rank == root ? one : many, 100 + root, n, rank == root ? n : all);
    CALL(Allgather, allgather, one, n, MPI_INT, many, n, MPI_INT, world);
    blocks_are(many, 100, n, __LINE__);
    CALL(Allgather, allgather, MPI_IN_PLACE, n, MPI_INT, many, n, MPI_INT, world);
    blocks_are(many, 100, n, __LINE__);
    CALL(Gather, gather, one, n, MPI_INT, other, n, MPI_INT, root, world);
    if (rank == root) blocks_are(other, 100, n, __LINE__);
    device_end(other);
    other = numbers(-1, all);
    CALL(Scatter, scatter, many, n, MPI_INT, other, n, MPI_INT, root, world);
    ARE(other, 100 + rank, n, all);
    int *same = device_new((size_t) all * sizeof(int) + 1), *host = malloc((size_t) all * sizeof(int) + 1);
    for (int i = 0; i < all; i++) host[i] = value(100 + rank, i % (n ? n : 1));
    device_put(same, host, (size_t) all * sizeof(int));
    CALL(Alltoall, alltoall, same, n, MPI_INT, other, n, MPI_INT, world);
    blocks_are(other, 100, n, __LINE__);
    int counts[16], places[16];
    for (int r = 0; r < size; r++) counts[r] = n, places[r] = r * n;
    device_end(other);
    other = numbers(-1, all);
    CALL(Allgatherv, allgatherv, one, n, MPI_INT, other, counts, places, MPI_INT, world);
    blocks_are(other, 100, n, __LINE__);
    device_end(other);
    other = numbers(-1, all);
    CALL(Alltoallv, alltoallv, same, counts, places, MPI_INT, other, counts, places, MPI_INT, world);
    blocks_are(other, 100, n, __LINE__);
    CALL(Gatherv, gatherv, one, n, MPI_INT, other, counts, places, MPI_INT, root, world);
    CALL(Scatterv, scatterv, many, counts, places, MPI_INT, other, n, MPI_INT, root, world);
    ARE(other, 100 + rank, n, all);
    device_end(one);
    device_end(many);
    device_end(other);
    device_end(same);
    free(host);
}

static void sums(int n)
{
    check_where("sums, n %d, form %d", n, form);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Op own;
    MPI_Op_create(halve, 1, &own);
    for (int user = 0; user < 2; user++) {
        MPI_Op op = user ? own : MPI_SUM;
        int root = n % size, all = n * size, wrong = 0;
        int *in = numbers(rank, n), *out = numbers(-1, n), *host = malloc((size_t) all * sizeof(int) + 4);
#define SUM(upto, i) ((upto) * ((upto) - 1) / 2 * 7919 + (upto) * ((i) * 31 + 5))
#define IS(at, want) \
    do { \
        device_take(host, at, (size_t) n * sizeof(int)); \
        wrong = 0; \
        for (int i = 0; i < n; i++) wrong += host[i] != (want); \
        CHECK_EQ(wrong, 0); \
    } while (0)
        CALL(Allreduce, allreduce, in, out, n, MPI_INT, op, world);
        IS(out, SUM(size, i));
        CALL(Reduce, reduce, in, out, n, MPI_INT, op, root, world);
        if (rank == root) IS(out, SUM(size, i));
        CALL(Scan, scan, in, out, n, MPI_INT, op, world);
        IS(out, SUM(rank + 1, i));
        CALL(Exscan, exscan, in, out, n, MPI_INT, op, world);
        if (rank) IS(out, SUM(rank, i));
        else IS(out, SUM(1, i));
        CALL(Allreduce, allreduce, MPI_IN_PLACE, in, n, MPI_INT, op, world);
        IS(in, SUM(size, i));
        int counts[16], *many = numbers(rank, all);
        for (int r = 0; r < size; r++) counts[r] = n;
        CALL(Reduce_scatter_block, reduce_scatter_block, many, out, n, MPI_INT, op, world);
        IS(out, SUM(size, rank * n + i));
        CALL(Reduce_scatter, reduce_scatter, many, out, counts, MPI_INT, op, world);
        IS(out, SUM(size, rank * n + i));
        if (form == BLOCKING) {
            CHECK_OK(MPI_Reduce_local(out, in, n, MPI_INT, op));
            IS(in, SUM(size, i) + SUM(size, rank * n + i));
        }
        device_end(in);
        device_end(out);
        device_end(many);
        free(host);
    }
    MPI_Op_free(&own);
}

/* A persistent collective reads its buffers at each start. */
static void starts(int n)
{
    check_where("starts, n %d", n);
    int *in = numbers(0, n), *out = numbers(-1, n), *host = malloc((size_t) n * sizeof(int) + 1);
    CHECK_OK(MPI_Allreduce_init(in, out, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &pending));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) host[i] = value(round * 10 + rank, i);
        device_put(in, host, (size_t) n * sizeof(int));
        CHECK_OK(MPI_Start(&pending));
        CHECK_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
        ARE(out, round * 10 + size - 1, n, n);
    }
    CHECK_OK(MPI_Request_free(&pending));
    device_end(in);
    device_end(out);
    free(host);
}

static void refusals(void)
{
    check_where("refusals");
    int *at = numbers(1, 8), *host = calloc(8, sizeof(int));
    MPI_Win win;
    CHECK_CLASS(MPI_Win_create(at, 32, 4, MPI_INFO_NULL, MPI_COMM_SELF, &win), MPI_ERR_BUFFER);
    MPI_Win_create(host, 32, 4, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    CHECK_OK(MPI_Put(at, 8, MPI_INT, 0, 0, 8, MPI_INT, win));
    MPI_Win_fence(0, win);
    for (int i = 0; i < 8; i++) CHECK_EQ(host[i], value(1, i));
    CHECK_OK(MPI_Accumulate(at, 8, MPI_INT, 0, 0, 8, MPI_INT, MPI_SUM, win));
    MPI_Win_fence(0, win);
    for (int i = 0; i < 8; i++) CHECK_EQ(host[i], 2 * value(1, i));
    CHECK_CLASS(MPI_Get(at, 8, MPI_INT, 0, 0, 8, MPI_INT, win), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Fetch_and_op(host, at, MPI_INT, 0, 0, MPI_SUM, win), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Compare_and_swap(host, host + 1, at, MPI_INT, 0, 0, win), MPI_ERR_BUFFER);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
    MPI_File file;
    char name[64];
    snprintf(name, sizeof name, "device-%d", (int) getpid());
    if (MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) == MPI_SUCCESS) {
        CHECK_CLASS(MPI_File_write_at(file, 0, at, 8, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
        CHECK_CLASS(MPI_File_read_at(file, 0, at, 8, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
        MPI_File_close(&file);
    }
    device_end(at);
    free(host);
}

static void failures(const char *text)
{
    char said[MPI_MAX_ERROR_STRING];
    int *at = numbers(1, 1000), len = 0;
    if (!strcmp(text, "could not copy")) setenv("FAKE_CUDA_FAIL_AFTER", "0", 1);
    int code = MPI_Send(at, 1000, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD);
    CHECK_CLASS(code, MPI_ERR_BUFFER);
    MPI_Error_string(code, said, &len);
    CHECK(strstr(said, "MPI_ERR_BUFFER") && strstr(said, text));
    char address[32];
    snprintf(address, sizeof address, "%p", (void *) at);
    CHECK(strstr(said, address));
    CHECK_CLASS(MPI_Bcast(at, 1000, MPI_INT, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_CLASS(MPI_Isend(at, 1000, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Allreduce(MPI_IN_PLACE, at, 1000, MPI_INT, MPI_SUM, MPI_COMM_SELF), MPI_ERR_BUFFER);
    int host = rank, sum = 0;
    CHECK_OK(MPI_Allreduce(&host, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, size * (size - 1) / 2);
}

static void failures_of_receives(void)
{
    int *at = numbers(1, 300000), host[1000] = {0}, *many = calloc(300000, sizeof(int));
    if (rank == 0) {
        CHECK_OK(MPI_Send(host, 1000, MPI_INT, 1, 1, MPI_COMM_WORLD));
        CHECK_OK(MPI_Send(many, 300000, MPI_INT, 1, 1, MPI_COMM_WORLD));
        CHECK_OK(MPI_Send(host, 1000, MPI_INT, 1, 1, MPI_COMM_WORLD));
    } else if (rank == 1) {
        setenv("FAKE_CUDA_FAIL_AFTER", "0", 1);
        CHECK_CLASS(MPI_Recv(at, 1000, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
        CHECK_CLASS(MPI_Recv(at, 300000, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
        MPI_Request request;
        CHECK_OK(MPI_Irecv(at, 1000, MPI_INT, 0, 1, MPI_COMM_WORLD, &request));
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
        unsetenv("FAKE_CUDA_FAIL_AFTER");
    }
    MPI_Request again;
    if (rank == 0) MPI_Send_init(host, 1000, MPI_INT, 1, 1, MPI_COMM_WORLD, &again);
    else MPI_Recv_init(at, 1000, MPI_INT, 0, 1, MPI_COMM_WORLD, &again);
    for (int round = 0; round < 3; round++) {
        if (rank == 1 && round == 1) setenv("FAKE_CUDA_FAIL_AFTER", "0", 1);
        else unsetenv("FAKE_CUDA_FAIL_AFTER");
        CHECK_OK(MPI_Start(&again));
        CHECK_CLASS(MPI_Wait(&again, MPI_STATUS_IGNORE), rank == 1 && round == 1 ? MPI_ERR_BUFFER : MPI_SUCCESS);
    }
    MPI_Request_free(&again);
    for (int n = 10; n < 10000; n *= 30) {
        MPI_Request request;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) setenv("FAKE_CUDA_FAIL_AFTER", "0", 1);
        CHECK_OK(MPI_Ibcast(rank == 0 ? (void *) many : at, n, MPI_INT, 0, MPI_COMM_WORLD, &request));
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), rank == 1 ? MPI_ERR_BUFFER : MPI_SUCCESS);
        unsetenv("FAKE_CUDA_FAIL_AFTER");
    }
    free(many);
}

static void *exchange(void *argument)
{
    int mine = *(int *) argument;
    CHECK_EQ(device_use(), 0);
    for (int round = 0; round < 20; round++) {
        int n = round % 4 ? 500 * round : 200000, *at = numbers(mine, n), *into = numbers(-1, n);
        int peer = rank ^ 1;
        if (peer < size)
            CHECK_OK(MPI_Sendrecv(at, n, MPI_INT, peer, mine, into, n, MPI_INT, peer, mine, MPI_COMM_WORLD, MPI_STATUS_IGNORE)), ARE(into, mine, n, n);
        device_end(at);
        device_end(into);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 2 ? argv[1] : "all";
    int level;
    check_watch();
    MPI_Init_thread(&argc, &argv, !strcmp(mode, "threads") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    check_ranks();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    /* Before the driver is loaded. */
    int host = rank, sum = 0;
    CHECK_OK(MPI_Allreduce(&host, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, size * (size - 1) / 2);
    if (argc > 2 && !strcmp(mode, "support")) {
        CHECK_EQ(MPIX_Query_cuda_support(), atoi(argv[2]));
        return check_end();
    }
    const char *why = device_open();
    if (why) {
        if (rank == 0) printf("skipped: %s\n", why);
        MPI_Finalize();
        return 0;
    }
    if (!strcmp(mode, "null")) failures("the parameter accelerator is 'null'");
    else if (!strcmp(mode, "copies")) failures("could not copy");
    else if (!strcmp(mode, "context")) failures("CUDA_ERROR_INVALID_CONTEXT (201)");
    else if (!strcmp(mode, "unasked")) {
        /* Messages need no component. */
        modes(1000);
        int *at = numbers(1, 1000);
        CHECK_CLASS(MPI_Bcast(at, 1000, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
        MPI_Request request;
        CHECK_CLASS(MPI_Ibcast(at, 1000, MPI_INT, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
        int *sum_of = numbers(2, 1000);
        CHECK_OK(MPI_Reduce_local(at, sum_of, 1000, MPI_INT, MPI_MIN));
        ARE(sum_of, 1, 1000, 1000);
        device_end(sum_of);
        device_end(at);
    }
    else if (!strcmp(mode, "receives")) failures_of_receives();
    else if (!strcmp(mode, "threads")) {
        pthread_t threads[3];
        int numbers_of[3] = {1, 2, 3};
        for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, exchange, &numbers_of[i]);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    } else {
        for (int i = 0; i < LENGTHS; i++) {
            modes(lengths[i]);
            mixed(lengths[i]);
            requests(lengths[i]);
        }
        partitions();
        columns(5);
        columns(40000);
        for (form = 0; form < FORMS; form++)
            for (int i = 0; i < LENGTHS - 1; i++) {
                collectives(lengths[i]);
                sums(lengths[i]);
            }
        starts(1000);
        refusals();
        /* With the driver of the tests: long messages used its streams. */
        int (*queued)(void);
        if ((*(void **) &queued = dlsym(cuda.library, "fake_cuda_queued")) && size > 1 && rank < 2) CHECK(queued() > 20);
    }
    return check_end();
}
