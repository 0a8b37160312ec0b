// ranks: 2 4
// transports: near
/* Messages longer than any pool: in one direction, both directions at once, with gapped
 * datatypes, to receives that are too short, from all ranks to all, and from a sender that
 * leaves the library while they are under way. */
#include "check.h"

enum { BYTES = (9 << 20) + 4099, ALL_BYTES = 4 << 20, TAG = 5, GO = 6 };

static unsigned char *sent, *came;

/* A vector of blocks of 3000 bytes with gaps of 1000, of BYTES or a little less. */
enum { BLOCK = 3000, STRIDE = 4000, BLOCKS = BYTES / STRIDE };
static MPI_Datatype gaps;

static void check_came(size_t bytes, unsigned seed)
{
    CHECK_EQ(pattern_differs(came, bytes, seed), -1);
    CHECK_EQ(bytes_differ(came, bytes, BYTES, 0x55), -1);
}

static void check_blocks(const unsigned char *buffer, unsigned seed)
{
    long long wrong = -1;
    for (size_t i = 0; i < (size_t) BLOCK * BLOCKS && wrong < 0; i++)
        if (buffer[i / BLOCK * STRIDE + i % BLOCK] != pattern_byte(seed, i)) wrong = (long long) i;
    CHECK_EQ(wrong, -1);
    for (int block = 0; block < BLOCKS; block++)
        CHECK_EQ(bytes_differ(buffer, (size_t) block * STRIDE + BLOCK, ((size_t) block + 1) * STRIDE, 0x55), -1);
}

static void fill_blocks(unsigned char *buffer, unsigned seed)
{
    for (size_t i = 0; i < (size_t) BLOCK * BLOCKS; i++)
        buffer[i / BLOCK * STRIDE + i % BLOCK] = pattern_byte(seed, i);
}

static void one_way(int from, int to)
{
    MPI_Status status;
    check_where("from %d to %d", from, to);
    if (rank == from) {
        pattern_fill(sent, BYTES, 1);
        MPI_Send(sent, BYTES, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
        MPI_Ssend(sent, BYTES, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
    } else if (rank == to) {
        for (int i = 0; i < 2; i++) {
            memset(came, 0x55, BYTES);
            MPI_Recv(came, BYTES, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &status);
            CHECK_STATUS(&status, from, TAG, BYTES);
            check_came(BYTES, 1);
        }
    }
}

static void both_ways(int peer)
{
    MPI_Request requests[2];
    check_where("both ways with %d", peer);
    pattern_fill(sent, BYTES, (unsigned) rank);
    memset(came, 0x55, BYTES);
    MPI_Irecv(came, BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[1]);
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check_came(BYTES, (unsigned) peer);
}

static void with_gaps(int from, int to)
{
    for (int form = 1; form < 4; form++) {
        check_where("gaps of form %d", form);
        if (rank == from) {
            if (form & 1) fill_blocks(sent, 7);
            else pattern_fill(sent, (size_t) BLOCK * BLOCKS, 7);
            MPI_Send(sent, form & 1 ? 1 : BLOCK * BLOCKS, form & 1 ? gaps : MPI_BYTE, to, TAG, MPI_COMM_WORLD);
        } else if (rank == to) {
            memset(came, 0x55, BYTES);
            MPI_Recv(came, form & 2 ? 1 : BYTES, form & 2 ? gaps : MPI_BYTE, from, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            if (form & 2) check_blocks(came, 7);
            else check_came((size_t) BLOCK * BLOCKS, 7);
        }
    }
}

static void too_short(int from, int to)
{
    check_where("truncated");
    if (rank == from) {
        pattern_fill(sent, BYTES, 9);
        for (int i = 0; i < 2; i++) MPI_Send(sent, BYTES, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
    } else if (rank == to) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        for (int i = 0; i < 2; i++) {
            int room = i == 0 ? BYTES - 1234567 : 1000;
            memset(came, 0x55, BYTES);
            CHECK_CLASS(MPI_Recv(came, room, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                        MPI_ERR_TRUNCATE);
            check_came((size_t) room, 9);
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    }
}

static void all_to_all(void)
{
    check_where("all to all");
    unsigned char *out = malloc((size_t) ALL_BYTES * size), *in = malloc((size_t) ALL_BYTES * size);
    for (int to = 0; to < size; to++) pattern_fill(out + (size_t) to * ALL_BYTES, ALL_BYTES, rank * 16u + to);
    MPI_Request *requests = malloc(2 * sizeof *requests * size);
    for (int peer = 0; peer < size; peer++) {
        MPI_Irecv(in + (size_t) peer * ALL_BYTES, ALL_BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[peer]);
        MPI_Isend(out + (size_t) peer * ALL_BYTES, ALL_BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD,
                  &requests[size + peer]);
    }
    CHECK_OK(MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE));
    for (int from = 0; from < size; from++)
        CHECK_EQ(pattern_differs(in + (size_t) from * ALL_BYTES, ALL_BYTES, from * 16u + rank), -1);
    free(requests);
    free(in);
    free(out);
}

/* The sender waits in the library until the message has begun to arrive, then computes, then
 * waits for the rest. */
static void leaves(int from, int to)
{
    check_where("a sender that leaves");
    MPI_Request request;
    int word = 0;
    if (rank == from) {
        pattern_fill(sent, BYTES, 3);
        MPI_Isend(sent, BYTES, MPI_BYTE, to, TAG, MPI_COMM_WORLD, &request);
        MPI_Recv(&word, 1, MPI_INT, to, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (rank == to) {
        int flag = 0;
        memset(came, 0x55, BYTES);
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        MPI_Irecv(came, BYTES, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &request);
        while (!flag && *(volatile unsigned char *) came == 0x55) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, from, GO, MPI_COMM_WORLD);
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        check_came(BYTES, 3);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    sent = malloc(BYTES);
    came = malloc(BYTES);
    memset(sent, 0, BYTES);
    MPI_Type_vector(BLOCKS, BLOCK, STRIDE, MPI_BYTE, &gaps);
    MPI_Type_commit(&gaps);
    int last = size - 1;
    one_way(0, last);
    one_way(last, 0);
    for (int i = 0; i < 2 && (rank ^ 1) < size; i++) both_ways(rank ^ 1);
    with_gaps(0, last);
    too_short(last, 0);
    for (int i = 0; i < 3; i++) leaves(i % 2 ? 0 : last, i % 2 ? last : 0);
    all_to_all();
    MPI_Type_free(&gaps);
    free(sent);
    free(came);
    return check_end();
}
