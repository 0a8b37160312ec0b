/* The collective component smp with long vectors: SEGMENT BYTES. Results are checked, and
 * performance variables show that smp has served and that each vector had segments of this
 * length, or was in one piece (0): a rank in a chain receives every segment once. */
#include "../mpit.h"

enum { ELEMENTS = 262144, COLLECTIVES = 3 };

static long long *given, *result;

static long long element(int of, int at) { return of * 7919LL + at % 1009; }

static long long sum(int at)
{
    long long all = 0;
    for (int of = 0; of < size; of++) all += element(of, at);
    return all;
}

static int run(int kind, int root)
{
    for (int at = 0; at < ELEMENTS; at++) given[at] = element(rank, at), result[at] = -1;
    if (kind == 0) {
        if (rank == root) memcpy(result, given, sizeof *given * ELEMENTS);
        return MPI_Bcast(result, ELEMENTS, MPI_LONG_LONG, root, MPI_COMM_WORLD);
    }
    if (kind == 1) return MPI_Reduce(given, result, ELEMENTS, MPI_LONG_LONG, MPI_SUM, root, MPI_COMM_WORLD);
    return MPI_Allreduce(given, result, ELEMENTS, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
}

static void check(int kind, int root)
{
    if (kind == 1 && rank != root) return;
    for (int at = 0; at < ELEMENTS; at++)
        if (!CHECK_EQ(result[at], kind == 0 ? element(root, at) : sum(at))) return;
}

int main(int argc, char **argv)
{
    static const char *const served[COLLECTIVES] = {"coll_bcast_smp_calls", "coll_reduce_smp_calls", "coll_allreduce_smp_calls"};
    MPI_T_pvar_session session;
    int provided;
    check_begin(&argc, &argv);
    size_t segment = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, bytes = sizeof *given * ELEMENTS;
    number pieces = segment ? (bytes + segment - 1) / segment : 1;
    given = malloc(bytes), result = malloc(bytes);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    meeting_open();
    for (int kind = 0; kind < COLLECTIVES; kind++)
        for (int root = 0; root < (kind == 2 ? 1 : size); root++) {
            MPI_T_pvar_handle calls = started(session, served[kind], NULL);
            MPI_T_pvar_handle near = started(session, "shm_messages_sent", NULL);
            MPI_T_pvar_handle far = started(session, "tcp_messages_sent", NULL);
            check_where("%s, root %d", served[kind], root);
            meet();
            CHECK_OK(run(kind, root));
            CHECK_OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
            meet();
            CHECK_EQ(value(session, calls), 1);
            number sent = value(session, near) + value(session, far), all = 0;
            CHECK_OK(MPI_T_pvar_handle_free(session, &calls));
            CHECK_OK(MPI_T_pvar_handle_free(session, &near));
            CHECK_OK(MPI_T_pvar_handle_free(session, &far));
            CHECK_OK(MPI_Allreduce(&sent, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
            number ways = (number) (size - 1) * (kind == 2 ? 2 : 1);
            if (segment) CHECK_EQ(all, ways * pieces);
            else CHECK(all <= 2 * ways);
            check(kind, root);
        }
    free(given), free(result);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_finalize());
    return check_end();
}
