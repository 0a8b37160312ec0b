// ranks: 1 2 4
// transports: all
// every day: shm-single-copy
/* MPI_THREAD_MULTIPLE under load: four threads of each rank run random rounds at the same time.
 *
 * thread_stress [SECONDS [SEED]]: a fixed number of rounds, or batches of rounds until the time
 * is over. The acts and messages of a round are drawn from seed, thread and round: all ranks
 * draw alike, so a receiver knows its messages. Thread t of all ranks has its own communicator.
 * A failure names seed, thread and round; a hang prints the state of each thread. */
#include "check.h"

#include <pthread.h>
#include <sched.h>

enum {
    THREADS = 4,
    ROUNDS = 60,      /* of a batch; each batch has new threads and new communicators */
    MESSAGES = 5, /* from a rank in an exchange */
    MOST = 64, /* receives of an exchange at once */
    LARGEST = 300 << 10,
    GAP = 0xEE, /* between the blocks of a strided buffer */
};

struct player {
    int thread;
    unsigned seed;    /* of the batch and the thread */
    unsigned round;
    unsigned draws;   /* in this round */
    MPI_Comm comm;
};

struct message {
    int from, to, tag, bytes;
    unsigned pattern;
};

struct place {
    unsigned char *memory;
    size_t span;
    int count, block;
    MPI_Datatype type;
};

static char where[THREADS][96];
static MPI_Comm common;               /* of all threads */
static pthread_barrier_t in_step;     /* of the threads of a rank */
static MPI_Request handed[THREADS];

/* The next random number, the same on all ranks. */
static unsigned draw(struct player *p) { return drawn(p->seed, p->round, p->draws++); }

/* The next random number of this rank. */
static unsigned draw_own(struct player *p) { return drawn(p->seed + 77777u * (rank + 1), p->round, p->draws++); }

static void enter(struct player *p, const char *what)
{
    snprintf(where[p->thread], sizeof where[0], "thread %d, seed %u, round %u: %s\n", p->thread, p->seed, p->round, what);
}

static void say_where(int signal_number)
{
    for (int t = 0; t < THREADS; t++)
        if (write(STDERR_FILENO, where[t], strlen(where[t])) < 0) break;
    check_out_of_time(signal_number);
}

/* Of every kind: empty, inline, eager, announced. */
static int length_of(unsigned x)
{
    static const int limits[8] = {1, 57, 57, 1000, 16385, 16385, 70000, LARGEST + 1};
    return (int) ((x >> 3) % limits[x & 7]);
}

static struct place place_of(int bytes, unsigned x)
{
    static const int blocks[4] = {1, 4, 12, 500};
    struct place place = {.count = bytes, .block = bytes, .span = bytes, .type = MPI_BYTE};
    int block = blocks[(x >> 2) & 3];
    if ((x & 3) == 0 && bytes > 0 && bytes % block == 0) {
        place.count = 1;
        place.block = block;
        place.span = 2 * (size_t) bytes - block;
        CHECK_OK(MPI_Type_vector(bytes / block, block, 2 * block, MPI_BYTE, &place.type));
        CHECK_OK(MPI_Type_commit(&place.type));
    }
    place.memory = allocate(place.span);
    memset(place.memory, GAP, place.span);
    return place;
}

static void free_type(struct place *place)
{
    if (place->type != MPI_BYTE) CHECK_OK(MPI_Type_free(&place->type));
}

static void fill(struct place *place, int bytes, unsigned pattern)
{
    for (int i = 0; i < bytes; i++) place->memory[i + i / place->block * place->block] = pattern_byte(pattern, i);
}

static int is_right(const struct place *place, int bytes, unsigned pattern)
{
    if (place->block == bytes || bytes == 0) return pattern_differs(place->memory, bytes, pattern) < 0;
    for (size_t i = 0; i < place->span; i++) {
        size_t block = i / place->block, byte = block / 2 * place->block + i % place->block;
        if (place->memory[i] != (block % 2 ? GAP : pattern_byte(pattern, byte))) return 0;
    }
    return 1;
}

static struct message message_of(const struct player *p, unsigned of_exchange, int from, int k)
{
    unsigned x = drawn(p->seed + of_exchange, p->round, 1000 * from + k), y = drawn(x, from, k);
    struct message m = {from, (int) (x % size), 1 + from * MESSAGES + k, length_of(y), x ^ (x >> 9)};
    return m;
}

