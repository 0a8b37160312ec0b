// ranks: 1 2 4 7
// transports: all
/* MPI_Intercomm_create: groups of all kinds, wildcard receives of the program that match none of
 * its messages, and every wrong argument. */
#include "comms.h"

static void check_groups(MPI_Comm inter, const int *local, int locals, const int *remote, int remotes, int line)
{
    int got[64];
    check_comm(inter, local, locals, __FILE__, line);
    int n = remote_members_of(inter, got);
    check_members(got, n, remote, remotes, __FILE__, line);
    use_inter(inter);
}

static void halves(void)
{
    int local[64], remote[64], locals = parity(rank % 2, local), remotes = parity(1 - rank % 2, remote);
    MPI_Comm half, inter;
    check_where("even and odd");
    inter = even_odd(&half, 12);
    check_groups(inter, local, locals, remote, remotes, __LINE__);
    CHECK_OK(MPI_Comm_free(&half)); /* the intercommunicator has its own reference */
    check_groups(inter, local, locals, remote, remotes, __LINE__);
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK(inter == MPI_COMM_NULL);
}

/* One against all others; the leaders are the last of their groups, and use a communicator with
 * the ranks in another order. */
static void unequal(void)
{
    MPI_Comm group, meeting, inter;
    int local[64], remote[64], alone = rank == size - 1, n;
    check_where("unequal groups");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &meeting));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, alone, -rank, &group));
    CHECK_OK(MPI_Comm_size(group, &n));
    /* World rank 0 is the last of the many and the last of `meeting`; world rank size - 1 the
     * first there. */
    CHECK_OK(MPI_Intercomm_create(group, n - 1, meeting, alone ? size - 1 : 0, 2147483647, &inter));
    for (int i = 0; i < size - 1; i++) (alone ? remote : local)[i] = size - 2 - i;
    (alone ? local : remote)[0] = size - 1;
    check_groups(inter, local, alone ? 1 : size - 1, remote, alone ? size - 1 : 1, __LINE__);
    MPI_Comm all[] = {group, meeting, inter};
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_free(&all[i]));
}

/* Pairs of single processes, all at the same time; the peer communicator is an
 * intercommunicator. */
static void pairs(void)
{
    MPI_Comm half, inter, pair = MPI_COMM_NULL;
    int me, n;
    check_where("pairs");
    inter = even_odd(&half, 3);
    CHECK_OK(MPI_Comm_rank(inter, &me));
    CHECK_OK(MPI_Comm_remote_size(inter, &n));
    if (me < n) {
        int other = rank ^ 1;
        CHECK_OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, inter, me, 3, &pair));
        check_groups(pair, &rank, 1, &other, 1, __LINE__);
        CHECK_OK(MPI_Comm_free(&pair));
    }
    CHECK_OK(MPI_Comm_free(&half));
    CHECK_OK(MPI_Comm_free(&inter));
}

/* A wildcard receive in the peer communicator, with the same tag: it must not match the leaders'
 * messages. */
static void unseen(void)
{
    MPI_Comm half, inter;
    MPI_Request wild, named;
    int got[2] = {-1, -1}, flag = -1;
    check_where("unseen by receives");
    CHECK_OK(MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &wild));
    CHECK_OK(MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &named));
    for (int i = 0; i < 3; i++) {
        inter = even_odd(&half, 9);
        CHECK_OK(MPI_Comm_free(&half));
        CHECK_OK(MPI_Comm_free(&inter));
    }
    CHECK_OK(MPI_Test(&wild, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    int right = (rank + 1) % size, values[2] = {rank, rank + 100};
    CHECK_OK(MPI_Send(&values[0], 1, MPI_INT, right, 9, MPI_COMM_WORLD));
    CHECK_OK(MPI_Send(&values[1], 1, MPI_INT, right, 9, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&wild, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&named, MPI_STATUS_IGNORE));
    CHECK_EQ(got[0], (rank + size - 1) % size);
    CHECK_EQ(got[1], (rank + size - 1) % size + 100);
}

static void wrong_leaders(void)
{
    MPI_Comm half, inter = MPI_COMM_SELF;
    int first = rank % 2;
    check_where("wrong leaders");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    int n;
    CHECK_OK(MPI_Comm_size(half, &n));
    CHECK_CLASS(MPI_Intercomm_create(half, n, MPI_COMM_WORLD, 1 - first, 1, &inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Intercomm_create(half, -1, MPI_COMM_WORLD, 1 - first, 1, &inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, size, 1, &inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, MPI_PROC_NULL, 1, &inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Intercomm_create(half, 0, MPI_COMM_NULL, 1 - first, 1, &inter), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - first, -1, &inter), MPI_ERR_TAG);
    /* Each leader names itself: then the two groups are one. */
    CHECK_CLASS(MPI_Intercomm_create(half, 0, half, 0, 1, &inter), MPI_ERR_COMM);
    CHECK(inter == MPI_COMM_SELF);
    CHECK_CLASS(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - first, 1, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Intercomm_create(MPI_COMM_NULL, 0, MPI_COMM_WORLD, 1 - first, 1, &inter), MPI_ERR_COMM);
    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - first, 1, &inter));
    use_inter(inter);
    MPI_Comm made = MPI_COMM_SELF;
    CHECK_CLASS(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 1 - first, 1, &made), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_create_group(inter, MPI_GROUP_EMPTY, 1, &made), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Intercomm_merge(half, 0, &made), MPI_ERR_COMM);
    CHECK(made == MPI_COMM_SELF);
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));
}

static void overlapping(void)
{
    MPI_Comm twin, inter = MPI_COMM_SELF;
    check_where("overlapping");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_CLASS(MPI_Intercomm_create(twin, 0, MPI_COMM_WORLD, 0, 1, &inter), MPI_ERR_COMM);
    CHECK(inter == MPI_COMM_SELF);
    CHECK_OK(MPI_Comm_free(&twin));
}

static void handlers(void)
{
    MPI_Comm half, inter;
    int value = 0;
    check_where("error handlers");
    inter = even_odd(&half, 1);
    MPI_Errhandler handler;
    CHECK_OK(MPI_Comm_get_errhandler(inter, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    int n;
    CHECK_OK(MPI_Comm_remote_size(inter, &n));
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, n, 0, inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, n, 0, inter, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    for (int round = 0; round < 2; round++) {
        overlapping();
        if (size < 2) continue;
        halves();
        unequal();
        pairs();
        unseen();
        wrong_leaders();
        handlers();
    }
    return check_end();
}
