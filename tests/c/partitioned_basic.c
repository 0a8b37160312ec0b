// ranks: 1 2 4 7
// transports: all
// every day: usysv sysv ofi
/* Partitioned messages around a ring: different numbers of partitions on both sides, ready in
 * any order, started repeatedly, of all lengths and of derived types; with ordinary messages of
 * the same tag between them. */
#include "check.h"

enum { ROUNDS = 4, TAG = 5 };

static int next, before;

static int value(int from, int round, long long i) { return (int) (from * 7919 + round * 104729 + i); }

static void shuffle(int *order, int n, int seed)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int) (drawn((unsigned) rank, (unsigned) seed, (unsigned) i) % (unsigned) (i + 1)), k = order[i];
        order[i] = order[j];
        order[j] = k;
    }
}

/* Makes all partitions ready, in different orders and by different functions. */
static void make_ready(MPI_Request request, int partitions, int round)
{
    int *order = allocate((size_t) partitions * sizeof *order);
    shuffle(order, partitions, round);
    switch (round % 4) {
    case 0:
        for (int i = 0; i < partitions; i++) CHECK_OK(MPI_Pready(order[i], request));
        break;
    case 1:
        if (partitions > 0) CHECK_OK(MPI_Pready_range(partitions / 2, partitions - 1, request));
        if (partitions > 1) CHECK_OK(MPI_Pready_range(0, partitions / 2 - 1, request));
        break;
    case 2:
        CHECK_OK(MPI_Pready_list(partitions / 3, order, request));
        CHECK_OK(MPI_Pready_list(partitions - partitions / 3, order + partitions / 3, request));
        break;
    default:
        for (int i = partitions - 1; i >= 0; i--) CHECK_OK(MPI_Pready(i, request));
    }
    free(order);
}

/* `theirs` partitions at the sender, `own` at the receiver, with the same number of integers in
 * total, each `stride` apart. */
static void ring(int theirs, int own, int each_theirs, int stride)
{
    int total = theirs * each_theirs, each_own = own > 0 ? total / own : 0;
    int *out = allocate((size_t) (total * stride) * sizeof(int)), *in = allocate((size_t) (total * stride) * sizeof(int));
    check_where("%d partitions of %d to %d of %d, stride %d", theirs, each_theirs, own, each_own, stride);
    MPI_Datatype type;
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, stride * (MPI_Aint) sizeof(int), &type));
    CHECK_OK(MPI_Type_commit(&type));
    MPI_Request send, receive;
    CHECK_OK(MPI_Psend_init(out, theirs, each_theirs, type, next, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init_c(in, own, each_own, type, before, TAG, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    CHECK_OK(MPI_Type_free(&type));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Status status;
        int word = rank * 100 + round, got = -1, flag = -1;
        MPI_Request ordinary;
        for (int i = 0; i < total; i++) {
            out[i * stride] = value(rank, round, i);
            for (int k = 0; k < stride; k++) in[i * stride + k] = -1;
        }
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &ordinary));
        if (round % 2) CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Start(&send));
        make_ready(send, theirs, round);
        CHECK_OK(MPI_Send(&word, 1, MPI_INT, next, TAG, MPI_COMM_WORLD));
        if (round % 2 == 0) CHECK_OK(MPI_Start(&receive));
        for (int p = 0; p < own && round > 1; p++)
            for (flag = 0; !flag;) CHECK_OK(MPI_Parrived(receive, p, &flag));
        memset(&status, 0x5a, sizeof status);
        MPI_Request both[2] = {send, receive};
        if (round == 3) {
            CHECK_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
        } else {
            CHECK_OK(MPI_Wait(&receive, &status));
            CHECK_STATUS(&status, before, TAG, total * (int) sizeof(int));
            CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        }
        CHECK(send != MPI_REQUEST_NULL && receive != MPI_REQUEST_NULL);
        CHECK_OK(MPI_Wait(&ordinary, &status));
        CHECK_STATUS(&status, before, TAG, sizeof(int));
        CHECK_EQ(got, before * 100 + round);
        for (int i = 0; i < total; i++)
            for (int k = 0; k < stride; k++)
                if (!CHECK_EQ(in[i * stride + k], k == 0 ? value(before, round, i) : -1)) goto out;
    }
out:
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    CHECK(send == MPI_REQUEST_NULL && receive == MPI_REQUEST_NULL);
    free(out);
    free(in);
}

