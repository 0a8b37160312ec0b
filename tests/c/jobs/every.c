/* Every collective of MPI once, for the report of coll_verbose: KIND COUNT FORM. KIND is the
 * communicator: dup (of the world), self, cart, inter, merged, or several (of two jobs: settings
 * that would have to be equal in both are refused). COUNT is the number of ints of a block. FORM
 * is blocking, nonblocking or persistent. Data are zeros: other programs check results. */
#include "../check.h"

#include <mpi-ext.h>

enum { BLOCKING, NONBLOCKING, PERSISTENT };

static int form, count, ranks, *in, *out, *counts, *places, *offsets;
static MPI_Datatype *types;

static int finish(int error, MPI_Request *request)
{
    if (error != MPI_SUCCESS || form == BLOCKING) return error;
    if (form == PERSISTENT) CHECK_OK(MPI_Start(request));
    error = MPI_Wait(request, MPI_STATUS_IGNORE);
    if (form == PERSISTENT) MPI_Request_free(request);
    return error;
}

#define CALL(name, ...)                                                                                  \
    do {                                                                                                 \
        MPI_Request request = MPI_REQUEST_NULL;                                                          \
        int error = form == BLOCKING      ? MPI_##name(__VA_ARGS__)                                      \
                    : form == NONBLOCKING ? MPI_I##name##_of(__VA_ARGS__, &request)                      \
                                          : MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request);     \
        check_where(#name);                                                                              \
        CHECK_OK(finish(error, &request));                                                               \
    } while (0)

#define MPI_IBarrier_of MPI_Ibarrier
#define MPI_IBcast_of MPI_Ibcast
#define MPI_IGather_of MPI_Igather
#define MPI_IGatherv_of MPI_Igatherv
#define MPI_IScatter_of MPI_Iscatter
#define MPI_IScatterv_of MPI_Iscatterv
#define MPI_IAllgather_of MPI_Iallgather
#define MPI_IAllgatherv_of MPI_Iallgatherv
#define MPI_IAlltoall_of MPI_Ialltoall
#define MPI_IAlltoallv_of MPI_Ialltoallv
#define MPI_IAlltoallw_of MPI_Ialltoallw
#define MPI_IReduce_of MPI_Ireduce
#define MPI_IAllreduce_of MPI_Iallreduce
#define MPI_IReduce_scatter_of MPI_Ireduce_scatter
#define MPI_IReduce_scatter_block_of MPI_Ireduce_scatter_block
#define MPI_IScan_of MPI_Iscan
#define MPI_IExscan_of MPI_Iexscan
#define MPI_INeighbor_allgather_of MPI_Ineighbor_allgather
#define MPI_INeighbor_allgatherv_of MPI_Ineighbor_allgatherv
#define MPI_INeighbor_alltoall_of MPI_Ineighbor_alltoall
#define MPI_INeighbor_alltoallv_of MPI_Ineighbor_alltoallv
#define MPI_INeighbor_alltoallw_of MPI_Ineighbor_alltoallw

static void call_all(MPI_Comm comm, int root)
{
    int inter, topology;
    const MPI_Datatype type = MPI_INT;
    MPI_Comm_test_inter(comm, &inter);
    CALL(Barrier, comm);
    CALL(Bcast, in, count, type, root, comm);
    CALL(Gather, in, count, type, out, count, type, root, comm);
    CALL(Gatherv, in, count, type, out, counts, places, type, root, comm);
    CALL(Scatter, in, count, type, out, count, type, root, comm);
    CALL(Scatterv, in, counts, places, type, out, count, type, root, comm);
    CALL(Allgather, in, count, type, out, count, type, comm);
    CALL(Allgatherv, in, count, type, out, counts, places, type, comm);
    CALL(Alltoall, in, count, type, out, count, type, comm);
    CALL(Alltoallv, in, counts, places, type, out, counts, places, type, comm);
    CALL(Alltoallw, in, counts, offsets, types, out, counts, offsets, types, comm);
    CALL(Reduce, in, out, count, type, MPI_SUM, root, comm);
    CALL(Allreduce, in, out, count, type, MPI_SUM, comm);
    if (inter) return;
    CALL(Reduce_scatter, in, out, counts, type, MPI_SUM, comm);
    CALL(Reduce_scatter_block, in, out, count, type, MPI_SUM, comm);
    CALL(Scan, in, out, count, type, MPI_SUM, comm);
    CALL(Exscan, in, out, count, type, MPI_SUM, comm);
    MPI_Topo_test(comm, &topology);
    if (topology == MPI_UNDEFINED) return;
    MPI_Aint far[2] = {0, (MPI_Aint) sizeof *in * count};
    CALL(Neighbor_allgather, in, count, type, out, count, type, comm);
    CALL(Neighbor_allgatherv, in, count, type, out, counts, places, type, comm);
    CALL(Neighbor_alltoall, in, count, type, out, count, type, comm);
    CALL(Neighbor_alltoallv, in, counts, places, type, out, counts, places, type, comm);
    CALL(Neighbor_alltoallw, in, counts, far, types, out, counts, far, types, comm);
}

