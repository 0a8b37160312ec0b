/* Point-to-point patterns, for patterns.c. A ping-pong counts half a round trip; an exchange
 * counts as a whole. */
#ifndef PATTERNS_P2P_H
#define PATTERNS_P2P_H

enum { DATA_TAG = 1, ACK_TAG = 2 };

#define VECTOR_BLOCK 64
#define BUFFERED 8

/* ---- ping-pong by several calls ---- */

/* `send` and `receive` are statements that use `length`. */
#define PING_PONG(name, send, receive)             \
    static void name(long repeats)                 \
    {                                              \
        for (long i = 0; i < repeats; i++) {       \
            if (is_first)                          \
                send;                              \
            receive;                               \
            if (!is_first)                         \
                send;                              \
        }                                          \
    }

static MPI_Comm duplicate = MPI_COMM_NULL;

static void begin_duplicate(size_t bytes)
{
    set_length(bytes);
    MPI_Comm_dup(WORLD, &duplicate);
}

static void end_duplicate(void)
{
    MPI_Comm_free(&duplicate);
}

PING_PONG(ping_pong_dup,
          MPI_Send(out, (int)length, MPI_BYTE, partner, DATA_TAG, duplicate),
          MPI_Recv(in, (int)length, MPI_BYTE, partner, DATA_TAG, duplicate, IGNORE))

PING_PONG(ping_pong_ssend,
          MPI_Ssend(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD),
          MPI_Recv(in, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD, IGNORE))

static void probe_and_receive(void)
{
    MPI_Status status;
    int bytes;
    MPI_Probe(partner, DATA_TAG, WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    MPI_Recv(in, bytes, MPI_BYTE, partner, DATA_TAG, WORLD, IGNORE);
}

PING_PONG(ping_pong_probe, MPI_Send(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD), probe_and_receive())

static void mprobe_and_receive(void)
{
    MPI_Message message;
    MPI_Status status;
    int bytes;
    MPI_Mprobe(partner, DATA_TAG, WORLD, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    MPI_Mrecv(in, bytes, MPI_BYTE, &message, IGNORE);
}

PING_PONG(ping_pong_mprobe, MPI_Send(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD), mprobe_and_receive())

PING_PONG(ping_pong_any_source,
          MPI_Send(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD),
          MPI_Recv(in, (int)length, MPI_BYTE, MPI_ANY_SOURCE, DATA_TAG, WORLD, IGNORE))

PING_PONG(ping_pong_any_tag,
          MPI_Send(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD),
          MPI_Recv(in, (int)length, MPI_BYTE, partner, MPI_ANY_TAG, WORLD, IGNORE))

static void *buffer;

static void begin_buffer(size_t bytes)
{
    int size = (int)(BUFFERED * (bytes + MPI_BSEND_OVERHEAD));
    set_length(bytes);
    buffer = malloc((size_t)size);
    MPI_Buffer_attach(buffer, size);
}

static void end_buffer(void)
{
    int size;
    MPI_Buffer_detach(&buffer, &size);
    free(buffer);
}

PING_PONG(ping_pong_bsend,
          MPI_Bsend(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD),
          MPI_Recv(in, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD, IGNORE))

/* ---- data with gaps, and new memory ---- */

static MPI_Datatype vector = MPI_DATATYPE_NULL;

static void begin_vector(size_t bytes)
{
    int doubles = VECTOR_BLOCK / (int)sizeof(double);
    set_length(bytes);
    MPI_Type_vector((int)(bytes / VECTOR_BLOCK), doubles, 2 * doubles, MPI_DOUBLE, &vector);
    MPI_Type_commit(&vector);
}

static void end_vector(void)
{
    MPI_Type_free(&vector);
}

PING_PONG(ping_pong_vector,
          MPI_Send(out, 1, vector, partner, DATA_TAG, WORLD),
          MPI_Recv(in, 1, vector, partner, DATA_TAG, WORLD, IGNORE))

static int is_vector_of(int sender)
{
    for (size_t at = 0; at < 2 * length; at++)
        if (in[at] != (at % (2 * VECTOR_BLOCK) < VECTOR_BLOCK ? content(at, sender) : 0))
            return 0;
    return 1;
}

static int is_vector_of_partner(void)
{
    return is_vector_of(partner);
}

static char *received = MAP_FAILED;

static char *new_memory(void)
{
    char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "patterns: no memory for a message of %zu bytes\n", length);
        MPI_Abort(WORLD, 1);
    }
    return memory;
}

