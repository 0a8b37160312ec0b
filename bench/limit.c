/* The limit of two processes of this machine without MPI, for comparison with the figures of p2p.c.
 *
 *     limit [-t MS] [-s BYTES,BYTES...] [-a SECONDS] [TEST]
 *
 * TEST: latency, bandwidth, bidirectional or rate; by default all.
 *
 * by=line: ping-pong of two cache lines, one for each direction.
 *
 * by=copy: through a ring of cells in shared memory. The writer copies into a cell and sets its
 * flag, the reader copies out. A message longer than a cell takes several cells, so both copy at
 * the same time. A message of up to 56 bytes is in the cache line of the flag. The length of a cell
 * is the best of three.
 *
 * by=pull: the receiver reads the sender's memory with process_vm_readv; in the ping-pong a line
 * gives the signal.
 *
 * Windows and buffers are those of p2p.c, with one answer at the end of a window. Two processes,
 * bound to the first two cores. Lines: figures.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "figures.h"
#include "line.h"

#define LINE 64
#define INLINE 56 /* bytes beside the flag in its line */
#define RING_BYTES ((size_t)512 << 10)
#define MOST_CELLS 256 /* a ring of short messages fits the first-level cache */
#define LONGEST_CELL ((size_t)64 << 10)

struct ring {
    _Alignas(128) _Atomic uint64_t taken; /* cells that the reader has emptied; published at intervals */
    _Alignas(128) char cells[RING_BYTES];
};

struct cell {
    _Atomic uint64_t flag;
    char in_line[INLINE];
    char data[];
};

enum kind { DISTANCE, LINES, PING_PONG, ONE_WAY, BOTH_WAYS, IN_TURNS, PULL_PING_PONG, PULL_ONE_WAY, PULL_BOTH_WAYS, STOP };

struct job {
    enum kind kind;
    size_t bytes, cell; /* of a message, and of data in a cell */
    long repeats;
};

static struct {
    _Alignas(128) _Atomic uint64_t ordered; /* jobs */
    struct job job;
    _Alignas(128) _Atomic uint64_t done;
    struct lines lines;
    struct ring ring_there, ring_back;
} *shared;

/* One process's end of a ring. */
struct end {
    struct ring *ring;
    size_t at, cells, stride; /* the next cell, the number of cells, bytes from one to the next */
    uint64_t lap, position, taken;
};

static struct end sending, receiving;
static char *out, *in; /* private, at the same addresses in both processes */
static pid_t other;
static int can_pull; /* whether process_vm_readv is permitted */
static double point_seconds = 30e-3;
static double distance_seconds; /* the result of a job of kind DISTANCE */

static void open_end(struct end *end, struct ring *ring, size_t cell)
{
    size_t stride = LINE + (cell <= INLINE ? 0 : (cell + LINE - 1) / LINE * LINE);
    size_t cells = RING_BYTES / stride;
    *end = (struct end){.ring = ring, .cells = cells > MOST_CELLS ? MOST_CELLS : cells, .stride = stride, .lap = 1};
}

static struct cell *cell_of(struct end *end)
{
    return (struct cell *)(end->ring->cells + end->at * end->stride);
}

static void next_cell(struct end *end)
{
    end->position++;
    if (++end->at == end->cells) {
        end->at = 0;
        end->lap++;
    }
}

static void write_cell(struct end *end, const char *from, size_t bytes)
{
    struct cell *cell = cell_of(end);
    while (end->position - end->taken >= end->cells) {
        end->taken = atomic_load_explicit(&end->ring->taken, memory_order_acquire);
        relax();
    }
    memcpy(bytes <= INLINE ? cell->in_line : cell->data, from, bytes);
    set(&cell->flag, end->lap);
    next_cell(end);
}

static void read_cell(struct end *end, char *to, size_t bytes)
{
    struct cell *cell = cell_of(end);
    await(&cell->flag, end->lap);
    memcpy(to, bytes <= INLINE ? cell->in_line : cell->data, bytes);
    next_cell(end);
    if (end->position - end->taken >= (end->cells + 3) / 4) {
        end->taken = end->position;
        set(&end->ring->taken, end->position);
    }
}

static size_t part_of(const struct job *job, size_t from)
{
    return job->bytes - from < job->cell ? job->bytes - from : job->cell;
}

static void send_message(const struct job *job, const char *from)
{
    size_t at = 0;
    do
        write_cell(&sending, from + at, part_of(job, at));
    while ((at += job->cell) < job->bytes);
}

static void receive_message(const struct job *job, char *to)
{
    size_t at = 0;
    do
        read_cell(&receiving, to + at, part_of(job, at));
    while ((at += job->cell) < job->bytes);
}

/* A window in both directions at once. The writer is half a ring ahead of the reader, so that
 * neither side waits for room while the other one does. */