static void send(struct player *p, const struct message *m, struct place *from, MPI_Comm comm, int may_block, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    *from = place_of(m->bytes, draw_own(p));
    fill(from, m->bytes, m->pattern);
    switch (draw_own(p) % (may_block ? 5 : 3)) {
    case 0: CHECK_OK(MPI_Issend(from->memory, from->count, from->type, m->to, m->tag, comm, request)); break;
    case 1:
    case 2: CHECK_OK(MPI_Isend(from->memory, from->count, from->type, m->to, m->tag, comm, request)); break;
    case 3: CHECK_OK(MPI_Send(from->memory, from->count, from->type, m->to, m->tag, comm)); break;
    default: CHECK_OK(MPI_Ssend(from->memory, from->count, from->type, m->to, m->tag, comm));
    }
    free_type(from);
}

static void complete(struct player *p, int count, MPI_Request *requests, MPI_Status *statuses)
{
    int left = 0, flag = 0, n = 0, indices[MOST];
    MPI_Status some[MOST];
    for (int i = 0; i < count; i++) left += requests[i] != MPI_REQUEST_NULL;
    switch (draw_own(p) % 7) {
    case 0: CHECK_OK(MPI_Waitall(count, requests, statuses)); break;
    case 1:
        for (; left > 0; left--) {
            CHECK_OK(MPI_Waitany(count, requests, &n, &some[0]));
            if (!CHECK(n >= 0 && n < count)) return;
            statuses[n] = some[0];
        }
        break;
    case 2:
        while (left > 0) {
            CHECK_OK(draw_own(p) % 2 ? MPI_Waitsome(count, requests, &n, indices, some)
                                     : MPI_Testsome(count, requests, &n, indices, some));
            if (!CHECK(n >= 0 && n <= left)) return;
            for (int i = 0; i < n; i++) statuses[indices[i]] = some[i];
            left -= n;
        }
        break;
    case 3:
        while (!flag) {
            CHECK_OK(MPI_Testall(count, requests, &flag, statuses));
            if (!flag) sched_yield();
        }
        break;
    case 4:
        while (left > 0) {
            CHECK_OK(MPI_Testany(count, requests, &n, &flag, &some[0]));
            if (flag) {
                if (!CHECK(n >= 0 && n < count)) return;
                statuses[n] = some[0];
                left--;
            }
        }
        break;
    case 5:
        for (int i = count - 1; i >= 0; i--)
            if (requests[i] != MPI_REQUEST_NULL) CHECK_OK(MPI_Wait(&requests[i], &statuses[i]));
        break;
    default:
        for (int i = 0; i < count; i++)
            for (flag = requests[i] == MPI_REQUEST_NULL; !flag;) CHECK_OK(MPI_Test(&requests[i], &flag, &statuses[i]));
    }
    for (int i = 0; i < count; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
}

/* The message must be one for which this rank waits, with no earlier one outstanding. */
static void check_message(const struct player *p, unsigned of_exchange, const MPI_Status *status, const struct place *into, int *last)
{
    int k = (status->MPI_TAG - 1) % MESSAGES, from = (status->MPI_TAG - 1) / MESSAGES;
    if (!CHECK_EQ(from, status->MPI_SOURCE) || !CHECK(from >= 0 && from < size)) return;
    struct message m = message_of(p, of_exchange, from, k);
    CHECK_STATUS(status, m.from, m.tag, m.bytes);
    CHECK_EQ(m.to, rank);
    CHECK(last[from] < k);
    last[from] = k;
    struct place got = *into;
    if (got.block > m.bytes || got.type == MPI_BYTE) got.block = m.bytes; /* a buffer for any message is contiguous */
    CHECK(is_right(&got, m.bytes, m.pattern));
}

static void receive_now(struct player *p, int source, int tag, int room, MPI_Comm comm, struct place *into, MPI_Status *status)
{
    int flag = 0, bytes = room;
    MPI_Status found;
    switch (draw_own(p) % 3) {
    case 0: CHECK_OK(MPI_Probe(source, tag, comm, &found)); break;
    case 1:
        while (!flag) {
            CHECK_OK(MPI_Iprobe(source, tag, comm, &flag, &found));
            if (!flag) sched_yield();
        }
        break;
    default:
        *into = place_of(bytes, 1);
        CHECK_OK(MPI_Recv(into->memory, bytes, MPI_BYTE, source, tag, comm, status));
        return;
    }
    CHECK_OK(MPI_Get_count(&found, MPI_BYTE, &bytes));
    *into = place_of(bytes, 1);
    CHECK_OK(MPI_Recv(into->memory, bytes, MPI_BYTE, found.MPI_SOURCE, found.MPI_TAG, comm, status));
    CHECK_STATUS(status, found.MPI_SOURCE, found.MPI_TAG, bytes);
}

/* Each rank sends some messages to random ranks; all receive with different wildcards or
 * without, early or late. */
static void exchange(struct player *p, MPI_Comm comm)
{
    unsigned of_exchange = draw(p), any = draw(p) % 4, early = draw(p) % 2;
    struct message wanted[MOST];
    struct place ins[MOST], outs[MESSAGES];
    MPI_Request receives[MOST], sends[MESSAGES];
    MPI_Status statuses[MOST], sent[MESSAGES];
    int last[MOST], count = 0, room = 0;
    for (int from = 0; from < size; from++) {
        last[from] = -1;
        for (int k = 0; k < MESSAGES; k++) {
            wanted[count] = message_of(p, of_exchange, from, k);
            if (wanted[count].to != rank) continue;
            if (wanted[count].bytes > room) room = wanted[count].bytes;
            count++;
        }
    }
    for (int i = 0; early && i < count; i++) {
        ins[i] = place_of(any ? room : wanted[i].bytes, any ? 1 : draw_own(p));
        CHECK_OK(MPI_Irecv(ins[i].memory, ins[i].count, ins[i].type, any & 1 ? MPI_ANY_SOURCE : wanted[i].from,
                           any & 2 ? MPI_ANY_TAG : wanted[i].tag, comm, &receives[i]));
    }
    for (int k = 0; k < MESSAGES; k++) {
        struct message m = message_of(p, of_exchange, rank, k);
        send(p, &m, &outs[k], comm, early, &sends[k]);
    }
    for (int i = 0; !early && i < count; i++)
        receive_now(p, any & 1 ? MPI_ANY_SOURCE : wanted[i].from, any & 2 ? MPI_ANY_TAG : wanted[i].tag, room, comm, &ins[i], &statuses[i]);
    if (early) complete(p, count, receives, statuses);
    for (int i = 0; i < count; i++) {
        check_message(p, of_exchange, &statuses[i], &ins[i], last);
        if (early) free_type(&ins[i]);
        free(ins[i].memory);
    }
    complete(p, MESSAGES, sends, sent);
    for (int k = 0; k < MESSAGES; k++) free(outs[k].memory);
    if (any) CHECK_OK(MPI_Barrier(comm));
}

/* Some receives are cancelled while their message comes: it is received then or later, and never
 * lost. */
static void cancel(struct player *p)
{
    enum { RACES = 4, NEVER = 900 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size, flag = -1;
    unsigned of_exchange = draw(p);
    struct place in, out[RACES], ins[RACES];
    MPI_Request never, receives[RACES], sends[RACES];
    MPI_Status status, sent[RACES];
    CHECK_OK(MPI_Irecv(&in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, NEVER, p->comm, &never));
    for (int k = 0; k < RACES; k++) {
        struct message m = message_of(p, of_exchange, from, k);
        ins[k] = place_of(m.bytes, 1);
        CHECK_OK(MPI_Irecv(ins[k].memory, m.bytes, MPI_BYTE, from, m.tag, p->comm, &receives[k]));
    }
    for (int k = 0; k < RACES; k++) {
        struct message m = message_of(p, of_exchange, rank, k);
        m.to = to;
        send(p, &m, &out[k], p->comm, 0, &sends[k]);
    }
    for (int k = 0; k < RACES; k++) {
        struct message m = message_of(p, of_exchange, from, k);
        if (draw_own(p) % 4) CHECK_OK(MPI_Cancel(&receives[k]));
        CHECK_OK(MPI_Wait(&receives[k], &status));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        if (flag) {
            CHECK(bytes_differ(ins[k].memory, 0, m.bytes, GAP) < 0);
            CHECK_OK(MPI_Recv(ins[k].memory, m.bytes, MPI_BYTE, from, m.tag, p->comm, &status));
        }
        CHECK_STATUS(&status, from, m.tag, m.bytes);
        CHECK(is_right(&ins[k], m.bytes, m.pattern));
        free(ins[k].memory);
    }
    complete(p, RACES, sends, sent);
    for (int k = 0; k < RACES; k++) free(out[k].memory);
    CHECK_OK(MPI_Cancel(&never));
    CHECK_OK(MPI_Wait(&never, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_EQ(flag, 1);
}

static void to_oneself(struct player *p)
{
    int bytes = length_of(draw_own(p)), tag = p->thread;
    unsigned pattern = draw_own(p);
    struct place out = place_of(bytes, draw_own(p)), in = place_of(bytes, draw_own(p));
    MPI_Request request;
    MPI_Status status;
    fill(&out, bytes, pattern);
    switch (draw_own(p) % 4) {
    case 0:
        CHECK_OK(MPI_Isend(out.memory, out.count, out.type, 0, tag, MPI_COMM_SELF, &request));
        CHECK_OK(MPI_Recv(in.memory, in.count, in.type, MPI_ANY_SOURCE, tag, MPI_COMM_SELF, &status));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 1:
        CHECK_OK(MPI_Irecv(in.memory, in.count, in.type, 0, tag, MPI_COMM_SELF, &request));
        CHECK_OK(MPI_Ssend(out.memory, out.count, out.type, 0, tag, MPI_COMM_SELF));
        CHECK_OK(MPI_Wait(&request, &status));
        break;
    case 2:
        CHECK_OK(MPI_Issend(out.memory, out.count, out.type, 0, tag, MPI_COMM_SELF, &request));
        CHECK_OK(MPI_Probe(0, tag, MPI_COMM_SELF, &status));
        CHECK_STATUS(&status, 0, tag, bytes);
        CHECK_OK(MPI_Recv(in.memory, in.count, in.type, 0, tag, MPI_COMM_SELF, &status));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    default:
        CHECK_OK(MPI_Sendrecv(out.memory, out.count, out.type, 0, tag, in.memory, in.count, in.type, 0, tag, MPI_COMM_SELF, &status));
    }
    CHECK_STATUS(&status, 0, tag, bytes);
    CHECK(is_right(&in, bytes, pattern));
    free_type(&in);
    free_type(&out);
    free(in.memory);
    free(out.memory);
}

static void collectives(struct player *p)
{
    int count = 1 + length_of(draw(p)) / 40, root = (int) (draw(p) % size), word = rank, others[MOST], flag = 0;
    unsigned pattern = draw(p);
    long long *in = allocate(count * sizeof *in), *out = allocate(count * sizeof *out);
    unsigned char *bytes = allocate(count);
    MPI_Request requests[3];
    for (int i = 0; i < count; i++) in[i] = (long long) i * (rank + 1) + pattern % 1000;
    CHECK_OK(MPI_Allgather(&word, 1, MPI_INT, others, 1, MPI_INT, p->comm));
    for (int r = 0; r < size; r++) CHECK_EQ(others[r], r);
    if (rank == root) pattern_fill(bytes, count, pattern);
    if (draw(p) % 2) {
        CHECK_OK(MPI_Allreduce(in, out, count, MPI_LONG_LONG, MPI_SUM, p->comm));
        CHECK_OK(MPI_Bcast(bytes, count, MPI_BYTE, root, p->comm));
        CHECK_OK(MPI_Barrier(p->comm));
    } else {
        CHECK_OK(MPI_Iallreduce(in, out, count, MPI_LONG_LONG, MPI_SUM, p->comm, &requests[0]));
        CHECK_OK(MPI_Ibcast(bytes, count, MPI_BYTE, root, p->comm, &requests[1]));
        CHECK_OK(MPI_Ibarrier(p->comm, &requests[2]));
        exchange(p, p->comm);
        if (draw_own(p) % 2)
            CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        else
            while (!flag) CHECK_OK(MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE));
    }
    long long ranks = (long long) size * (size + 1) / 2;
    for (int i = 0; i < count; i++)
        if (!CHECK_EQ(out[i], i * ranks + size * (long long) (pattern % 1000))) break;
    CHECK(pattern_differs(bytes, count, pattern) < 0);
    free(in);
    free(out);
    free(bytes);
}

static void communicators(struct player *p)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, out = rank, in = -1, sum = -1, color = (int) (draw(p) % 3);
    MPI_Comm twin, part;
    MPI_Request requests[2];
    CHECK_OK(MPI_Comm_dup(p->comm, &twin));
    exchange(p, twin);
    CHECK_OK(MPI_Comm_split(twin, rank % 3 == color, -rank, &part));
    CHECK_OK(MPI_Irecv(&in, 1, MPI_INT, from, 5, twin, &requests[0]));
    CHECK_OK(MPI_Isend(&out, 1, MPI_INT, to, 5, twin, &requests[1]));
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK_OK(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, part));
    int members = 0;
    for (int r = 0; r < size; r++) members += (r % 3 == color) == (rank % 3 == color);
    CHECK_EQ(sum, members);
    CHECK_OK(MPI_Comm_free(&part));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(in, from);
}

/* Thread t sends to thread t + 1 of the next rank, on the one communicator of all threads; and
 * each thread waits for the request of a sibling, which has another thread's message. */
static void hand_over(struct player *p)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, next = (p->thread + 1) % THREADS;
    int before = (p->thread + THREADS - 1) % THREADS, other = (p->thread + 2) % THREADS;
    int bytes = length_of(drawn(9, p->round, before));
    struct message m = {rank, to, 10 + next, length_of(drawn(9, p->round, p->thread)), 100 * p->round + p->thread};
    struct place out, in = place_of(bytes, 1);
    MPI_Request sending;
    MPI_Status status;
    CHECK_OK(MPI_Irecv(in.memory, bytes, MPI_BYTE, from, 10 + p->thread, common, &handed[p->thread]));
    pthread_barrier_wait(&in_step);
    if (draw_own(p) % 4 == 0) pause_ms(2); /* siblings may sleep meanwhile */
    send(p, &m, &out, common, 1, &sending);
    CHECK_OK(MPI_Wait(&handed[other], &status));
    CHECK_STATUS(&status, from, 10 + other, length_of(drawn(9, p->round, next)));
    CHECK_OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
    pthread_barrier_wait(&in_step);
    CHECK(is_right(&in, bytes, 100 * p->round + before));
    free(in.memory);
    free(out.memory);
}