static void forget_received(void)
{
    if (received != MAP_FAILED)
        munmap(received, length);
    received = MAP_FAILED;
}

static void send_new(void)
{
    char *memory = new_memory();
    memset(memory, rank + 1, length); /* the sender has written to its memory before */
    MPI_Send(memory, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD);
    munmap(memory, length);
}

static void receive_new(void)
{
    forget_received();
    received = new_memory();
    MPI_Recv(received, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD, IGNORE);
}

PING_PONG(ping_pong_new, send_new(), receive_new())

static int is_new_of_partner(void)
{
    for (size_t at = 0; at < length; at++)
        if (received[at] != (char)(partner + 1))
            return 0;
    return 1;
}

/* ---- exchanges in both directions at once ---- */

static MPI_Request requests[8];

static void isend_irecv(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Irecv(in, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD, &requests[0]);
        MPI_Isend(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void begin_persistent(size_t bytes)
{
    set_length(bytes);
    MPI_Recv_init(in, (int)bytes, MPI_BYTE, partner, DATA_TAG, WORLD, &requests[0]);
    MPI_Send_init(out, (int)bytes, MPI_BYTE, partner, DATA_TAG, WORLD, &requests[1]);
}

static void end_persistent(void)
{
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void persistent(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void sendrecv(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Sendrecv(out, (int)length, MPI_BYTE, partner, DATA_TAG, in, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD, IGNORE);
}

/* Sendrecv and Exchange of the Intel MPI Benchmarks: all ranks in a ring. */
static int left(void)
{
    return (rank + ranks - 1) % ranks;
}

static int right(void)
{
    return (rank + 1) % ranks;
}

static void ring_sendrecv(long repeats)
{
    for (long i = 0; i < repeats; i++)
        MPI_Sendrecv(out, (int)length, MPI_BYTE, right(), DATA_TAG, in, (int)length, MPI_BYTE, left(), DATA_TAG, WORLD, IGNORE);
}

static int is_from_left(void)
{
    return are_from(in, left(), 0, length);
}

/* Tags for the directions, as both neighbours may be the same rank. */
enum { LEFTWARDS = 3, RIGHTWARDS = 4 };

static void ring_exchange(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        MPI_Isend(out, (int)length, MPI_BYTE, left(), LEFTWARDS, WORLD, &requests[0]);
        MPI_Isend(out + length, (int)length, MPI_BYTE, right(), RIGHTWARDS, WORLD, &requests[1]);
        MPI_Recv(in, (int)length, MPI_BYTE, left(), RIGHTWARDS, WORLD, IGNORE);
        MPI_Recv(in + length, (int)length, MPI_BYTE, right(), LEFTWARDS, WORLD, IGNORE);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static int is_from_both(void)
{
    return are_from(in, left(), length, length) && are_from(in + length, right(), 0, length);
}

static char *own_out, *own_in;

static void begin_allocated(size_t bytes)
{
    set_length(bytes);
    own_out = out;
    own_in = in;
    MPI_Alloc_mem((MPI_Aint)room, MPI_INFO_NULL, &out);
    MPI_Alloc_mem((MPI_Aint)room, MPI_INFO_NULL, &in);
    memcpy(out, own_out, room);
    memset(in, 0, room);
}

static void end_allocated(void)
{
    MPI_Free_mem(out);
    MPI_Free_mem(in);
    out = own_out;
    in = own_in;
}

/* The border of a part of a periodic grid goes to its four neighbours; with 2 ranks two of them
 * are the rank itself. Block k goes to neighbour k, and arrives there as the block of the
 * direction from which it came. */
static MPI_Comm grid = MPI_COMM_NULL;
static int neighbours[4];

static void begin_grid(size_t bytes)
{
    int sides[2] = {0, 0}, periodic[2] = {1, 1};
    set_length(bytes);
    MPI_Dims_create(ranks, 2, sides);
    MPI_Cart_create(WORLD, 2, sides, periodic, 0, &grid);
    MPI_Cart_shift(grid, 0, 1, &neighbours[0], &neighbours[1]);
    MPI_Cart_shift(grid, 1, 1, &neighbours[2], &neighbours[3]);
}

static void end_grid(void)
{
    MPI_Comm_free(&grid);
}

static void halo(long repeats)
{
    for (long i = 0; i < repeats; i++) {
        for (int k = 0; k < 4; k++)
            MPI_Irecv(in + (size_t)k * length, (int)length, MPI_BYTE, neighbours[k], k ^ 1, grid, &requests[k]);
        for (int k = 0; k < 4; k++)
            MPI_Isend(out + (size_t)k * length, (int)length, MPI_BYTE, neighbours[k], k, grid, &requests[4 + k]);
        MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    }
}

static int is_from_neighbours(void)
{
    for (size_t k = 0; k < 4; k++)
        if (!are_from(in + k * length, neighbours[k], (k ^ 1) * length, length))
            return 0;
    return 1;
}

/* ---- many messages at once ---- */

enum { STREAM = 8 };

static void stream(long repeats)
{
    char none = 0;
    for (long i = 0; i < repeats; i++) {
        for (int k = 0; k < STREAM; k++)
            if (is_first)
                MPI_Send(out, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD);
            else
                MPI_Recv(in, (int)length, MPI_BYTE, partner, DATA_TAG, WORLD, IGNORE);
        if (is_first)
            MPI_Recv(&none, 1, MPI_BYTE, partner, ACK_TAG, WORLD, IGNORE);
        else
            MPI_Send(&none, 1, MPI_BYTE, partner, ACK_TAG, WORLD);
    }
}

static int is_streamed(void)
{
    return is_first || is_from_partner();
}

enum { FEW = 256, MANY = 2048, READY_TAG = MANY };
static MPI_Request many_requests[MANY];

/* Message k has tag k, and is the k-th of `out`. */
static void send_numbered(int k)
{
    MPI_Send(out + (size_t)k * length, (int)length, MPI_BYTE, partner, k, WORLD);
}

/* The second rank of a pair waits until all messages have arrived, and receives the last one
 * first. */
static void unexpected(long repeats, int messages)
{
    char none = 0;
    for (long i = 0; i < repeats; i++) {
        if (is_first) {
            for (int k = 0; k < messages; k++)
                send_numbered(k);
            MPI_Send(&none, 1, MPI_BYTE, partner, READY_TAG, WORLD);
            MPI_Recv(&none, 1, MPI_BYTE, partner, READY_TAG, WORLD, IGNORE);
        } else {
            MPI_Recv(&none, 1, MPI_BYTE, partner, READY_TAG, WORLD, IGNORE);
            for (int k = messages - 1; k >= 0; k--)
                MPI_Recv(in + (size_t)k * length, (int)length, MPI_BYTE, partner, k, WORLD, IGNORE);
            MPI_Send(&none, 1, MPI_BYTE, partner, READY_TAG, WORLD);
        }
    }
}

/* The second rank of a pair has posted all receives, of which the last is matched first. */
static void posted(long repeats, int messages)
{
    char none = 0;
    for (long i = 0; i < repeats; i++) {
        if (is_first) {
            MPI_Recv(&none, 1, MPI_BYTE, partner, READY_TAG, WORLD, IGNORE);
            for (int k = messages - 1; k >= 0; k--)
                send_numbered(k);
        } else {
            for (int k = 0; k < messages; k++)
                MPI_Irecv(in + (size_t)k * length, (int)length, MPI_BYTE, partner, k, WORLD, &many_requests[k]);
            MPI_Send(&none, 1, MPI_BYTE, partner, READY_TAG, WORLD);
            MPI_Waitall(messages, many_requests, MPI_STATUSES_IGNORE);
        }
    }
}

static void few_unexpected(long repeats)
{
    unexpected(repeats, FEW);
}

static void many_unexpected(long repeats)
{
    unexpected(repeats, MANY);
}

static void few_posted(long repeats)
{
    posted(repeats, FEW);
}

static void many_posted(long repeats)
{
    posted(repeats, MANY);
}

static int are_few_right(void)
{
    return is_first || are_from(in, partner, 0, FEW * length);
}

static int are_many_right(void)
{
    return is_first || are_from(in, partner, 0, MANY * length);
}

#define USUAL_SIZES {8, KIB, 64 * KIB, 1024 * KIB}
#define LONG_SIZES {64 * KIB, 1024 * KIB}
#define RING_SIZES {16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB}

static const struct pattern p2p_patterns[] = {
    {"p2p/ping-pong-dup", USUAL_SIZES, 2, begin_duplicate, ping_pong_dup, is_from_partner, end_duplicate},
    {"p2p/ssend", USUAL_SIZES, 2, set_length, ping_pong_ssend, is_from_partner, NULL},
    {"p2p/probe", USUAL_SIZES, 2, set_length, ping_pong_probe, is_from_partner, NULL},
    {"p2p/mprobe", USUAL_SIZES, 2, set_length, ping_pong_mprobe, is_from_partner, NULL},
    {"p2p/any-source", USUAL_SIZES, 2, set_length, ping_pong_any_source, is_from_partner, NULL},
    {"p2p/any-tag", USUAL_SIZES, 2, set_length, ping_pong_any_tag, is_from_partner, NULL},
    {"p2p/bsend", USUAL_SIZES, 2, begin_buffer, ping_pong_bsend, is_from_partner, end_buffer},
    {"p2p/vector", LONG_SIZES, 2, begin_vector, ping_pong_vector, is_vector_of_partner, end_vector},
    {"p2p/new-memory", LONG_SIZES, 2, set_length, ping_pong_new, is_new_of_partner, forget_received},
    {"p2p/isend-irecv", USUAL_SIZES, 1, set_length, isend_irecv, is_from_partner, NULL},
    {"p2p/persistent", USUAL_SIZES, 1, begin_persistent, persistent, is_from_partner, end_persistent},
    {"p2p/sendrecv", USUAL_SIZES, 1, set_length, sendrecv, is_from_partner, NULL},
    {"p2p/ring-sendrecv", RING_SIZES, 1, set_length, ring_sendrecv, is_from_left, NULL},
    {"p2p/ring-exchange", RING_SIZES, 1, set_length, ring_exchange, is_from_both, NULL},
    {"p2p/alloc-sendrecv", RING_SIZES, 1, begin_allocated, ring_sendrecv, is_from_left, end_allocated},
    {"p2p/alloc-exchange", RING_SIZES, 1, begin_allocated, ring_exchange, is_from_both, end_allocated},
    {"p2p/halo", {8, KIB, 64 * KIB}, 1, begin_grid, halo, is_from_neighbours, end_grid},
    {"p2p/stream", {4 * MIB}, STREAM, set_length, stream, is_streamed, NULL},
    {"p2p/unexpected-256", {8}, FEW, set_length, few_unexpected, are_few_right, NULL},
    {"p2p/unexpected-2048", {8}, MANY, set_length, many_unexpected, are_many_right, NULL},
    {"p2p/posted-256", {8}, FEW, set_length, few_posted, are_few_right, NULL},
    {"p2p/posted-2048", {8}, MANY, set_length, many_posted, are_many_right, NULL},
};

#endif