/* Settings that would have to be equal in both jobs are refused, and those of the world do not
 * count. */
static void check_several(MPI_Comm inter, MPI_Comm all)
{
    MPI_Comm both[2] = {inter, all}, made;
    MPI_Info basic, info;
    MPI_Request request;
    char name[32];
    int flag, length = sizeof name;
    MPI_Info_create(&basic);
    MPI_Info_set(basic, MPIX_MCA_COLL_KEY, "basic");
    for (int i = 0; i < 2; i++) {
        MPI_Comm_set_errhandler(both[i], MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Comm_set_attr(both[i], MPIX_MCA_COLL, "basic"), MPI_ERR_ARG);
        CHECK_CLASS(MPI_Comm_set_attr(both[i], MPIX_COLL_BASE_ASSOCIATIVE, "0"), MPI_ERR_ARG);
        CHECK_CLASS(MPI_Comm_dup_with_info(both[i], basic, &made), MPI_ERR_INFO_VALUE);
        CHECK_CLASS(MPI_Comm_idup_with_info(both[i], basic, &made, &request), MPI_ERR_INFO_VALUE);
        CHECK_OK(MPI_Comm_get_info(both[i], &info));
        MPI_Info_get_string(info, MPIX_MCA_COLL_KEY, &length, name, &flag);
        CHECK(!flag);
        MPI_Info_free(&info);
    }
    CHECK_CLASS(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, basic, &made), MPI_ERR_INFO_VALUE);
    MPI_Info_free(&basic);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, comm = MPI_COMM_NULL, half, inter;
    check_begin(&argc, &argv);
    const char *kind = argc > 1 ? argv[1] : "dup", *word = argc > 3 ? argv[3] : "blocking";
    count = argc > 2 ? atoi(argv[2]) : 1;
    form = !strcmp(word, "persistent") ? PERSISTENT : !strcmp(word, "nonblocking") ? NONBLOCKING : BLOCKING;
    int lower = rank < size / 2, root = 0, periodic = 1;
    MPI_Comm_get_parent(&parent);
    if (!strcmp(kind, "self")) comm = MPI_COMM_SELF;
    if (!strcmp(kind, "dup")) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (!strcmp(kind, "cart")) MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm);
    if (!strcmp(kind, "inter") || !strcmp(kind, "merged")) {
        MPI_Comm_split(MPI_COMM_WORLD, lower, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, lower ? size / 2 : 0, 7, &inter);
        MPI_Comm_free(&half);
        comm = inter;
        if (!strcmp(kind, "inter")) root = lower ? rank == 0 ? MPI_ROOT : MPI_PROC_NULL : 0;
        if (!strcmp(kind, "merged")) MPI_Intercomm_merge(inter, !lower, &comm), MPI_Comm_free(&inter);
    }
    if (!strcmp(kind, "several")) {
        inter = parent;
        if (parent == MPI_COMM_NULL) {
            MPI_Comm_set_attr(MPI_COMM_WORLD, MPIX_MCA_COLL, "basic");
            MPI_Comm_spawn(argv[0], argv + 1, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
        }
        MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &comm);
        check_several(inter, comm);
        MPI_Comm_disconnect(&inter);
    }
    MPI_Comm_size(comm, &ranks);
    if (ranks < size) ranks = size;
    in = calloc((size_t) count * ranks + 1, sizeof *in), out = calloc((size_t) count * ranks + 1, sizeof *out);
    counts = calloc(ranks, sizeof *counts), places = calloc(ranks, sizeof *places);
    offsets = calloc(ranks, sizeof *offsets), types = calloc(ranks, sizeof *types);
    for (int i = 0; i < ranks; i++) {
        counts[i] = count, places[i] = i * count, offsets[i] = (int) sizeof *in * places[i], types[i] = MPI_INT;
    }
    call_all(comm, root);
    free(in), free(out), free(counts), free(places), free(offsets), free(types);
    if (comm != MPI_COMM_SELF) MPI_Comm_free(&comm);
    return check_end();
}
