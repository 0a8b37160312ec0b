/* Point-to-point figures and collectives of any MPI library: compile it with the mpicc of that
 * library.
 *
 *     p2p [-p] [-t MS] [-s BYTES,BYTES...] [-o BYTES] [-a SECONDS] [-m FILE] TEST
 *
 *     latency        ping-pong, half a round trip
 *     bandwidth      a window of messages, each from and to its own buffer; then one byte back
 *     bidirectional  a window in each direction at once; the bytes of both count
 *     rate           messages a second in windows of 8-byte messages
 *     strided        ping-pong of an MPI_Type_vector: blocks of 8 and of 512 bytes, gaps as long
 *     collectives    each collective, see collectives.h; by default 8 B, 1 KiB, 64 KiB and 1 MiB
 *     memory         proportional set size per rank after MPI_Init, and after messages between all
 *                    ranks (needs -m)
 *     memory-init    the first of these only
 *     nothing        MPI_Init and MPI_Finalize, to be timed from outside
 *     check          whether data arrive whole
 *     version        the name of the library
 *
 *     -p  bind rank r to the r-th core     -t  time of a point, 30 ms
 *     -s  sizes, else 0 and the powers of two
 *     -a  end after this time, 120 s       -m  an empty file, in which the ranks meet outside MPI
 *     -o  the offset of buffers in their page; malloc gives 16
 *
 * Rank r exchanges messages with rank r + n/2, all pairs at once. The time of a batch is that of
 * its slowest rank. Lines: figures.h. */
#define _GNU_SOURCE
#include "ranks.h"

enum { DATA_TAG = 1, ACK_TAG = 2 };

static size_t behind_page; /* the offset of buffers */

static char *out, *in; /* send and receive buffers */

static MPI_Datatype item = MPI_DATATYPE_NULL;
static int item_count;
static size_t item_bytes; /* from one message of a window to the next */
static int window;

static void ping_pong(long repeats)
{
    if (partner == MPI_PROC_NULL)
        return;
    for (long i = 0; i < repeats; i++) {
        if (is_first)
            MPI_Send(out, item_count, item, partner, DATA_TAG, WORLD);
        MPI_Recv(in, item_count, item, partner, DATA_TAG, WORLD, IGNORE);
        if (!is_first)
            MPI_Send(out, item_count, item, partner, DATA_TAG, WORLD);
    }
}

static void start_sends(MPI_Request *requests)
{
    for (int k = 0; k < window; k++)
        MPI_Isend(out + (size_t)k * item_bytes, item_count, item, partner, DATA_TAG, WORLD, &requests[k]);
}

static void start_receives(MPI_Request *requests)
{
    for (int k = 0; k < window; k++)
        MPI_Irecv(in + (size_t)k * item_bytes, item_count, item, partner, DATA_TAG, WORLD, &requests[k]);
}

static void one_way(long repeats)
{
    MPI_Request requests[WINDOW];
    char ack = 0;
    if (partner == MPI_PROC_NULL)
        return;
    for (long i = 0; i < repeats; i++) {
        if (is_first) {
            start_sends(requests);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Recv(&ack, 1, MPI_BYTE, partner, ACK_TAG, WORLD, IGNORE);
        } else {
            start_receives(requests);
            MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
            MPI_Send(&ack, 1, MPI_BYTE, partner, ACK_TAG, WORLD);
        }
    }
}

static void both_ways(long repeats)
{
    MPI_Request requests[2 * WINDOW];
    char mine = 0, theirs;
    if (partner == MPI_PROC_NULL)
        return;
    for (long i = 0; i < repeats; i++) {
        start_receives(requests);
        start_sends(requests + window);
        MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
        MPI_Sendrecv(&mine, 1, MPI_BYTE, partner, ACK_TAG, &theirs, 1, MPI_BYTE, partner, ACK_TAG, WORLD, IGNORE);
    }
}

/* ---- the tests ---- */

static void of_bytes(size_t bytes)
{
    item = MPI_BYTE;
    item_count = (int)bytes;
    item_bytes = bytes;
    window = (int)window_of(bytes);
}

static void latency(size_t bytes)
{
    of_bytes(bytes);
    measure(ping_pong, &(struct measure){"latency", "us", bytes, 2, 0});
}

static void bandwidth(size_t bytes)
{
    of_bytes(bytes);
    if (bytes > 0)
        measure(one_way, &(struct measure){"bandwidth", "MB/s", bytes, 0, (double)bytes * window * (ranks / 2)});
}

