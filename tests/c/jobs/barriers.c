/* The component sync, with coll_sync_barrier_before and coll_sync_barrier_after as in the
 * arguments BEFORE and AFTER. By the performance variables, exactly each Nth blocking collective
 * of a communicator in which a rank may run ahead has a barrier on that side, and no other call
 * has one. */
#include "../mpit.h"

enum { KINDS = 10, MOST = 20000, VARIABLES_MOST = 32 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[VARIABLES_MOST];
static int known, *in, *out, *counts, *places;

static number barriers(void)
{
    number all = 0;
    for (int i = 0; i < known; i++) all += value(session, handles[i]);
    return all;
}

static void begin_counting(void)
{
    int variables = 0, level, class_of, bound;
    char name[128];
    CHECK_OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_get_num(&variables);
    for (int i = 0; i < variables && known < VARIABLES_MOST; i++) {
        int length = sizeof name;
        CHECK_OK(MPI_T_pvar_get_info(i, name, &length, &level, &class_of, NULL, NULL, NULL, NULL, &bound, NULL, NULL, NULL));
        if (strncmp(name, "coll_barrier_", 13) || strcmp(name + strlen(name) - 6, "_calls")) continue;
        handles[known++] = started(session, name, NULL);
    }
    CHECK(known > 2);
}

static void call(int kind, int count, int root, MPI_Comm comm)
{
    const MPI_Datatype type = MPI_INT;
    switch (kind) {
    case 0: CHECK_OK(MPI_Bcast(in, count, type, root, comm)); break;
    case 1: CHECK_OK(MPI_Gather(in, count, type, out, count, type, root, comm)); break;
    case 2: CHECK_OK(MPI_Gatherv(in, count, type, out, counts, places, type, root, comm)); break;
    case 3: CHECK_OK(MPI_Scatter(in, count, type, out, count, type, root, comm)); break;
    case 4: CHECK_OK(MPI_Scatterv(in, counts, places, type, out, count, type, root, comm)); break;
    case 5: CHECK_OK(MPI_Reduce(in, out, count, type, MPI_SUM, root, comm)); break;
    case 6: CHECK_OK(MPI_Reduce_scatter(in, out, counts, type, MPI_SUM, comm)); break;
    case 7: CHECK_OK(MPI_Scan(in, out, count, type, MPI_SUM, comm)); break;
    case 8: CHECK_OK(MPI_Exscan(in, out, count, type, MPI_SUM, comm)); break;
    default: CHECK_OK(MPI_Reduce_scatter_block(in, out, count, type, MPI_SUM, comm)); break;
    }
}

/* Collectives that synchronize by themselves, and nonblocking ones: they are not counted and
 * have no barriers. */
static void call_others(int count, int root, MPI_Comm comm)
{
    MPI_Request requests[3];
    number before = barriers();
    CHECK_OK(MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm));
    CHECK_OK(MPI_Allgather(in, count, MPI_INT, out, count, MPI_INT, comm));
    CHECK_OK(MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm));
    CHECK_OK(MPI_Ibcast(in, count, MPI_INT, root, comm, &requests[0]));
    CHECK_OK(MPI_Ireduce(in, out, count, MPI_INT, MPI_SUM, root, comm, &requests[1]));
    CHECK_OK(MPI_Bcast_init(out, count, MPI_INT, root, comm, MPI_INFO_NULL, &requests[2]));
    CHECK_OK(MPI_Start(&requests[2]));
    CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Request_free(&requests[2]));
    CHECK_EQ(barriers() - before, 0);
    CHECK_OK(MPI_Barrier(comm));
    CHECK_EQ(barriers() - before, 1);
}

int main(int argc, char **argv)
{
    int provided;
    check_begin(&argc, &argv);
    const int every_before = argc > 1 ? atoi(argv[1]) : 0, every_after = argc > 2 ? atoi(argv[2]) : 0;
    enum { COMMS = 3 };
    MPI_Comm comms[COMMS] = {MPI_COMM_WORLD};
    int done[COMMS] = {0};
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, -rank, &comms[2]);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    begin_counting();
    in = calloc((size_t) MOST * size, sizeof *in), out = calloc((size_t) MOST * size, sizeof *out);
    counts = calloc(size, sizeof *counts), places = calloc(size, sizeof *places);
    const int sizes[] = {1, 0, 500, MOST};
    for (int turn = 0; turn < 200; turn++) {
        /* Two calls on one communicator, then on another: each has its own counts. */
        int which = turn / 2 % COMMS, count = sizes[turn / 3 % 4], kind = turn % KINDS, ranks;
        MPI_Comm_size(comms[which], &ranks);
        for (int r = 0; r < size; r++) counts[r] = count, places[r] = r * count;
        check_where("turn %d, communicator %d, kind %d, count %d", turn, which, kind, count);
        if (turn % 7 == 0 && ranks > 1) call_others(count, ranks - 1, comms[which]);
        number before = barriers();
        call(kind, count, turn % ranks, comms[which]);
        done[which]++;
        int wanted = (every_before > 0 && done[which] % every_before == 0) + (every_after > 0 && done[which] % every_after == 0);
        CHECK_EQ(barriers() - before, ranks > 1 ? wanted : 0);
    }
    check_where("%s", "");
    for (int i = 0; i < known; i++) CHECK_OK(MPI_T_pvar_handle_free(session, &handles[i]));
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_finalize());
    MPI_Comm_free(&comms[1]), MPI_Comm_free(&comms[2]);
    free(in), free(out), free(counts), free(places);
    return check_end();
}
