// ranks: 1 2 4 7
// transports: all
// every day: shm-denied shm-single-copy usysv sysv tcp-encrypted nodes lamd ofi
/* Long messages, contiguous and strided, several at once and in both directions. */
#include "check.h"

static int to, from;

static uint64_t word_at(unsigned seed, size_t i) { return (i + 1) * 0x9e3779b97f4a7c15u + seed; }

static void fill_words(uint64_t *at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) at[i] = word_at(seed, i);
}

static long long words_differ(const uint64_t *at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != word_at(seed, i)) return (long long) i;
    return -1;
}

static void contiguous(size_t bytes)
{
    size_t n = bytes / 8;
    check_where("%zu bytes", bytes);
    uint64_t *out = allocate(bytes), *in = allocate(bytes + 64);
    MPI_Status status;
    MPI_Request requests[2];
    fill_words(out, n, rank);
    memset(in, 0xee, bytes + 64);
    CHECK_OK(MPI_Sendrecv(out, (int) n, MPI_UINT64_T, to, 1, in, (int) n, MPI_UINT64_T, from, 1, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, from, 1, (int) bytes);
    CHECK_EQ(words_differ(in, n, from), -1);
    CHECK_EQ(bytes_differ(in, bytes, bytes + 64, 0xee), -1);

    /* In the other direction, into a longer receive, synchronous, sent before the receive is
     * posted. */
    memset(in, 0xee, bytes + 64);
    CHECK_OK(MPI_Issend(out, (int) n, MPI_UINT64_T, from, 2, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Recv(in, (int) (n + 8), MPI_UINT64_T, to, 2, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, to, 2, (int) bytes);
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK_EQ(words_differ(in, n, to), -1);
    CHECK_EQ(bytes_differ(in, bytes, bytes + 64, 0xee), -1);
    free(out);
    free(in);
}

/* Blocks of 8 words, STEP words apart, on one side, plain or another stride on the other. */
static void strided(size_t bytes)
{
    size_t n = bytes / 8, blocks = n / 8;
    enum { STEP = 11 };
    check_where("%zu bytes strided", bytes);
    uint64_t *spread = allocate(blocks * STEP * 8), *plain = allocate(bytes);
    MPI_Datatype vector;
    MPI_Status status;
    MPI_Request request;
    CHECK_OK(MPI_Type_vector((int) blocks, 8, STEP, MPI_UINT64_T, &vector));
    CHECK_OK(MPI_Type_commit(&vector));
    memset(spread, 0xee, blocks * STEP * 8);
    for (size_t i = 0; i < n; i++) spread[i / 8 * STEP + i % 8] = word_at(rank, i);

    CHECK_OK(MPI_Isend(spread, 1, vector, to, 3, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(plain, (int) n, MPI_UINT64_T, from, 3, MPI_COMM_WORLD, &status));
    CHECK_STATUS(&status, from, 3, (int) bytes);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(words_differ(plain, n, from), -1);

    fill_words(plain, n, rank + 50);
    CHECK_OK(MPI_Irecv(spread, 1, vector, from, 4, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Send(plain, (int) n, MPI_UINT64_T, to, 4, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, &status));
    for (size_t i = 0; i < blocks * STEP - 3; i++) {
        uint64_t want = i % STEP < 8 ? word_at(from + 50, i / STEP * 8 + i % STEP) : 0xeeeeeeeeeeeeeeeeu;
        if (!CHECK_EQ(spread[i], want)) break;
    }

    MPI_Datatype single;
    CHECK_OK(MPI_Type_vector((int) (n / 2), 1, 2, MPI_UINT64_T, &single));
    CHECK_OK(MPI_Type_commit(&single));
    size_t half = n / 2 / 8;
    MPI_Datatype half_vector;
    CHECK_OK(MPI_Type_vector((int) half, 8, STEP, MPI_UINT64_T, &half_vector));
    CHECK_OK(MPI_Type_commit(&half_vector));
    fill_words(plain, n, rank + 90);
    memset(spread, 0xee, blocks * STEP * 8);
    CHECK_OK(MPI_Sendrecv(plain, 1, single, to, 5, spread, 1, half_vector, from, 5, MPI_COMM_WORLD, &status));
    for (size_t i = 0; i < half * STEP - 3; i++) {
        uint64_t want = i % STEP < 8 ? word_at(from + 90, 2 * (i / STEP * 8 + i % STEP)) : 0xeeeeeeeeeeeeeeeeu;
        if (!CHECK_EQ(spread[i], want)) break;
    }
    CHECK_OK(MPI_Type_free(&single));
    CHECK_OK(MPI_Type_free(&half_vector));
    CHECK_OK(MPI_Type_free(&vector));
    free(spread);
    free(plain);
}

static void crossing(void)
{
    enum { BYTES = 1 << 20 };
    check_where("crossing");
    int peers = size < 4 ? size : 4;
    uint64_t *out = allocate(BYTES), *in = allocate((size_t) peers * BYTES);
    MPI_Request requests[16];
    int shorts[4], n = 0;
    fill_words(out, BYTES / 8, rank);
    for (int k = 0; k < peers; k++) {
        int source = (rank + size - k) % size;
        CHECK_OK(MPI_Irecv(in + (size_t) k * (BYTES / 8), BYTES, MPI_BYTE, source, 6, MPI_COMM_WORLD, &requests[n++]));
        CHECK_OK(MPI_Irecv(&shorts[k], 1, MPI_INT, source, 7, MPI_COMM_WORLD, &requests[n++]));
    }
    for (int k = peers - 1; k >= 0; k--) {
        int target = (rank + k) % size;
        CHECK_OK(MPI_Isend(out, BYTES, MPI_BYTE, target, 6, MPI_COMM_WORLD, &requests[n++]));
        CHECK_OK(MPI_Isend(&rank, 1, MPI_INT, target, 7, MPI_COMM_WORLD, &requests[n++]));
    }
    CHECK_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < peers; k++) {
        int source = (rank + size - k) % size;
        CHECK_EQ(shorts[k], source);
        CHECK_EQ(words_differ(in + (size_t) k * (BYTES / 8), BYTES / 8, source), -1);
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    contiguous(4 << 20);
    contiguous(20 << 20);
    contiguous((4 << 20) + 8);
    strided(4 << 20);
    strided(20 << 20);
    crossing();
    return check_end();
}
