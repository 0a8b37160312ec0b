// ranks: 2 4
// transports: near
// every day: shm-denied shm-single-copy
// not over: usysv, because a message announced in a postbox needs its sender in the library
// not over: sysv, because a message announced in a postbox needs its sender in the library
/* A standard send of up to 256 KiB (shm_eager_limit_bytes) does not depend on its receiver: two
 * ranks that both send first end, and a send returns while its receiver computes until then,
 * from the first message on. */
#define _GNU_SOURCE
#include "counters.h"

enum { LONGEST = 256 * 1024, BLOCK = 16, CROSSINGS = 50, LIMIT_S = 10 };

static const int lengths[] = {8, 1024, 4096, 8 * 1024, 16 * 1024, 64 * 1024 - 1, 64 * 1024, 128 * 1024 + 8, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

enum { SEND, ISEND_AND_WAIT, SEND_ON_DUPLICATE, SEND_WITH_GAPS, WAYS };
static const char *const way_names[] = {"MPI_Send", "MPI_Isend and MPI_Wait", "MPI_Send, duplicate", "MPI_Send, vector"};

static MPI_Comm duplicate;
static unsigned char out[2 * LONGEST], in[LONGEST];
static int partner;

static void fill(int length, int way, unsigned seed)
{
    for (int i = 0; i < length; i++) out[way == SEND_WITH_GAPS ? i / BLOCK * 2 * BLOCK + i % BLOCK : i] = pattern_byte(seed, i);
}

static void send(int length, int way)
{
    MPI_Comm comm = way == SEND_ON_DUPLICATE ? duplicate : MPI_COMM_WORLD;
    MPI_Request request;
    MPI_Datatype vector;
    switch (way) {
    case ISEND_AND_WAIT:
        CHECK_OK(MPI_Isend(out, length, MPI_BYTE, partner, 1, comm, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case SEND_WITH_GAPS:
        MPI_Type_vector(length / BLOCK, BLOCK, 2 * BLOCK, MPI_BYTE, &vector);
        MPI_Type_commit(&vector);
        CHECK_OK(MPI_Send(out, 1, vector, partner, 1, comm));
        MPI_Type_free(&vector);
        break;
    default: CHECK_OK(MPI_Send(out, length, MPI_BYTE, partner, 1, comm));
    }
    memset(out, 0xee, sizeof out); /* the memory is the program's again */
}

static void receive(int length, int way, unsigned seed)
{
    MPI_Status status;
    CHECK_OK(MPI_Recv(in, LONGEST, MPI_BYTE, partner, 1, way == SEND_ON_DUPLICATE ? duplicate : MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, partner, 1, length);
    CHECK_EQ(pattern_differs(in, length, seed), -1);
}

/* A vector has whole blocks. */
static int length_of(int k, int way)
{
    return way == SEND_WITH_GAPS ? (lengths[k] + BLOCK - 1) / BLOCK * BLOCK : lengths[k];
}

/* One rank of each pair sends and the other computes until that has returned: counter `which`
 * has the number of returned sends. */
static void to_one_that_computes(int length, int way, int which, int sends)
{
    check_where("%s of %d bytes to a rank that computes", way_names[way], length);
    if (sends) {
        fill(length, way, (unsigned) (which + rank));
        send(length, way);
        counter_add(which);
    } else {
        compute_until(which, size / 2, LIMIT_S);
        receive(length, way, (unsigned) (which + partner));
    }
}

static void crossed(int length, int way)
{
    check_where("%s of %d bytes, crossed", way_names[way], length);
    for (int i = 0; i < scaled(CROSSINGS); i++) {
        fill(length, way, (unsigned) (i + rank));
        send(length, way);
        receive(length, way, (unsigned) (i + partner));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    counters_open();
    MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    partner = rank ^ 1;
    int which = 0;
    for (int k = LENGTHS - 1; k >= 0; k--)
        for (int way = 0; way < WAYS; way++) to_one_that_computes(length_of(k, way), way, which++, (rank + way) % 2);
    for (int k = 0; k < LENGTHS; k++)
        for (int way = 0; way < WAYS; way++) crossed(length_of(k, way), way);
    /* Now the ranks have connected, and long messages have been sent. */
    for (int k = 0; k < LENGTHS; k += 3)
        for (int way = 0; way < WAYS; way++) to_one_that_computes(length_of(k, way), way, which++, (rank + way + 1) % 2);
    CHECK(which <= COUNTERS);
    MPI_Comm_free(&duplicate);
    return check_end();
}
