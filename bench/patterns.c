/* Patterns of programs beyond a ping-pong on MPI_COMM_WORLD, for any MPI library: compile it with
 * the mpicc of that library.
 *
 *     patterns [-p] [-t MS] [-s BYTES,BYTES...] [-a SECONDS] [-M] [-D] TEST
 *
 *     p2p       point-to-point patterns: patterns/p2p.h
 *     coll      collectives: patterns/coll.h
 *     objects   communicators and datatypes: patterns/objects.h
 *     rma       one-sided accesses: patterns/rma.h
 *     p2p/halo  one pattern by its name, and so for all others
 *     check     every pattern once: whether data arrive whole
 *     version   the name of the library
 *
 *     -p  bind rank r to the r-th core     -t  time of a point, 30 ms
 *     -s  only these of each pattern's sizes
 *     -a  end after this time, 120 s       -M  with MPI_THREAD_MULTIPLE
 *     -D  without process_vm_readv and process_vm_writev, as in many containers
 *
 * The number of ranks is even: rank r has the partner r + n/2. The data of each point are
 * checked once, after the measurement; wrong data are a failure. Lines: figures.h. */
#define _GNU_SOURCE
#include "patterns/deny.h"
#include "ranks.h"

struct pattern {
    const char *name;
    size_t sizes[6]; /* until 0; only 0: the pattern has no size */
    double parts;    /* of the time of one repeat */
    void (*begin)(size_t bytes);
    work *repeat;
    int (*is_right)(void); /* after one repeat, before which `in` is cleared */
    void (*end)(void);     /* may be NULL */
};

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
/* A message with gaps takes twice its bytes. */
#define LEAST_ROOM (4 * MIB)

/* Messages leave from `out`, whose contents are constant, and arrive in `in`. */
static char *out, *in;
static size_t room; /* bytes of each buffer */
static size_t length;  /* bytes of a message of the current point */
static MPI_Win window = MPI_WIN_NULL; /* of `in`, in patterns of one-sided accesses */

static char content(size_t at, int sender)
{
    return (char)(at * 31 + at / 256 * 3 + (size_t)sender * 7 + 1);
}

/* Whether `to` has `bytes` bytes of `sender`'s `out` from `from` on. */
static int are_from(const char *to, int sender, size_t from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at++)
        if (to[at] != content(from + at, sender))
            return 0;
    return 1;
}

static int is_from_partner(void)
{
    return are_from(in, partner, 0, length);
}

static void set_length(size_t bytes)
{
    length = bytes;
}

/* In this order: collectives have vectors as well. */
#include "patterns/p2p.h"

#include "patterns/coll.h"
#include "patterns/objects.h"
#include "patterns/rma.h"

static const struct {
    const struct pattern *patterns;
    size_t count;
} kinds[] = {
    {p2p_patterns, sizeof p2p_patterns / sizeof *p2p_patterns},
    {coll_patterns, sizeof coll_patterns / sizeof *coll_patterns},
    {rma_patterns, sizeof rma_patterns / sizeof *rma_patterns},
    {object_patterns, sizeof object_patterns / sizeof *object_patterns},
};

/* Earlier accesses to a window are visible afterwards on every rank. */
static void settle(void)
{
    if (window != MPI_WIN_NULL)
        MPI_Win_sync(window);
    MPI_Barrier(WORLD);
    if (window != MPI_WIN_NULL)
        MPI_Win_sync(window);
}

/* Repeats the pattern once. True if the data are right on every rank. */
static int arrives_whole(const struct pattern *pattern)
{
    settle(); /* another rank may still access this memory */
    memset(in, 0, room);
    settle();
    pattern->repeat(1);
    settle();
    int mine = pattern->is_right(), all;
    if (!mine)
        fprintf(stderr, "patterns: %s of %zu bytes: rank %d has not what it should have\n", pattern->name, length, rank);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, WORLD);
    return all;
}

static int point(const struct pattern *pattern, size_t bytes, int measured)
{
    pattern->begin(bytes);
    if (measured)
        measure(pattern->repeat, &(struct measure){pattern->name, "us", bytes, pattern->parts, 0});
    int whole = arrives_whole(pattern);
    if (pattern->end)
        pattern->end();
    return whole;
}

