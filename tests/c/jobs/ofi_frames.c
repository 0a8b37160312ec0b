/* One-sided and partitioned communication between all ranks, and more communicators than tags
 * can name; prints whether the network has carried frames, and has matched messages. */
#include "../mpit.h"

enum { WORDS = 30000, COMMS = 300, PARTITIONS = 4 };

static void one_sided(void)
{
    long *base, *out = malloc(WORDS * sizeof *out), one = 1, old;
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate((MPI_Aint) (size * WORDS + 1) * (MPI_Aint) sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    for (int i = 0; i <= size * WORDS; i++) base[i] = 0;
    for (int i = 0; i < WORDS; i++) out[i] = rank * WORDS + i;
    CHECK_OK(MPI_Win_fence(0, win));
    for (int to = 0; to < size; to++) {
        CHECK_OK(MPI_Put(out, WORDS, MPI_LONG, to, rank * WORDS, WORDS, MPI_LONG, win));
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, to, size * WORDS, 1, MPI_LONG, MPI_SUM, win));
    }
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_EQ(base[size * WORDS], size);
    for (int i = 0; i < size * WORDS; i++)
        if (base[i] != i) { CHECK_EQ(base[i], i); break; }
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < 20; round++) {
        CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, size * WORDS, MPI_SUM, win));
        CHECK_OK(MPI_Get(out, 100, MPI_LONG, (rank + 1) % size, round * 100, 100, MPI_LONG, win));
        CHECK_OK(MPI_Win_flush_all(win));
        CHECK_EQ(out[99], round * 100 + 99);
    }
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) CHECK_EQ(base[size * WORDS], size + 20 * size);
    CHECK_OK(MPI_Win_free(&win));
    free(out);
}

static void partitioned(void)
{
    int next = (rank + 1) % size, previous = (rank + size - 1) % size, out[PARTITIONS], in[PARTITIONS];
    MPI_Request requests[2];
    CHECK_OK(MPI_Psend_init(out, PARTITIONS, 1, MPI_INT, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    CHECK_OK(MPI_Precv_init(in, PARTITIONS, 1, MPI_INT, previous, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < 5; round++) {
        CHECK_OK(MPI_Startall(2, requests));
        for (int i = 0; i < PARTITIONS; i++) {
            out[i] = rank * 100 + round * 10 + i;
            CHECK_OK(MPI_Pready(i, requests[0]));
        }
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < PARTITIONS; i++) CHECK_EQ(in[i], previous * 100 + round * 10 + i);
    }
    CHECK_OK(MPI_Request_free(&requests[0]));
    CHECK_OK(MPI_Request_free(&requests[1]));
}

static void communicators(void)
{
    static MPI_Comm comms[COMMS];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COMMS; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        for (int i = 0; i < COMMS; i++) {
            int word = -1, sent = rank + i, expected = previous + i;
            CHECK_OK(MPI_Sendrecv(&sent, 1, MPI_INT, next, i, &word, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : previous, i, comms[i], MPI_STATUS_IGNORE));
            CHECK_EQ(word, expected);
        }
        for (int i = 0; i < COMMS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    }
}

int main(int argc, char **argv)
{
    unsigned long long own[2], all[2];
    int provided;
    MPI_T_pvar_session session;
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle matched = started(session, "tagged_messages_received", NULL);
    communicators();
    MPI_T_pvar_handle frames = started(session, "tagged_frames_received", NULL);
    own[0] = value(session, matched);
    one_sided();
    partitioned();
    own[1] = value(session, frames);
    CHECK_OK(MPI_Reduce(own, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_MIN, 0, MPI_COMM_WORLD));
    if (rank == 0) printf("%s matched, %s\n", all[0] ? "messages were" : "nothing was", all[1] > 10 ? "frames have come" : "no frames");
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_finalize());
    return check_end();
}
