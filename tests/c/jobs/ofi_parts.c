/* Messages longer than the provider's limit, up to argv[1] bytes: received by source, from
 * MPI_ANY_SOURCE, after probes, into buffers that are too short, of types with gaps, in another
 * order than sent, and several with one tag at once. */
#include "../check.h"

static int most;

static void fill(unsigned char *bytes, int length, int seed)
{
    pattern_fill(bytes, (size_t) length, (unsigned) seed);
}

static void expect(const unsigned char *bytes, int length, int seed, MPI_Status *status, int tag)
{
    int count;
    CHECK_OK(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK_EQ(count, length);
    CHECK_EQ(status->MPI_SOURCE, rank ^ 1);
    CHECK_EQ(status->MPI_TAG, tag);
    CHECK_EQ(pattern_differs(bytes, (size_t) length, (unsigned) seed), -1);
}

static void exchange(int length, int probe, int synchronous)
{
    int peer = rank ^ 1, count;
    unsigned char *out = malloc((size_t) length), *in = calloc(1, (size_t) length);
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    check_where("%d bytes, probe %d, synchronous %d", length, probe, synchronous);
    fill(out, length, rank);
    CHECK_OK((synchronous ? MPI_Issend : MPI_Isend)(out, length, MPI_BYTE, peer, probe, MPI_COMM_WORLD, &request));
    if (probe == 1) {
        CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, length);
    }
    if (probe == 2) {
        CHECK_OK(MPI_Mprobe(peer, probe, MPI_COMM_WORLD, &message, &status));
        CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, length);
        CHECK_OK(MPI_Mrecv(in, length, MPI_BYTE, &message, &status));
    } else {
        int from = probe == 3 ? MPI_ANY_SOURCE : peer, tag = probe == 3 ? MPI_ANY_TAG : probe;
        CHECK_OK(MPI_Recv(in, length, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status));
    }
    expect(in, length, peer, &status, probe);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    free(out);
    free(in);
}

/* A probe finds the second of two messages with one tag while the first one has a receive in any
 * state. */
static void behind(int length)
{
    int peer = rank ^ 1, count;
    unsigned char *out = malloc((size_t) length + 1), *in[2] = {calloc(1, (size_t) length), calloc(1, (size_t) length + 1)};
    MPI_Request requests[3];
    MPI_Status status;
    check_where("behind, %d bytes", length);
    fill(out, length + 1, rank);
    CHECK_OK(MPI_Irecv(in[0], length, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[2]));
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Isend(out, length + i, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[i]));
    CHECK_OK(MPI_Probe(peer, 1, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, length + 1);
    CHECK_OK(MPI_Recv(in[1], length + 1, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &status));
    expect(in[1], length + 1, peer, &status, 1);
    CHECK_OK(MPI_Wait(&requests[2], &status));
    expect(in[0], length, peer, &status, 1);
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; i++) free(in[i]);
    free(out);
}

static void cut(int length, int room, int early)
{
    int peer = rank ^ 1;
    unsigned char *out = malloc((size_t) length), *in = calloc(1, (size_t) room + 1);
    MPI_Request requests[2];
    MPI_Status status;
    check_where("%d bytes into %d, early %d", length, room, early);
    fill(out, length, rank);
    if (early) CHECK_OK(MPI_Irecv(in, room, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Isend(out, length, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[1]));
    if (!early) CHECK_OK(MPI_Irecv(in, room, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[0]));
    CHECK_CLASS(MPI_Wait(&requests[0], &status), MPI_ERR_TRUNCATE);
    CHECK_EQ(in[room], 0);
    CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    free(out);
    free(in);
}

static void with_gaps(int elements)
{
    int peer = rank ^ 1, *out = malloc((size_t) elements * 2 * sizeof *out), *in = calloc((size_t) elements * 2, sizeof *in);
    MPI_Datatype pair;
    MPI_Request request;
    check_where("%d elements with gaps", elements);
    for (int i = 0; i < elements * 2; i++) out[i] = rank * elements * 2 + i;
    CHECK_OK(MPI_Type_vector(elements, 1, 2, MPI_INT, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Isend(out, 1, pair, peer, 0, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(in, 1, pair, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < elements * 2; i++) {
        int expected = i % 2 ? 0 : peer * elements * 2 + i;
        if (in[i] != expected) { CHECK_EQ(in[i], expected); break; }
    }
    CHECK_OK(MPI_Type_free(&pair));
    free(out);
    free(in);
}

/* Long and short messages at once, with one tag and with several; the messages with other tags
 * are received first. */
static void many(void)
{
    enum { MANY = 12 };
    int peer = rank ^ 1, length[MANY];
    unsigned char *out[MANY], *in[MANY];
    MPI_Request requests[MANY], receives[MANY];
    MPI_Status status;
    check_where("many");
    for (int i = 0; i < MANY; i++) {
        length[i] = i % 3 == 2 ? 100 + i : most + i * most / 2 + 1;
        out[i] = malloc((size_t) length[i]);
        in[i] = calloc(1, (size_t) length[i]);
        fill(out[i], length[i], rank * MANY + i);
        CHECK_OK(MPI_Isend(out[i], length[i], MPI_BYTE, peer, i % 4 == 3 ? i : 1, MPI_COMM_WORLD, &requests[i]));
    }
    for (int i = 3; i < MANY; i += 4) {
        CHECK_OK(MPI_Recv(in[i], length[i], MPI_BYTE, peer, i, MPI_COMM_WORLD, &status));
        expect(in[i], length[i], peer * MANY + i, &status, i);
    }
    for (int i = 0; i < MANY; i++)
        if (i % 4 != 3) CHECK_OK(MPI_Irecv(in[i], length[i], MPI_BYTE, peer, 1, MPI_COMM_WORLD, &receives[i]));
    for (int i = MANY - 1; i >= 0; i--) {
        if (i % 4 == 3) continue;
        CHECK_OK(MPI_Wait(&receives[i], &status));
        expect(in[i], length[i], peer * MANY + i, &status, 1);
    }
    CHECK_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) {
        free(out[i]);
        free(in[i]);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    most = atoi(argv[1]);
    int lengths[] = {most - 1, most, most + 1, 2 * most, 2 * most + 1, 17 * most + 3};
    for (int i = 0; i < 6; i++)
        for (int probe = 0; probe < 4; probe++) exchange(lengths[i], probe, (i + probe) % 2);
    for (int early = 0; early < 2; early++) {
        cut(3 * most, most / 2, early);
        cut(3 * most, most, early);
        cut(3 * most, 2 * most + 5, early);
    }
    with_gaps(most);
    for (int round = 0; round < 10; round++) behind((round % 3 + 2) * most);
    for (int round = 0; round < 3; round++) many();
    double *sum = malloc((size_t) most * sizeof *sum), *all = malloc((size_t) most * sizeof *all);
    for (int i = 0; i < most; i++) sum[i] = rank + i;
    CHECK_OK(MPI_Allreduce(sum, all, most, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < most; i++)
        if (all[i] != size * (size - 1) / 2 + (double) size * i) { CHECK(0); break; }
    free(sum);
    free(all);
    return check_end();
}
