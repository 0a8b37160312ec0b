// ranks: 1 2 4 7
// transports: all
// not over: gm, because each rank is on its own node there, without shared memory
// not over: lamd, because its ranks are on two nodes there
// not over: nodes, because its ranks are on two nodes there
/* MPI_Comm_split_type: processes that can share memory; unknown resources give no communicator. */
#include "comms.h"

static void shared(void)
{
    MPI_Comm node;
    int want[64];
    check_where("MPI_COMM_TYPE_SHARED");
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &node));
    for (int i = 0; i < size; i++) want[i] = size - 1 - i;
    CHECK_MEMBERS(node, want, size);
    use(node);
    MPI_Comm again;
    CHECK_OK(MPI_Comm_split_type(node, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &again)); /* ties: the old order */
    CHECK_MEMBERS(again, want, size);
    CHECK_OK(MPI_Comm_free(&again));
    CHECK_OK(MPI_Comm_free(&node));
}

static void some_undefined(void)
{
    MPI_Comm node = MPI_COMM_SELF;
    int want[64], n = parity(1, want);
    check_where("MPI_UNDEFINED");
    int type = rank % 2 ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, MPI_INFO_NULL, &node));
    if (rank % 2 == 0) {
        CHECK(node == MPI_COMM_NULL);
    } else {
        CHECK_MEMBERS(node, want, n);
        use(node);
        CHECK_OK(MPI_Comm_free(&node));
    }
}

static void no_resource(void)
{
    int types[] = {MPI_COMM_TYPE_HW_UNGUIDED, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED};
    for (int i = 0; i < 3; i++) {
        MPI_Comm part = MPI_COMM_SELF;
        check_where("type %d", types[i]);
        CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, types[i], rank, MPI_INFO_NULL, &part));
        CHECK(part == MPI_COMM_NULL);
    }
}

static void process_sets(void)
{
    const char *names[] = {"mpi://WORLD", "mpi://SELF", "MPI://self", "mpi://other"};
    for (int i = 0; i < 4; i++) {
        MPI_Info info;
        MPI_Comm part = MPI_COMM_SELF;
        int want[64] = {rank};
        check_where("process set %s", names[i]);
        CHECK_OK(MPI_Info_create(&info));
        CHECK_OK(MPI_Info_set(info, "mpi_pset_name", names[i]));
        CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_RESOURCE_GUIDED, -rank, info, &part));
        if (i == 3) {
            CHECK(part == MPI_COMM_NULL);
        } else {
            for (int r = 0; i == 0 && r < size; r++) want[r] = size - 1 - r;
            CHECK_MEMBERS(part, want, i == 0 ? size : 1);
            use(part);
            CHECK_OK(MPI_Comm_free(&part));
        }
        CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part));
        CHECK(part == MPI_COMM_NULL);
        CHECK_OK(MPI_Info_free(&info));
    }
}

/* Both groups of an intercommunicator are on the host. */
static void two_groups(void)
{
    if (size < 2) return;
    MPI_Comm half, inter, node;
    int got[64], want[64], n = parity(1 - rank % 2, want);
    check_where("an intercommunicator");
    inter = even_odd(&half, 4);
    CHECK_OK(MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
    check_members(got, remote_members_of(node, got), want, n, __FILE__, __LINE__);
    use_inter(node);
    MPI_Comm all[] = {half, inter, node};
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_free(&all[i]));
}

static void arguments(void)
{
    MPI_Comm part = MPI_COMM_SELF;
    check_where("arguments");
    CHECK_CLASS(MPI_Comm_split_type(MPI_COMM_WORLD, 0, 0, MPI_INFO_NULL, &part), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_split_type(MPI_COMM_WORLD, -1, 0, MPI_INFO_NULL, &part), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_split_type(MPI_COMM_NULL, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    CHECK(part == MPI_COMM_SELF);
    if (size == 1) return;
    int type = rank == 0 ? MPI_COMM_TYPE_SHARED : MPI_COMM_TYPE_HW_UNGUIDED;
    CHECK_CLASS(MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, MPI_INFO_NULL, &part), MPI_ERR_ARG);
    CHECK(part == MPI_COMM_SELF);
    /* A rank with a wrong type takes part, too. */
    int code = MPI_Comm_split_type(MPI_COMM_WORLD, rank == 0 ? 12345 : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part);
    CHECK_CLASS(code, rank == 0 ? MPI_ERR_ARG : MPI_SUCCESS);
    if (rank > 0) CHECK_OK(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    shared();
    some_undefined();
    process_sets();
    no_resource();
    two_groups();
    arguments();
    return check_end();
}
