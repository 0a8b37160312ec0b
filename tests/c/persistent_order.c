// ranks: 1 2 4 7
// transports: all
/* Persistent collectives are matched in the order of their MPI_*_init calls, while their starts
 * have another order on each rank and in each round; nonblocking and blocking collectives go on
 * between them. */
#include "check.h"

enum { REQUESTS = 12, ROUNDS = 60, COUNT = 700 };

static int in[REQUESTS][COUNT], out[REQUESTS][COUNT];

static int given(int k, int from, int round, int i) { return k * 100000 + from * 1000 + round + i; }

static int length(int k) { return k % 3 == 0 ? 1 : k % 3 == 1 ? 20 : COUNT; }
static int root_of(int k) { return k % size; }

static void init(int k, MPI_Comm comm, MPI_Request *request)
{
    int n = length(k);
    switch (k % 4) {
    case 0: CHECK_OK(MPI_Allreduce_init(in[k], out[k], n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, request)); break;
    case 1: CHECK_OK(MPI_Bcast_init(out[k], n, MPI_INT, root_of(k), comm, MPI_INFO_NULL, request)); break;
    case 2: CHECK_OK(MPI_Reduce_init(in[k], out[k], n, MPI_INT, MPI_MAX, root_of(k), comm, MPI_INFO_NULL, request)); break;
    default: CHECK_OK(MPI_Scan_init(in[k], out[k], n, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, request));
    }
}

static void fill(int k, int round)
{
    for (int i = 0; i < length(k); i++) {
        in[k][i] = given(k, rank, round, i);
        out[k][i] = k % 4 == 1 && rank == root_of(k) ? given(k, rank, round, i) : -1;
    }
}

static int check_result(int k, int round)
{
    for (int i = 0; i < length(k); i++) {
        int wanted = -1, ranks = k % 4 == 3 ? rank + 1 : size;
        if (k % 4 == 1) wanted = given(k, root_of(k), round, i);
        if (k % 4 == 2) wanted = rank == root_of(k) ? given(k, size - 1, round, i) : -1;
        if (k % 4 == 0 || k % 4 == 3) {
            wanted = 0;
            for (int r = 0; r < ranks; r++) wanted += given(k, r, round, i);
        }
        if (!CHECK_EQ(out[k][i], wanted)) return 0;
    }
    return 1;
}

static void shuffle(int *order, int n, int round)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int) (drawn((unsigned) rank, (unsigned) round, (unsigned) i) % (unsigned) (i + 1)), k = order[i];
        order[i] = order[j];
        order[j] = k;
    }
}

static void rounds(MPI_Comm comm, int free_early)
{
    MPI_Request requests[REQUESTS];
    int order[REQUESTS];
    for (int k = 0; k < REQUESTS; k++) init(k, comm, &requests[k]);
    if (free_early) CHECK_OK(MPI_Comm_free(&comm));
    for (int round = 0; round < scaled(ROUNDS); round++) {
        check_where("round %d", round);
        MPI_Request all[REQUESTS], between[2];
        int mine = rank + round, sum = -1, word = rank == 0 ? round : -1, several = round % 3 == 0;
        shuffle(order, REQUESTS, round);
        for (int i = 0; i < REQUESTS; i++) fill(order[i], round);
        if (!free_early) CHECK_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm, &between[0]));
        for (int i = 0; i < REQUESTS; i++) {
            all[i] = requests[order[i]];
            if (!several) CHECK_OK(MPI_Start(&all[i]));
        }
        if (several) CHECK_OK(MPI_Startall(REQUESTS, all));
        if (!free_early) {
            CHECK_OK(MPI_Ibcast(&word, 1, MPI_INT, 0, comm, &between[1]));
            int high = -1;
            CHECK_OK(MPI_Allreduce(&mine, &high, 1, MPI_INT, MPI_MAX, comm));
            CHECK_EQ(high, size - 1 + round);
        }
        if (round % 2) {
            CHECK_OK(MPI_Waitall(REQUESTS, all, MPI_STATUSES_IGNORE));
        } else {
            for (int left = REQUESTS; left > 0; left--) {
                int index = -1;
                CHECK_OK(MPI_Waitany(REQUESTS, all, &index, MPI_STATUS_IGNORE));
                CHECK(index >= 0 && index < REQUESTS);
            }
            int index = -1;
            CHECK_OK(MPI_Waitany(REQUESTS, all, &index, MPI_STATUS_IGNORE));
            CHECK_EQ(index, MPI_UNDEFINED);
        }
        for (int k = 0; k < REQUESTS; k++)
            if (!check_result(k, round)) return;
        if (!free_early) {
            CHECK_OK(MPI_Waitall(2, between, MPI_STATUSES_IGNORE));
            CHECK_EQ(sum, size * (size - 1) / 2 + size * round);
            CHECK_EQ(word, round);
        }
    }
    for (int k = 0; k < REQUESTS; k++) CHECK_OK(MPI_Request_free(&requests[rank % 2 ? k : REQUESTS - 1 - k]));
}

static void ahead(void)
{
    MPI_Request one, other;
    int first[4] = {0}, second[4] = {0};
    CHECK_OK(MPI_Bcast_init(first, 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &one));
    CHECK_OK(MPI_Bcast_init(second, 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &other));
    for (int turn = 0; turn < 2; turn++) {
        MPI_Request *request = (turn == 0) == (rank == 0) ? &one : &other;
        int *data = request == &one ? first : second;
        for (int round = 0; round < 20; round++) {
            if (rank == 0) data[3] = round + (request == &one ? 1000 : 2000);
            CHECK_OK(MPI_Start(request));
            /* The root of a short broadcast does not wait for the others. */
            CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
            CHECK_EQ(data[3], round + (request == &one ? 1000 : 2000));
        }
    }
    CHECK_OK(MPI_Request_free(&one));
    CHECK_OK(MPI_Request_free(&other));
}

static void come_and_go(void)
{
    MPI_Request kept, request;
    int mine = rank, sum = -1, own, other;
    CHECK_OK(MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &kept));
    for (int i = 0; i < scaled(3000); i++) {
        own = rank * i;
        CHECK_OK(MPI_Allreduce_init(&own, &other, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        if (i % 3) {
            CHECK_OK(MPI_Start(rank % 2 ? &kept : &request));
            CHECK_OK(MPI_Start(rank % 2 ? &request : &kept));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Wait(&kept, MPI_STATUS_IGNORE));
            if (!CHECK_EQ(other, (size - 1) * i) || !CHECK_EQ(sum, size * (size - 1) / 2)) return;
        }
        CHECK_OK(MPI_Request_free(&request));
    }
    CHECK_OK(MPI_Request_free(&kept));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm comm;
    rounds(MPI_COMM_WORLD, 0);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    rounds(comm, 1);
    if (size <= 2) ahead();
    come_and_go();
    return check_end();
}