static void bidirectional(size_t bytes)
{
    of_bytes(bytes);
    if (bytes > 0)
        measure(both_ways, &(struct measure){"bidirectional", "MB/s", bytes, 0, 2.0 * (double)bytes * window * (ranks / 2)});
}

static void rate(void)
{
    of_bytes(8);
    measure(one_way, &(struct measure){"rate", "M/s", 8, 0, (double)window * (ranks / 2)});
}

/* A vector of `bytes` bytes of data in blocks of `block`, with gaps of the same length. */
static MPI_Datatype vector_of(size_t bytes, size_t block)
{
    MPI_Datatype vector;
    int doubles = (int)(block / sizeof(double));
    MPI_Type_vector((int)(bytes / block), doubles, 2 * doubles, MPI_DOUBLE, &vector);
    MPI_Type_commit(&vector);
    return vector;
}

static void strided(size_t bytes, size_t block, const char *name)
{
    if (bytes == 0 || bytes % block != 0)
        return;
    item = vector_of(bytes, block);
    item_count = 1;
    measure(ping_pong, &(struct measure){name, "us", bytes, 2, 0});
    MPI_Type_free(&item);
}

enum { MOST_BLOCK = 1 << 20 }; /* of a rank's block in collectives */
#include "collectives.h"

/* ---- memory ---- */

/* The ranks meet at a counter in a file: a barrier of the library under test would take memory,
 * and a rank that reads its figure before the others have arrived shares its pages with fewer. */
static _Atomic int *meeting;

static void open_meeting(const char *path)
{
    int file = open(path, O_RDWR);
    void *page = file < 0 || ftruncate(file, 4096) ? MAP_FAILED
                                                   : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        fprintf(stderr, "p2p: cannot map the file of -m, '%s'\n", path);
        MPI_Abort(WORLD, 1);
    }
    close(file);
    meeting = page;
}

static void meet(void)
{
    static int meetings;
    meetings++;
    atomic_fetch_add(meeting, 1);
    while (atomic_load(meeting) < meetings * ranks)
        usleep(1000);
}

/* This rank's proportional set size in MiB: each process has its share of a common page. */
static double proportional_set_size(void)
{
    char line[256];
    double kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "Pss: %lf", &kib);
    if (file)
        fclose(file);
    if (kib < 0) {
        fprintf(stderr, "p2p: cannot read /proc/self/smaps_rollup\n");
        MPI_Abort(WORLD, 1);
    }
    return kib / 1024;
}

/* All ranks read at the same time, and none goes on before. */
static double read_together(void)
{
    meet();
    double size = proportional_set_size();
    meet();
    return size;
}

static void print_memory(const char *test, double mine)
{
    double sum, least, most;
    MPI_Reduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, WORLD);
    MPI_Reduce(&mine, &least, 1, MPI_DOUBLE, MPI_MIN, 0, WORLD);
    MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, WORLD);
    if (rank == 0)
        printf("point test=%s ranks=%d bytes=0 unit=MiB median=%.6g least=%.6g most=%.6g\n", test, ranks, sum / ranks,
               least, most);
}

static void memory(int and_after_talk)
{
    double after_init = read_together(), after_talk = 0;
    if (and_after_talk) {
        for (int distance = 1; distance < ranks; distance++)
            for (int bytes = 8; bytes <= 65536; bytes *= 8192)
                for (int i = 0; i < 4; i++)
                    MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + distance) % ranks, DATA_TAG, in, bytes, MPI_BYTE,
                                 (rank + ranks - distance) % ranks, DATA_TAG, WORLD, IGNORE);
        after_talk = read_together();
    }
    print_memory("memory-init", after_init);
    if (and_after_talk)
        print_memory("memory-talk", after_talk);
}

/* ---- check ---- */

static char expected(size_t at, int sender)
{
    return (char)(at * 31 + at / 256 + (size_t)sender * 7);
}

/* Exchanges one message with the partner. True if every byte has arrived and every gap is
 * unchanged. */
static int arrives_whole(MPI_Datatype type, int count, size_t span, size_t block, size_t gap)
{
    const char untouched = 0x55;
    for (size_t at = 0; at < span; at++)
        out[at] = expected(at, rank);
    memset(in, untouched, span);
    MPI_Sendrecv(out, count, type, partner, DATA_TAG, in, count, type, partner, DATA_TAG, WORLD, IGNORE);
    for (size_t at = 0; at < span; at++)
        if (in[at] != (at % (block + gap) < block ? expected(at, partner) : untouched))
            return 0;
    return 1;
}