static int is_among(size_t bytes, const size_t *sizes, int count)
{
    for (int i = 0; i < count; i++)
        if (sizes[i] == bytes)
            return 1;
    return 0;
}

/* All points of a pattern with one of the `count` sizes, or with any size if `count` is 0. True
 * if their data are right. */
static int points(const struct pattern *pattern, const size_t *sizes, int count, int measured)
{
    int whole = 1, i = 0;
    do {
        if (count == 0 || is_among(pattern->sizes[i], sizes, count))
            whole &= point(pattern, pattern->sizes[i], measured);
    } while (pattern->sizes[i] != 0 && pattern->sizes[++i] != 0);
    return whole;
}

static int is_asked_for(const struct pattern *pattern, const char *test)
{
    size_t length_of_test = strlen(test);
    return !strcmp(pattern->name, test)
           || (!strncmp(pattern->name, test, length_of_test) && pattern->name[length_of_test] == '/');
}

/* Runs the patterns that `test` selects. Returns their number, or -1 for wrong data. */
static int run(const char *test, const size_t *sizes, int count)
{
    int only_check = !strcmp(test, "check"), found = 0, whole = 1;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (size_t i = 0; i < kinds[kind].count; i++) {
            const struct pattern *pattern = &kinds[kind].patterns[i];
            if (only_check || is_asked_for(pattern, test)) {
                found++;
                whole &= points(pattern, sizes, count, !only_check);
            }
        }
    return whole ? found : -1;
}

static void make_buffers(void)
{
    room = LEAST_ROOM;
    if (room < (size_t)ranks * 64 * KIB)
        room = (size_t)ranks * 64 * KIB;
    out = aligned_alloc(4096, room);
    in = aligned_alloc(4096, room);
    if (!out || !in) {
        fprintf(stderr, "patterns: no memory for two buffers of %zu bytes\n", room);
        MPI_Abort(WORLD, 1);
    }
    for (size_t at = 0; at < room; at++)
        out[at] = content(at, rank);
    memset(in, 0, room);
}

static int usage(void)
{
    fprintf(stderr, "usage: patterns [-p] [-t MS] [-s BYTES,...] [-a SECONDS] [-M] [-D] p2p|coll|rma|objects|NAME|check|version\n");
    return 2;
}

int main(int argc, char **argv)
{
    size_t sizes[64];
    int count = 0, pinned = 0, wanted = MPI_THREAD_SINGLE, provided, denied = 0, status = 0;
    unsigned end_after = 120;
    for (int option; (option = getopt(argc, argv, "pt:s:a:MD")) != -1;)
        switch (option) {
        case 'p': pinned = 1; break;
        case 't': point_seconds = atof(optarg) * 1e-3; break;
        case 's': count = read_sizes(optarg, sizes, 64); break;
        case 'a': end_after = (unsigned)atoi(optarg); break;
        case 'M': wanted = MPI_THREAD_MULTIPLE; break;
        case 'D': denied = 1; break;
        default: return usage();
        }
    if (optind + 1 != argc || count < 0)
        return usage();
    const char *test = argv[optind];
    alarm(end_after); /* also if the launcher hangs */
    if (denied && deny_single_copy()) {
        perror("patterns: cannot deny process_vm_readv");
        return 1;
    }

    MPI_Init_thread(&argc, &argv, wanted, &provided);
    begin_ranks(pinned);
    if (provided < wanted) {
        fprintf(stderr, "patterns: this library gives no MPI_THREAD_MULTIPLE\n");
        MPI_Abort(WORLD, 1);
    }
    if (!strcmp(test, "version"))
        version();
    else if (ranks % 2 != 0) {
        if (rank == 0)
            fprintf(stderr, "patterns: the number of ranks is to be even\n");
        status = 2;
    } else {
        make_buffers();
        int found = run(test, sizes, count);
        if (found == 0)
            status = rank == 0 ? usage() : 2;
        else if (found < 0)
            status = 1;
        else if (rank == 0 && !strcmp(test, "check"))
            printf("whole\n");
        free(out);
        free(in);
    }
    MPI_Finalize();
    return status;
}