static void *play(void *argument)
{
    enum { IN_STEP = 16 };
    struct player *p = argument;
    for (p->round = 0; p->round < (unsigned) scaled(ROUNDS); p->round++) {
        int before = __atomic_load_n(&check_failures, __ATOMIC_RELAXED);
        p->draws = 0;
        if (p->round % IN_STEP == IN_STEP - 1) {
            enter(p, "hand over");
            hand_over(p);
        } else {
            switch (draw(p) % 8) {
            case 0: enter(p, "cancel"), cancel(p); break;
            case 1: enter(p, "to oneself"), to_oneself(p); break;
            case 2: enter(p, "collectives"), collectives(p); break;
            case 3: enter(p, "communicators"), communicators(p); break;
            default: enter(p, "exchange"), exchange(p, p->comm);
            }
        }
        if (__atomic_load_n(&check_failures, __ATOMIC_RELAXED) != before) printf("rank %d: seen by %s", rank, where[p->thread]);
    }
    enter(p, "the end");
    return NULL;
}

static void batch(unsigned seed)
{
    struct player players[THREADS];
    pthread_t threads[THREADS];
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &common));
    for (int t = 0; t < THREADS; t++) {
        players[t] = (struct player){.thread = t, .seed = drawn(seed, t, 1)};
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &players[t].comm));
    }
    for (int t = 0; t < THREADS; t++)
        if (!CHECK_EQ(pthread_create(&threads[t], NULL, play, &players[t]), 0)) exit(3);
    for (int t = 0; t < THREADS; t++) {
        CHECK_EQ(pthread_join(threads[t], NULL), 0);
        CHECK_OK(MPI_Comm_free(&players[t].comm));
    }
    CHECK_OK(MPI_Comm_free(&common));
}

int main(int argc, char **argv)
{
    int provided = -1, seconds = argc > 1 ? atoi(argv[1]) : 0, goes_on = 1;
    unsigned seed = argc > 2 ? (unsigned) atoi(argv[2]) : 1, batches = 0;
    check_watch();
    signal(SIGALRM, say_where);
    alarm(seconds + 60);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    double end = MPI_Wtime() + seconds;
    if (CHECK_EQ(provided, MPI_THREAD_MULTIPLE) && CHECK(size * MESSAGES <= MOST)) {
        CHECK_EQ(pthread_barrier_init(&in_step, NULL, THREADS), 0);
        while (goes_on) {
            batch(seed + batches++);
            goes_on = MPI_Wtime() < end && check_failures == 0;
            CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, &goes_on, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
        }
        if (rank == 0) printf("%u batches from seed %u\n", batches, seed);
    }
    return check_end();
}