static void exchange(const struct job *job, size_t window)
{
    size_t written_to = 0, read_to = 0, written = 0, read = 0, all = window * job->bytes;
    while (read_to < all) {
        while (written_to < all && written - read <= sending.cells / 2) {
            size_t part = part_of(job, written_to % job->bytes);
            write_cell(&sending, out + written_to, part);
            written_to += part;
            written++;
        }
        size_t part = part_of(job, read_to % job->bytes);
        read_cell(&receiving, in + read_to, part);
        read_to += part;
        read++;
    }
}

static void pull(char *to, char *from, size_t bytes)
{
    struct iovec local = {to, bytes}, remote = {from, bytes};
    if (process_vm_readv(other, &local, 1, &remote, 1, 0) != (ssize_t)bytes) {
        fprintf(stderr, "limit: cannot read the other process: %s\n", strerror(errno));
        _exit(1);
    }
}

static void work(const struct job *job, int first)
{
    uint64_t turn;
    size_t window = job->bytes ? window_of(job->bytes) : 1;
    for (long i = 0; i < job->repeats; i++)
        switch (job->kind) {
        case DISTANCE:
            distance_seconds = line_seconds(&shared->lines, first);
            break;
        case LINES:
            line_trip(&shared->lines, first);
            break;
        case PING_PONG:
            if (first)
                send_message(job, out);
            receive_message(job, in);
            if (!first)
                send_message(job, out);
            break;
        case ONE_WAY:
            for (size_t k = 0; k < window; k++)
                if (first)
                    send_message(job, out + k * job->bytes);
                else
                    receive_message(job, in + k * job->bytes);
            if (first)
                read_cell(&receiving, in, 1);
            else
                write_cell(&sending, out, 1);
            break;
        case BOTH_WAYS:
            exchange(job, window);
            break;
        case IN_TURNS:
            for (size_t k = 0; k < 2 * window; k++)
                if (first == (k < window))
                    send_message(job, out + k % window * job->bytes);
                else
                    receive_message(job, in + k % window * job->bytes);
            break;
        case PULL_PING_PONG:
            turn = next_turn();
            if (first)
                set(&shared->lines.there, turn);
            await(first ? &shared->lines.back : &shared->lines.there, turn);
            pull(in, out, job->bytes);
            if (!first)
                set(&shared->lines.back, turn);
            break;
        case PULL_ONE_WAY:
            for (size_t k = 0; first && k < window; k++)
                pull(in + k * job->bytes, out + k * job->bytes, job->bytes);
            break;
        case PULL_BOTH_WAYS:
            for (size_t k = 0; k < window; k++)
                pull(in + k * job->bytes, out + k * job->bytes, job->bytes);
            break;
        case STOP:
            _exit(0);
        }
}

static void start_job(const struct job *job, int first)
{
    open_end(&sending, first ? &shared->ring_there : &shared->ring_back, job->cell);
    open_end(&receiving, first ? &shared->ring_back : &shared->ring_there, job->cell);
    if (job->kind == STOP)
        _exit(0);
}

/* The second process runs the jobs that the first one orders. */
static void serve(void)
{
    for (uint64_t orders = 1;; orders++) {
        await(&shared->ordered, orders);
        struct job job = shared->job;
        start_job(&job, 0);
        work(&job, 0);
        set(&shared->done, orders);
    }
}

static void order(const struct job *job)
{
    static uint64_t orders;
    /* The other process is idle, and no ring is in use. */
    if (orders > 0)
        await(&shared->done, orders);
    memset(&shared->ring_there, 0, sizeof shared->ring_there);
    memset(&shared->ring_back, 0, sizeof shared->ring_back);
    shared->job = *job;
    set(&shared->ordered, ++orders);
}

static double batch(const struct job *job)
{
    order(job);
    if (job->kind == STOP)
        return 0;
    start_job(job, 1);
    double begin = now();
    work(job, 1);
    if (job->kind == PULL_BOTH_WAYS || job->kind == BOTH_WAYS)
        await(&shared->done, atomic_load(&shared->ordered));
    return now() - begin;
}

static int measure(struct job job, double *seconds)
{
    double took;
    batch(&job);
    for (;;) {
        double begin = now();
        double inside = batch(&job);
        took = now() - begin;
        if (inside >= BATCH_SECONDS || job.repeats >= MOST_REPEATS)
            break;
        job.repeats *= 2;
    }
    int batches = how_many_batches(point_seconds, took);
    for (int i = 0; i < batches; i++)
        seconds[i] = batch(&job) / (double)job.repeats;
    return batches;
}

static double distance(void)
{
    batch(&(struct job){DISTANCE, 0, LINE, 1});
    return distance_seconds;
}

static void by_line(const struct measure *what)
{
    static double seconds[MOST_BATCHES];
    double lines[2] = {distance()};
    int batches = measure((struct job){LINES, 0, LINE, 1}, seconds);
    lines[1] = distance();
    print_point(what, 2, "line", lines, seconds, batches);
}

static void by_pull(enum kind kind, const struct measure *what)
{
    static double seconds[MOST_BATCHES];
    if (!can_pull || what->bytes < 1024) /* a system call is slower below */
        return;
    double lines[2] = {distance()};
    int batches = measure((struct job){kind, what->bytes, LINE, 1}, seconds);
    lines[1] = distance();
    print_point(what, 2, "pull", lines, seconds, batches);
}

