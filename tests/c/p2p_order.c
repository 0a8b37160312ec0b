// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy usysv sysv tcp-encrypted lamd ofi
/* Messages of one tag between one pair match in the order sent, with each protocol; tags may be
 * received in any order. */
#include "check.h"

enum { MESSAGES = 240, WINDOW = 16, LARGEST = 300000 };

/* The length of message i from one rank to another: mostly short, some around the usual limits,
 * some long. */
static int length_of(int from, int to, int i)
{
    unsigned x = drawn(from, to, i);
    switch (x % 8) {
    case 0: return 0;
    case 1: case 2: return x / 8 % 64;
    case 3: return x / 8 % 3000;
    case 4: return 16384 - 4 + x / 8 % 8;
    case 5: return x / 8 % 20000;
    case 6: return x / 8 % 200;
    default: return x / 8 % (LARGEST + 1);
    }
}

static unsigned seed_of(int from, int to, int i) { return (unsigned) (from * 7919 + to * 104729 + i); }

static void same_tag(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int messages = scaled(MESSAGES);
    unsigned char *outs = allocate((size_t) WINDOW * LARGEST), *ins = allocate((size_t) WINDOW * LARGEST);
    MPI_Request sends[WINDOW], receives[WINDOW];
    MPI_Status statuses[WINDOW];
    for (int first = 0; first < messages; first += WINDOW) {
        int posted = (int) (drawn(rank, 1, first) % (WINDOW + 1));
        for (int k = 0; k < posted; k++)
            CHECK_OK(MPI_Irecv(ins + (size_t) k * LARGEST, LARGEST, MPI_BYTE, from, 5, MPI_COMM_WORLD, &receives[k]));
        for (int k = 0; k < WINDOW; k++) {
            unsigned char *out = outs + (size_t) k * LARGEST;
            int length = length_of(rank, to, first + k);
            pattern_fill(out, length, seed_of(rank, to, first + k));
            if (drawn(rank, 2, first + k) % 4 == 0)
                CHECK_OK(MPI_Issend(out, length, MPI_BYTE, to, 5, MPI_COMM_WORLD, &sends[k]));
            else
                CHECK_OK(MPI_Isend(out, length, MPI_BYTE, to, 5, MPI_COMM_WORLD, &sends[k]));
        }
        if (rank % 2) pause_ms(1);
        for (int k = posted; k < WINDOW; k++) {
            unsigned char *in = ins + (size_t) k * LARGEST;
            CHECK_OK(MPI_Recv(in, LARGEST, MPI_BYTE, from, 5, MPI_COMM_WORLD, &statuses[k]));
        }
        CHECK_OK(MPI_Waitall(posted, receives, statuses));
        for (int k = 0; k < WINDOW; k++) {
            check_where("message %d, %d posted before", first + k, posted);
            int length = length_of(from, rank, first + k);
            CHECK_STATUS(&statuses[k], from, 5, length);
            CHECK_EQ(pattern_differs(ins + (size_t) k * LARGEST, length, seed_of(from, rank, first + k)), -1);
        }
        CHECK_OK(MPI_Waitall(WINDOW, sends, MPI_STATUSES_IGNORE));
    }
    free(outs);
    free(ins);
}

static void all_pairs_stream(void)
{
    enum { EACH = 60, LIMIT = 20000 };
    int each = scaled(EACH);
    unsigned char *outs = allocate((size_t) size * each * LIMIT), *in = allocate(LIMIT);
    MPI_Request *sends = allocate(size * each * sizeof *sends);
    for (int i = 0; i < each; i++)
        for (int to = 0; to < size; to++) {
            int k = i * size + to, length = length_of(rank, to, i) % LIMIT;
            pattern_fill(outs + (size_t) k * LIMIT, length, seed_of(rank, to, i));
            CHECK_OK(MPI_Isend(outs + (size_t) k * LIMIT, length, MPI_BYTE, to, 6, MPI_COMM_WORLD, &sends[k]));
        }
    for (int i = 0; i < each; i++)
        for (int step = 0; step < size; step++) {
            int from = (rank + step) % size, length = length_of(from, rank, i) % LIMIT;
            check_where("message %d from %d", i, from);
            MPI_Status status;
            CHECK_OK(MPI_Recv(in, LIMIT, MPI_BYTE, from, 6, MPI_COMM_WORLD, &status));
            CHECK_STATUS(&status, from, 6, length);
            CHECK_EQ(pattern_differs(in, length, seed_of(from, rank, i)), -1);
        }
    CHECK_OK(MPI_Waitall(size * each, sends, MPI_STATUSES_IGNORE));
    free(outs);
    free(in);
    free(sends);
}

static void tags_out_of_order(int bytes)
{
    enum { TAGS = 64 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *outs = allocate(TAGS * (size_t) bytes), *ins = allocate(TAGS * (size_t) bytes);
    MPI_Request sends[TAGS], receives[TAGS];
    for (int posted = 0; posted < 2; posted++) {
        check_where("tags out of order, %d bytes, %s", bytes, posted ? "posted" : "blocking");
        for (int k = 0; k < TAGS && posted; k++) {
            int tag = k * 37 % TAGS;
            CHECK_OK(MPI_Irecv(ins + (size_t) tag * bytes, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &receives[k]));
        }
        for (int tag = 0; tag < TAGS; tag++) {
            pattern_fill(outs + (size_t) tag * bytes, bytes, seed_of(rank, to, tag));
            CHECK_OK(MPI_Isend(outs + (size_t) tag * bytes, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &sends[tag]));
        }
        for (int k = 0; k < TAGS && !posted; k++) {
            int tag = TAGS - 1 - k * 29 % TAGS;
            MPI_Status status;
            CHECK_OK(MPI_Recv(ins + (size_t) tag * bytes, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status));
            CHECK_STATUS(&status, from, tag, bytes);
        }
        if (posted) CHECK_OK(MPI_Waitall(TAGS, receives, MPI_STATUSES_IGNORE));
        CHECK_OK(MPI_Waitall(TAGS, sends, MPI_STATUSES_IGNORE));
        for (int tag = 0; tag < TAGS; tag++)
            CHECK_EQ(pattern_differs(ins + (size_t) tag * bytes, bytes, seed_of(from, rank, tag)), -1);
    }
    free(outs);
    free(ins);
}

/* Two tags interleaved: each keeps its order, and the two may be read at different paces. */
static void two_tags(void)
{
    enum { EACH = 50 };
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int outs[2 * EACH], value;
    MPI_Request sends[2 * EACH];
    for (int k = 0; k < 2 * EACH; k++) {
        outs[k] = k;
        CHECK_OK(MPI_Isend(&outs[k], 1, MPI_INT, to, k % 2, MPI_COMM_WORLD, &sends[k]));
    }
    for (int k = 0; k < EACH; k++) {
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(value, 2 * k + 1);
    }
    for (int k = 0; k < EACH; k++) {
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(value, 2 * k);
    }
    CHECK_OK(MPI_Waitall(2 * EACH, sends, MPI_STATUSES_IGNORE));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    same_tag();
    all_pairs_stream();
    tags_out_of_order(8);
    tags_out_of_order(3000);
    tags_out_of_order(40000);
    two_tags();
    return check_end();
}
