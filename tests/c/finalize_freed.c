// ranks: 1 2 3 5
// transports: all
// every day: shm-denied usysv sysv tcp-encrypted nodes lamd ofi
/* Receives whose requests were freed go on in MPI_Finalize until their messages have arrived,
 * however late; receives without a message do not delay the end. */
#include "sessions.h"

enum { SHORT = 10, MEDIUM = 100000, LONG = 4000000, KINDS = 6, LENGTHS = 3, NONE = 99, GO = 100, REST = 101 };

static const int lengths[LENGTHS] = {SHORT, MEDIUM, LONG};

/* The messages of rank 0 for one kind of receive: one of each length. */
static unsigned char *in[KINDS][LENGTHS], *out[LENGTHS], *late;
static int pair_out = 5, pair_in = -1, unused[3];

static void post(MPI_Comm comm, MPI_Comm freed)
{
    MPI_Request request;
    for (int kind = 0; kind < KINDS; kind++)
        for (int l = 0; l < LENGTHS; l++) {
            unsigned char *to = in[kind][l] = allocate((size_t) lengths[l]);
            int tag = kind * LENGTHS + l;
            MPI_Comm on = kind == 3 || kind == 4 ? freed : comm;
            MPI_Datatype type = kind == 5 ? MPI_SIGNED_CHAR : MPI_CHAR;
            if (kind == 2) {
                CHECK_OK(MPI_Recv_init(to, lengths[l], type, 0, tag, on, &request));
                CHECK_OK(MPI_Start(&request));
            } else {
                int source = kind == 1 || kind == 4 ? MPI_ANY_SOURCE : 0;
                CHECK_OK(MPI_Irecv(to, lengths[l], type, source, tag, on, &request));
            }
            CHECK_OK(MPI_Request_free(&request));
        }
}

static void post_in_vain(MPI_Comm comm)
{
    MPI_Request request;
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    CHECK_OK(MPI_Irecv(&unused[0], 1, MPI_INT, (me + n - 1) % n, NONE, comm, &request));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Irecv(&unused[1], 1, MPI_INT, MPI_ANY_SOURCE, NONE, comm, &request));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Irecv(&unused[2], 1, MPI_INT, me, NONE, comm, &request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Request_free(&request));
}

static void send_all(MPI_Comm comm, MPI_Comm freed, int to)
{
    MPI_Request requests[KINDS * LENGTHS];
    for (int kind = 0; kind < KINDS; kind++)
        for (int l = 0; l < LENGTHS; l++) {
            int tag = kind * LENGTHS + l;
            MPI_Comm on = kind == 3 || kind == 4 ? freed : comm;
            CHECK_OK(MPI_Isend(out[l], lengths[l], MPI_CHAR, to, tag, on, &requests[tag]));
        }
    CHECK_OK(MPI_Waitall(KINDS * LENGTHS, requests, MPI_STATUSES_IGNORE));
}

static void has_all_come(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int l = 0; l < LENGTHS; l++)
            if (pattern_differs(in[kind][l], (size_t) lengths[l], (unsigned) l) != -1) {
                printf("rank %d: the message of kind %d and %d bytes has not come\n", rank, kind, lengths[l]);
                check_failures++;
            }
}

/* Rank 0 sends when the others are in MPI_Finalize, or in the end of their session. Rank 2 sends
 * to rank 1 after rank 0 has finished with both; last of all, rank 0 gets an answer. */
static void talk(MPI_Comm comm)
{
    MPI_Comm freed;
    MPI_Request request;
    int word = 0, n, me;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    CHECK_OK(MPI_Comm_dup(comm, &freed));
    for (int l = 0; l < LENGTHS; l++) pattern_fill(out[l], (size_t) lengths[l], (unsigned) l);
    if (me > 0 || n == 1) post(comm, freed);
    CHECK_OK(MPI_Isendrecv(&pair_out, 1, MPI_INT, (me + 1) % n, REST, &pair_in, 1, MPI_INT, (me + n - 1) % n, REST, comm, &request));
    CHECK_OK(MPI_Request_free(&request));
    if (me == 1) {
        CHECK_OK(MPI_Irecv(late, LONG, MPI_CHAR, n > 2 ? 2 : 0, GO, comm, &request));
        CHECK_OK(MPI_Request_free(&request));
    }
    if (me == 0) {
        pause_ms(100);
        for (int r = n > 1; r < n; r++) send_all(comm, freed, r);
        if (n > 2) CHECK_OK(MPI_Ssend(&word, 1, MPI_INT, 2, GO, comm));
        if (n == 2) CHECK_OK(MPI_Ssend(out[2], LONG, MPI_CHAR, 1, GO, comm));
        if (n > 2) CHECK_OK(MPI_Recv(&word, 1, MPI_INT, 2, GO, comm, MPI_STATUS_IGNORE));
    }
    if (me == 2) {
        CHECK_OK(MPI_Recv(&word, 1, MPI_INT, 0, GO, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Ssend(out[2], LONG, MPI_CHAR, 1, GO, comm));
        CHECK_OK(MPI_Send(&word, 1, MPI_INT, 0, GO, comm));
    }
    CHECK_OK(MPI_Comm_free(&freed));
}

static void has_come(void)
{
    if (rank > 0 || size == 1) has_all_come();
    if (pair_in != pair_out) printf("rank %d has not got its part of an exchange\n", rank), check_failures++;
    if (rank == 1 && pattern_differs(late, LONG, 2) != -1)
        printf("rank 1 has not got the message of a late rank\n"), check_failures++;
    pair_in = -1;
    if (late) memset(late, 0, LONG);
}

int main(int argc, char **argv)
{
    check_watch();
    MPI_Init(&argc, &argv);
    check_ranks();
    for (int l = 0; l < LENGTHS; l++) out[l] = allocate((size_t) lengths[l]);
    late = allocate(LONG);
    check_where("the world");
    talk(MPI_COMM_WORLD);
    post_in_vain(MPI_COMM_WORLD);
    MPI_Finalize();
    has_come();

    for (int round = 0; round < 3; round++) {
        MPI_Session session = open_session();
        check_where("session %d", round);
        MPI_Comm comm = comm_of(session, "talk");
        talk(comm);
        MPI_Comm_free(&comm);
        close_session(&session);
        has_come();
    }
    if (rank == 0) printf(check_failures == 0 ? "ok\n" : "%d failures\n", check_failures);
    return check_failures != 0;
}
