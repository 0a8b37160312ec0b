// ranks: 2
/* Messages at the limits of MPI_TAG_UB and of all lengths between each two ranks, received by
 * source and from any source; prints how many the network has matched. */
#include "../mpit.h"

#include <stdint.h>

enum { LONGEST = 1000001 };

static const int lengths[] = {0, 1, 8, 4000, 20000, 70000, LONGEST};
static unsigned char *out, *in;

static void exchange(int peer, int tag, int from, int length)
{
    MPI_Request request;
    MPI_Status status;
    int count;
    pattern_fill(out, (size_t) length, (unsigned) (rank * 7 + tag));
    memset(in, 0, (size_t) length + 1);
    CHECK_OK(MPI_Isend(out, length, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(in, LONGEST, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, length);
    CHECK_EQ(status.MPI_SOURCE, peer);
    CHECK_EQ(status.MPI_TAG, tag);
    CHECK_EQ(pattern_differs(in, (size_t) length, (unsigned) (peer * 7 + tag)), -1);
}

/* Many messages in each direction that have arrived before the first receive: whether several
 * completions were read at once. */
static int batched(MPI_T_pvar_session session, MPI_T_pvar_handle reads)
{
    enum { MANY = 40 };
    MPI_Request requests[2 * MANY];
    int words[MANY], peer = rank ^ 1;
    if (peer >= size) return 1;
    for (int i = 0; i < MANY; i++) CHECK_OK(MPI_Irecv(&words[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]));
    CHECK_OK(MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, MANY, NULL, 0, MPI_BYTE, peer, MANY, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    number before = value(session, reads);
    for (int i = 0; i < MANY; i++) CHECK_OK(MPI_Isend(&rank, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[MANY + i]));
    pause_ms(200);
    CHECK_OK(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK_EQ(words[i], peer);
    return value(session, reads) - before < 2 * MANY;
}

int main(int argc, char **argv)
{
    int *limit, found, provided, word = 0;
    unsigned long long own[2], all[2];
    MPI_Request request;
    MPI_T_pvar_session session;
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    return_errors();
    CHECK_OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle sent = started(session, "tagged_messages_sent", NULL);
    MPI_T_pvar_handle received = started(session, "tagged_messages_received", NULL);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found));
    CHECK(found);
    MPI_T_pvar_handle reads = started(session, "tagged_completion_reads", NULL);
    out = malloc(LONGEST + 1);
    in = malloc(LONGEST + 1);
    int own_batch = batched(session, reads), batch = 0;
    for (int step = 1; step < size; step++) {
        int peer = rank ^ step;
        if (peer >= size) continue;
        for (int k = 0; k < (int) (sizeof lengths / sizeof *lengths); k++) {
            exchange(peer, k, peer, lengths[k]);
            exchange(peer, *limit - k, MPI_ANY_SOURCE, lengths[k]);
        }
    }
    if (*limit < INT32_MAX) {
        int beyond = *limit + 1;
        CHECK_CLASS(MPI_Send(&word, 1, MPI_INT, rank, beyond, MPI_COMM_WORLD), MPI_ERR_TAG);
        CHECK_CLASS(MPI_Irecv(&word, 1, MPI_INT, MPI_ANY_SOURCE, beyond, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
        CHECK_CLASS(MPI_Iprobe(MPI_ANY_SOURCE, beyond, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE), MPI_ERR_TAG);
        CHECK_CLASS(MPI_Send_init(&word, 1, MPI_INT, rank, beyond, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
    }
    own[0] = value(session, sent);
    own[1] = value(session, received);
    CHECK_OK(MPI_Reduce(own, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Reduce(&own_batch, &batch, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD));
    if (rank == 0 && argc > 1 && strcmp(argv[1], "batch") == 0) printf("completions were read %s\n", batch ? "in batches" : "one by one");
    if (rank == 0) printf("MPI_TAG_UB %d, %s matched\n", *limit, all[0] && all[1] ? "messages were" : "nothing was");
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_finalize());
    free(out);
    free(in);
    return check_end();
}
