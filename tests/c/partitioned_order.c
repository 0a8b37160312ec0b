// ranks: 1 2 4 7
// transports: all
/* Partitioned messages with the same tag between the same ranks are matched in the order of
 * their initialization, with any order of starts; other tags, communicators and directions do
 * not disturb them. */
#include "check.h"

enum { MESSAGES = 10, PARTS = 4, ROUNDS = 12, LONGEST = 6000 };

static int out[MESSAGES][PARTS * LONGEST], in[MESSAGES][PARTS * LONGEST];

static int value(int from, int n, int round, int i) { return from * 1000000 + n * 50000 + round * 1000 + i; }
static int elements(int n) { return n % 3 == 0 ? 1 : n % 3 == 1 ? 300 : LONGEST; }
static int tag_of(int n) { return n % 4 == 3 ? 8 : 7; }

static void shuffle(int *order, int n, int seed)
{
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int) (drawn((unsigned) rank, (unsigned) seed, (unsigned) i) % (unsigned) (i + 1)), k = order[i];
        order[i] = order[j];
        order[j] = k;
    }
}

static void messages(MPI_Comm comm, int peer_of_mine, int source, int is_freed, int receives_first)
{
    MPI_Request send[MESSAGES], receive[MESSAGES];
    int order[MESSAGES];
    for (int turn = 0; turn < 2; turn++) {
        for (int n = 0; n < MESSAGES; n++) {
            int count = elements(n), parts = n % 2 ? PARTS : 2 * PARTS;
            if ((turn == 0) == receives_first)
                CHECK_OK(MPI_Precv_init(in[n], PARTS * count, 1, MPI_INT, source, tag_of(n), comm, MPI_INFO_NULL, &receive[n]));
            else if (n % 2 || count > 1)
                CHECK_OK(MPI_Psend_init(out[n], parts, PARTS * count / parts, MPI_INT, peer_of_mine, tag_of(n), comm, MPI_INFO_NULL, &send[n]));
            else
                CHECK_OK(MPI_Psend_init(out[n], PARTS, 1, MPI_INT, peer_of_mine, tag_of(n), comm, MPI_INFO_NULL, &send[n]));
        }
    }
    if (is_freed) CHECK_OK(MPI_Comm_free(&comm));
    for (int round = 0; round < scaled(ROUNDS); round++) {
        check_where("round %d", round);
        for (int n = 0; n < MESSAGES; n++)
            for (int i = 0; i < PARTS * elements(n); i++) out[n][i] = value(rank, n, round, i), in[n][i] = -1;
        shuffle(order, MESSAGES, round);
        for (int i = 0; i < MESSAGES; i++) {
            int n = order[i], parts = n % 2 || elements(n) == 1 ? PARTS : 2 * PARTS;
            CHECK_OK(MPI_Start(&send[n]));
            CHECK_OK(MPI_Pready_range(parts / 2, parts - 1, send[n]));
            CHECK_OK(MPI_Pready_range(0, parts / 2 - 1, send[n]));
        }
        shuffle(order, MESSAGES, round + 1000);
        for (int i = 0; i < MESSAGES; i++) CHECK_OK(MPI_Start(&receive[order[i]]));
        for (int left = MESSAGES; left > 0;) {
            int indices[MESSAGES], done = 0;
            MPI_Status statuses[MESSAGES];
            CHECK_OK(MPI_Waitsome(MESSAGES, receive, &done, indices, statuses));
            if (!CHECK(done > 0)) return;
            left -= done;
            for (int i = 0; i < done; i++)
                CHECK_STATUS(&statuses[i], source, tag_of(indices[i]), PARTS * elements(indices[i]) * (int) sizeof(int));
        }
        CHECK_OK(MPI_Waitall(MESSAGES, send, MPI_STATUSES_IGNORE));
        for (int n = 0; n < MESSAGES; n++)
            for (int i = 0; i < PARTS * elements(n); i++)
                if (!CHECK_EQ(in[n][i], value(source, n, round, i))) return;
    }
    for (int n = 0; n < MESSAGES; n++) {
        CHECK_OK(MPI_Request_free(&send[n]));
        CHECK_OK(MPI_Request_free(&receive[n]));
    }
}

/* A sender that is several rounds ahead of its receiver, and one that frees and makes the next
 * meanwhile. */
static void ahead(void)
{
    enum { N = 200, GENERATIONS = 3, TURNS = 5 };
    static int data[GENERATIONS][N];
    MPI_Request request[GENERATIONS];
    int peer = rank ^ 1;
    if (peer >= size) return;
    check_where("ahead");
    for (int g = 0; g < GENERATIONS; g++)
        if (rank % 2 == 0) CHECK_OK(MPI_Precv_init(data[g], 2, N / 2, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request[g]));
    if (rank % 2) {
        for (int g = 0; g < GENERATIONS; g++) {
            CHECK_OK(MPI_Psend_init(data[g], N, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request[g]));
            for (int turn = 0; turn < TURNS; turn++) {
                for (int i = 0; i < N; i++) data[g][i] = value(rank, g, turn, i);
                CHECK_OK(MPI_Start(&request[g]));
                for (int i = N - 1; i >= 0; i--) CHECK_OK(MPI_Pready(i, request[g]));
                CHECK_OK(MPI_Wait(&request[g], MPI_STATUS_IGNORE));
            }
            CHECK_OK(MPI_Request_free(&request[g]));
        }
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, peer, 4, MPI_COMM_WORLD));
    } else {
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, peer, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int turn = 0; turn < TURNS; turn++)
            for (int g = GENERATIONS - 1; g >= 0; g--) {
                CHECK_OK(MPI_Start(&request[g]));
                CHECK_OK(MPI_Wait(&request[g], MPI_STATUS_IGNORE));
                for (int i = 0; i < N; i++)
                    if (!CHECK_EQ(data[g][i], value(peer, g, turn, i))) return;
            }
        for (int g = 0; g < GENERATIONS; g++) CHECK_OK(MPI_Request_free(&request[g]));
    }
}

static void for_nothing(void)
{
    check_where("never started");
    for (int i = 0; i < scaled(200); i++) {
        MPI_Comm comm;
        MPI_Request send, receive;
        int word = i, got = -1;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int again = 0; again < 2; again++) {
            CHECK_OK(MPI_Psend_init(&word, 1, 1, MPI_INT, (rank + 1) % size, 0, comm, MPI_INFO_NULL, &send));
            CHECK_OK(MPI_Precv_init(&got, 1, 1, MPI_INT, (rank + size - 1) % size, 0, comm, MPI_INFO_NULL, &receive));
            if (again) {
                CHECK_OK(MPI_Start(&send));
                CHECK_OK(MPI_Pready(0, send));
                CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Start(&receive));
                CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
                CHECK_EQ(got, i);
            }
            CHECK_OK(MPI_Request_free(&receive));
            CHECK_OK(MPI_Request_free(&send));
        }
        CHECK_OK(i % 2 ? MPI_Comm_free(&comm) : MPI_Comm_disconnect(&comm));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm comm;
    int up = (rank + 1) % size, down = (rank + size - 1) % size;
    messages(MPI_COMM_WORLD, up, down, 0, 0);
    messages(MPI_COMM_WORLD, down, up, 0, 1);
    messages(MPI_COMM_WORLD, rank, rank, 0, 0);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    messages(comm, up, down, 1, rank % 2);
    ahead();
    for_nothing();
    return check_end();
}
