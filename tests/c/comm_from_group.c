// ranks: 1 2 4 7
// transports: all
/* Communicators and intercommunicators from groups alone, with hints and an error handler. */
#include "comms.h"

static int handled;

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void) comm, (void) code;
    handled++;
}

static MPI_Group ranks_where(int keep(int))
{
    MPI_Group all, some;
    int ranks[64], count = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    for (int r = size - 1; r >= 0; r--)
        if (keep(r)) ranks[count++] = r;
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Group_free(&all);
    return some;
}

static int even(int r) { return r % 2 == 0; }
static int odd(int r) { return r % 2 == 1; }

static void intra(void)
{
    check_where("intra");
    MPI_Group mine = ranks_where(rank % 2 ? odd : even);
    MPI_Errhandler handler;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info, used;
    char hint[8] = "";
    int flag = 0, length = sizeof hint, position;
    MPI_Comm_create_errhandler(handle, &handler);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_exact_length", "true");
    CHECK_OK(MPI_Comm_create_from_group(mine, "org.example.halves", info, handler, &comm));
    MPI_Errhandler_free(&handler);
    MPI_Info_free(&info);
    /* The ranks are in the order of the group. */
    MPI_Comm_rank(comm, &position);
    int wanted;
    MPI_Group_rank(mine, &wanted);
    CHECK_EQ(position, wanted);
    use(comm);
    MPI_Comm_get_info(comm, &used);
    MPI_Info_get_string(used, "mpi_assert_exact_length", &length, hint, &flag);
    CHECK(flag && !strcmp(hint, "true"));
    MPI_Info_free(&used);
    handled = 0;
    int nothing = 0;
    MPI_Send(&nothing, 1, MPI_INT, 99, 0, comm);
    CHECK_EQ(handled, 1);
    MPI_Comm_free(&comm);
    MPI_Group_free(&mine);
}

static void inter(void)
{
    if (size < 2) return;
    check_where("inter");
    MPI_Group mine = ranks_where(rank % 2 ? odd : even), theirs = ranks_where(rank % 2 ? even : odd);
    MPI_Comm comm = MPI_COMM_NULL;
    int flag = 0, remote = -1, wanted;
    CHECK_OK(MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "halves", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    MPI_Comm_test_inter(comm, &flag);
    CHECK(flag);
    MPI_Comm_remote_size(comm, &remote);
    MPI_Group_size(theirs, &wanted);
    CHECK_EQ(remote, wanted);
    int position, partner = -1;
    MPI_Comm_rank(comm, &position);
    if (position == 0) {
        MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &partner, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
        CHECK_EQ(partner % 2, 1 - rank % 2);
    }
    CHECK_CLASS(MPI_Send(&flag, 1, MPI_INT, size, 0, comm), MPI_ERR_RANK);
    MPI_Comm_free(&comm);
    MPI_Group_free(&mine);
    MPI_Group_free(&theirs);
}

static void errors(void)
{
    check_where("errors");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Group all;
    MPI_Comm comm = MPI_COMM_WORLD;
    static char tag[MPI_MAX_STRINGTAG_LEN + 1];
    memset(tag, 'x', sizeof tag - 1);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    CHECK_OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "nobody", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK(comm == MPI_COMM_NULL);
    CHECK_CLASS(MPI_Comm_create_from_group(all, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_create_from_group(all, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_create_from_group(MPI_GROUP_NULL, "t", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create_from_group(all, "t", MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &comm), MPI_ERR_ERRHANDLER);
    CHECK_CLASS(MPI_Intercomm_create_from_groups(all, 0, all, 0, "t", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
                MPI_ERR_GROUP);
    if (size > 1) {
        int other = (rank + 1) % size;
        MPI_Group without;
        MPI_Group_incl(all, 1, &other, &without);
        CHECK_CLASS(MPI_Comm_create_from_group(without, "t", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_GROUP);
        MPI_Group_free(&without);
    }
    MPI_Comm parent = MPI_COMM_WORLD;
    CHECK_OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    MPI_Group_free(&all);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    intra();
    inter();
    errors();
    return check_end();
}