static void cut_elements(void)
{
    enum { N = 3000 };
    static int out[N * 3], in[2 * N];
    MPI_Datatype gapped;
    MPI_Request send, receive;
    check_where("elements cut in the middle");
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    for (int turn = 0; turn < 2; turn++) {
        /* Gaps at the sender, then at the receiver; the other side has 2 N integers, 5 in a
         * partition. */
        if (turn == 0) {
            CHECK_OK(MPI_Psend_init(out, 3, N / 3, gapped, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
            CHECK_OK(MPI_Precv_init(in, 2 * N / 5, 5, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        } else {
            CHECK_OK(MPI_Psend_init(in, 2 * N / 2000, 2000, MPI_INT, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
            CHECK_OK(MPI_Precv_init(out, N / 10, 10, gapped, before, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        }
        int parts = turn == 0 ? 3 : 2 * N / 2000;
        for (int round = 0; round < 2; round++) {
            memset(turn == 0 ? in : out, 0xff, turn == 0 ? sizeof in : sizeof out);
            for (int i = 0; i < 2 * N; i++) {
                int *place = turn == 0 ? &out[i / 2 * 3 + i % 2 * 2] : &in[i];
                *place = value(rank, round, i);
            }
            CHECK_OK(MPI_Startall(2, (MPI_Request[2]){send, receive}));
            make_ready(send, parts, round);
            CHECK_OK(MPI_Waitall(2, (MPI_Request[2]){send, receive}, MPI_STATUSES_IGNORE));
            for (int i = 0; i < 2 * N; i++)
                if (!CHECK_EQ(turn == 0 ? in[i] : out[i / 2 * 3 + i % 2 * 2], value(before, round, i))) break;
        }
        CHECK_OK(MPI_Request_free(&send));
        CHECK_OK(MPI_Request_free(&receive));
    }
    CHECK_OK(MPI_Type_free(&gapped));
}

static void early(int elements)
{
    enum { P = 6, Q = 3 };
    int *out = allocate((size_t) (P * elements) * sizeof(int)), *in = allocate((size_t) (P * elements) * sizeof(int));
    MPI_Request send, receive;
    check_where("early partitions of %d", elements);
    CHECK_OK(MPI_Psend_init(out, P, elements, MPI_INT, next, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(in, Q, 2 * elements, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    for (int round = 0; round < 3; round++) {
        int flag = -1, order[Q] = {1, 2, 0};
        for (int i = 0; i < P * elements; i++) out[i] = value(rank, round, i), in[i] = -1;
        CHECK_OK(MPI_Startall(2, (MPI_Request[2]){send, receive}));
        for (int n = 0; n < Q; n++) {
            int q = order[n];
            CHECK_OK(MPI_Pready(2 * q + 1, send));
            /* Half of it is not enough; the other half comes only after all have seen that. */
            for (int i = 0; i < 20; i++) {
                CHECK_OK(MPI_Parrived(receive, q, &flag));
                CHECK_EQ(flag, 0);
            }
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            CHECK_OK(MPI_Pready(2 * q, send));
            for (flag = 0; !flag;) CHECK_OK(MPI_Parrived(receive, q, &flag));
            for (int i = 2 * q * elements; i < 2 * (q + 1) * elements; i++)
                if (!CHECK_EQ(in[i], value(before, round, i))) break;
            for (int later = n + 1; later < Q; later++) {
                CHECK_OK(MPI_Parrived(receive, order[later], &flag));
                CHECK_EQ(flag, 0);
            }
            CHECK_OK(MPI_Test(&receive, &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, n == Q - 1);
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        CHECK_OK(MPI_Parrived(receive, 0, &flag));
        CHECK_EQ(flag, 1);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    static const int cuts[][3] = {{1, 1, 1}, {4, 4, 100}, {6, 4, 10}, {1, 12, 24}, {64, 1, 3}, {100, 10, 50}, {3, 300, 20000},
                                  {7, 7, 1100}, {5, 2, 100000}};
    for (unsigned n = 0; n < sizeof cuts / sizeof cuts[0]; n++)
        for (int stride = 1; stride <= 2; stride++) ring(cuts[n][0], cuts[n][1], cuts[n][2], stride);
    ring(3, 3, 0, 1);
    ring(4, 6, 0, 1);
    ring(0, 0, 0, 1);
    ring(0, 3, 0, 1);
    ring(3, 0, 0, 1);
    cut_elements();
    early(10);
    early(50000);
    return check_end();
}
