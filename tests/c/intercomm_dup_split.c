// ranks: 1 2 4 7
// transports: all
/* Intercommunicators made from intercommunicators: dup, split, create. */
#include "comms.h"

static MPI_Comm half, inter;

static void check_groups(MPI_Comm comm, const int *local, int locals, const int *remote, int remotes, int line)
{
    int got[64];
    check_comm(comm, local, locals, __FILE__, line);
    int n = remote_members_of(comm, got);
    check_members(got, n, remote, remotes, __FILE__, line);
    use_inter(comm);
}

static void duplicates(void)
{
    MPI_Comm twins[3];
    int local[64], remote[64], locals = parity(rank % 2, local), remotes = parity(1 - rank % 2, remote);
    check_where("duplicates");
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_dup(i ? twins[i - 1] : inter, &twins[i]));
    for (int i = 2; i >= 0; i--) check_groups(twins[i], local, locals, remote, remotes, __LINE__);
    /* A message in one is not received in another. */
    int out[3], in = -1, me;
    MPI_Request sends[3];
    CHECK_OK(MPI_Comm_rank(inter, &me));
    if (me < remotes) {
        for (int i = 0; i < 3; i++) {
            out[i] = i;
            CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, me, 0, twins[i], &sends[i]));
        }
        for (int i = 2; i >= 0; i--) {
            CHECK_OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twins[i], MPI_STATUS_IGNORE));
            CHECK_EQ(in, i);
        }
        CHECK_OK(MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_free(&twins[i]));
}

static int part(int odd, int color, int colors, int *ranks)
{
    int n = 0;
    for (int r = size - 1; r >= 0; r--)
        if (r % 2 == odd && r / 2 % colors == color) ranks[n++] = r;
    return n;
}

/* Colours are common to both groups; if one side has no rank of a colour, there is no
 * communicator. */
static void split(int colors)
{
    MPI_Comm piece = MPI_COMM_SELF;
    int local[64], remote[64], color = rank / 2 % colors;
    int locals = part(rank % 2, color, colors, local), remotes = part(1 - rank % 2, color, colors, remote);
    check_where("split in %d", colors);
    CHECK_OK(MPI_Comm_split(inter, color, -rank, &piece));
    if (remotes == 0) {
        CHECK(piece == MPI_COMM_NULL);
        return;
    }
    check_groups(piece, local, locals, remote, remotes, __LINE__);
    MPI_Comm merged;
    CHECK_OK(MPI_Intercomm_merge(piece, rank % 2 == 0, &merged));
    use(merged);
    CHECK_OK(MPI_Comm_free(&merged));
    CHECK_OK(MPI_Comm_free(&piece));
}

static void nobody(void)
{
    MPI_Comm piece = MPI_COMM_SELF;
    check_where("nobody");
    CHECK_OK(MPI_Comm_split(inter, rank % 2, 0, &piece)); /* each side has its own colour */
    CHECK(piece == MPI_COMM_NULL);
    piece = MPI_COMM_SELF;
    CHECK_OK(MPI_Comm_split(inter, rank % 2 ? MPI_UNDEFINED : 0, 0, &piece));
    CHECK(piece == MPI_COMM_NULL);
    piece = MPI_COMM_SELF;
    int code = MPI_Comm_split(inter, rank == 0 ? -3 : 0, 0, &piece);
    CHECK_CLASS(code, rank == 0 ? MPI_ERR_ARG : MPI_SUCCESS);
    if (size < 3) CHECK(piece == (rank == 0 ? MPI_COMM_SELF : MPI_COMM_NULL));
    if (rank > 0 && piece != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&piece));
}

static void created(void)
{
    MPI_Comm made = MPI_COMM_SELF;
    MPI_Group mine, group;
    int places[2], n, want[64], locals, remotes, remote[64];
    check_where("created");
    CHECK_OK(MPI_Comm_group(inter, &mine));
    CHECK_OK(MPI_Group_size(mine, &n));
    int wanted = n < 2 ? 1 : 2;
    for (int i = 0; i < wanted; i++) places[i] = n - 1 - i;
    CHECK_OK(MPI_Group_incl(mine, wanted, places, &group));
    CHECK_OK(MPI_Comm_create(inter, group, &made));
    locals = members(group, want);
    int member = 0, all[64], m = parity(1 - rank % 2, all);
    for (int i = 0; i < locals; i++) member += want[i] == rank;
    remotes = m < 2 ? 1 : 2;
    for (int i = 0; i < remotes; i++) remote[i] = all[m - 1 - i];
    if (member) {
        check_groups(made, want, locals, remote, remotes, __LINE__);
        CHECK_OK(MPI_Comm_free(&made));
    } else {
        CHECK(made == MPI_COMM_NULL);
    }
    made = MPI_COMM_SELF;
    CHECK_OK(MPI_Comm_create(inter, rank % 2 ? MPI_GROUP_EMPTY : group, &made));
    CHECK(made == MPI_COMM_NULL);
    MPI_Group others;
    made = MPI_COMM_SELF;
    CHECK_OK(MPI_Comm_remote_group(inter, &others));
    CHECK_CLASS(MPI_Comm_create(inter, others, &made), MPI_ERR_GROUP);
    if (size >= 4) {
        MPI_Group one;
        int first = 0;
        CHECK_OK(MPI_Group_incl(mine, 1, &first, &one));
        int code = MPI_Comm_create(inter, rank == 0 ? one : mine, &made);
        CHECK_CLASS(code, MPI_ERR_GROUP);
        CHECK_OK(MPI_Group_free(&one));
    }
    CHECK(made == MPI_COMM_SELF);
    CHECK_OK(MPI_Group_free(&mine));
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Group_free(&others));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    for (int round = 0; round < 3 && size > 1; round++) {
        inter = even_odd(&half, round);
        duplicates();
        for (int colors = 1; colors < 5; colors++) split(colors);
        nobody();
        created();
        use_inter(inter);
        use(half);
        CHECK_OK(MPI_Comm_free(&half));
        CHECK_OK(MPI_Comm_free(&inter));
    }
    return check_end();
}