/* Through the ring, with the cell length that has the best median. */
static void by_copy(enum kind kind, const struct measure *what)
{
    static double seconds[MOST_BATCHES], best[MOST_BATCHES];
    double lines[2] = {distance()};
    int best_batches = 0;
    for (size_t cell = 4096; cell <= LONGEST_CELL; cell *= 4) {
        size_t one = what->bytes < cell ? what->bytes : cell;
        int batches = measure((struct job){kind, what->bytes, one ? one : 1, 1}, seconds);
        qsort(seconds, (size_t)batches, sizeof *seconds, ascending);
        if (best_batches == 0 || seconds[batches / 2] < best[best_batches / 2]) {
            memcpy(best, seconds, sizeof best);
            best_batches = batches;
        }
        if (what->bytes <= cell)
            break; /* a longer cell changes nothing */
    }
    lines[1] = distance();
    print_point(what, 2, "copy", lines, best, best_batches);
}

/* The limits of p2p.c's tests at one size. */

static void latency(size_t bytes)
{
    struct measure what = {"latency", "us", bytes, 2, 0};
    if (bytes <= 8)
        by_line(&what);
    by_copy(PING_PONG, &what);
    by_pull(PULL_PING_PONG, &what);
}

static void bandwidth(size_t bytes)
{
    if (bytes == 0)
        return;
    struct measure what = {"bandwidth", "MB/s", bytes, 0, (double)bytes * (double)window_of(bytes)};
    by_copy(ONE_WAY, &what);
    by_pull(PULL_ONE_WAY, &what);
}

static void bidirectional(size_t bytes)
{
    if (bytes == 0)
        return;
    struct measure what = {"bidirectional", "MB/s", bytes, 0, 2 * (double)bytes * (double)window_of(bytes)};
    /* Two writers slow down each other's reads: short messages are faster in one direction after
     * the other. */
    by_copy(bytes <= 1024 ? IN_TURNS : BOTH_WAYS, &what);
    by_pull(PULL_BOTH_WAYS, &what);
}

static void rate(void)
{
    by_copy(ONE_WAY, &(struct measure){"rate", "M/s", 8, 0, WINDOW});
}

static int usage(void)
{
    fprintf(stderr, "usage: limit [-t MS] [-s BYTES,...] [-a SECONDS] [latency|bandwidth|bidirectional|rate]\n");
    return 2;
}

int main(int argc, char **argv)
{
    size_t sizes[64];
    int count = 0;
    unsigned end_after = 120;
    for (int option; (option = getopt(argc, argv, "t:s:a:")) != -1;)
        switch (option) {
        case 't': point_seconds = atof(optarg) * 1e-3; break;
        case 's':
            if ((count = read_sizes(optarg, sizes, 64)) < 0)
                return usage();
            break;
        case 'a': end_after = (unsigned)atoi(optarg); break;
        default: return usage();
        }
    if (optind + 1 < argc)
        return usage();
    const char *test = optind < argc ? argv[optind] : "";
    int all = !*test, has_latency = all || !strcmp(test, "latency"), has_bandwidth = all || !strcmp(test, "bandwidth");
    int has_bidirectional = all || !strcmp(test, "bidirectional"), has_rate = all || !strcmp(test, "rate");
    if (!has_latency && !has_bandwidth && !has_bidirectional && !has_rate)
        return usage();
    if (count == 0)
        count = all_sizes(sizes);
    alarm(end_after);

    out = aligned_alloc(4096, WINDOW_BYTES);
    in = aligned_alloc(4096, WINDOW_BYTES);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!out || !in || shared == MAP_FAILED) {
        fprintf(stderr, "limit: no memory\n");
        return 1;
    }
    other = getpid();
    pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "limit: cannot fork: %s\n", strerror(errno));
        return 1;
    }
    int first = child != 0;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* if Yama restricts process_vm_readv */
    if (!first)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A waiting parent has no core of its own here: the figures would be those of the scheduler. */
    if (pin(first ? 0 : 1) < 2) {
        if (first)
            fprintf(stderr, "limit: there is one core only, so no limit\n");
        return 0;
    }
    memset(out, 1, WINDOW_BYTES); /* after the fork, so that the pages are private */
    memset(in, 2, WINDOW_BYTES);
    if (!first)
        serve();
    other = child;

    char probe;
    struct iovec local = {&probe, 1}, remote = {out, 1};
    can_pull = process_vm_readv(other, &local, 1, &remote, 1, 0) == 1;
    if (!can_pull)
        fprintf(stderr, "limit: without by=pull: %s\n", strerror(errno));
    for (int i = 0; has_latency && i < count; i++)
        latency(sizes[i]);
    for (int i = 0; has_bandwidth && i < count; i++)
        bandwidth(sizes[i]);
    for (int i = 0; has_bidirectional && i < count; i++)
        bidirectional(sizes[i]);
    if (has_rate)
        rate();
    batch(&(struct job){.kind = STOP});
    waitpid(child, NULL, 0);
    return 0;
}