static int check(const size_t *sizes, int count)
{
    int wrong = 0, anywhere;
    for (int i = 0; i < count && partner != MPI_PROC_NULL; i++) {
        size_t bytes = sizes[i];
        int whole = arrives_whole(MPI_BYTE, (int)bytes, bytes, 1, 0);
        for (size_t block = 8; block <= 512; block *= 64)
            if (bytes > 0 && bytes % block == 0) {
                MPI_Datatype vector = vector_of(bytes, block);
                whole &= arrives_whole(vector, 1, 2 * bytes, block, block);
                MPI_Type_free(&vector);
            }
        if (!whole)
            fprintf(stderr, "p2p: a message of %zu bytes to rank %d does not arrive whole\n", bytes, rank);
        wrong |= !whole;
    }
    MPI_Allreduce(&wrong, &anywhere, 1, MPI_INT, MPI_MAX, WORLD);
    if (rank == 0 && !anywhere)
        printf("whole\n");
    return anywhere;
}

static int usage(void)
{
    fprintf(stderr, "usage: p2p [-p] [-t MS] [-s BYTES,...] [-o BYTES] [-a SECONDS] [-m FILE] latency|bandwidth|bidirectional|rate|"
                    "strided|collectives|memory|memory-init|nothing|check|version\n");
    return 2;
}

int main(int argc, char **argv)
{
    size_t sizes[64], strided_sizes[] = {64, 512, 4096, 16384, 65536, 262144, 1048576};
    size_t collective_sizes[] = {8, 1024, 65536, 1048576};
    int count = 0, given = 0, pinned = 0, status = 0;
    unsigned end_after = 120;
    const char *meeting_file = NULL;
    for (int option; (option = getopt(argc, argv, "pt:s:o:a:m:")) != -1;)
        switch (option) {
        case 'p': pinned = 1; break;
        case 't': point_seconds = atof(optarg) * 1e-3; break;
        case 's': count = given = read_sizes(optarg, sizes, 64); break;
        case 'o': behind_page = (size_t)atoi(optarg) % 4096; break;
        case 'a': end_after = (unsigned)atoi(optarg); break;
        case 'm': meeting_file = optarg; break;
        default: return usage();
        }
    if (optind + 1 != argc || given < 0)
        return usage();
    const char *test = argv[optind];
    alarm(end_after); /* also if the launcher hangs */

    MPI_Init(&argc, &argv);
    if (!strcmp(test, "nothing")) {
        MPI_Finalize();
        return 0;
    }
    begin_ranks(pinned);
    if (meeting_file)
        open_meeting(meeting_file);
    if (!given)
        count = all_sizes(sizes);

    size_t room = 2 * MOST_BYTES; /* for a strided message */
    if (!strcmp(test, "bandwidth") || !strcmp(test, "bidirectional"))
        room = WINDOW_BYTES;
    else if (!strcmp(test, "collectives"))
        room = (size_t)ranks * MOST_BLOCK;
    else if (!strncmp(test, "memory", 6))
        room = 65536; /* small beside the memory of the library */
    out = aligned_alloc(4096, room + 4096);
    in = aligned_alloc(4096, room + 4096);
    if (!out || !in) {
        fprintf(stderr, "p2p: no memory for two buffers of %zu bytes\n", room);
        MPI_Abort(WORLD, 1);
    }
    out += behind_page;
    in += behind_page;
    memset(out, 1, room);
    memset(in, 2, room);

    if (!strcmp(test, "latency"))
        for (int i = 0; i < count; i++)
            latency(sizes[i]);
    else if (!strcmp(test, "bandwidth"))
        for (int i = 0; i < count; i++)
            bandwidth(sizes[i]);
    else if (!strcmp(test, "bidirectional"))
        for (int i = 0; i < count; i++)
            bidirectional(sizes[i]);
    else if (!strcmp(test, "rate"))
        rate();
    else if (!strcmp(test, "strided"))
        for (size_t block = 8; block <= 512; block *= 64)
            for (int i = 0; i < (given ? count : 7); i++)
                strided(given ? sizes[i] : strided_sizes[i], block, block == 8 ? "strided-8" : "strided-512");
    else if (!strcmp(test, "collectives"))
        collectives(given ? sizes : collective_sizes, given ? count : 4);
    else if (!strncmp(test, "memory", 6) && meeting)
        memory(!strcmp(test, "memory"));
    else if (!strcmp(test, "check"))
        status = check(sizes, count);
    else if (!strcmp(test, "version"))
        version();
    else
        status = usage();
    MPI_Finalize();
    free(out - behind_page);
    free(in - behind_page);
    return status;
}
