// ranks: 1 2 4 7
// transports: all
/* MPI_Comm_create: one group, several disjoint groups at a time, none; wrong groups are errors,
 * not hangs. */
#include "comms.h"

static MPI_Group world;

static MPI_Group chosen(int n, const int *ranks)
{
    MPI_Group group = MPI_GROUP_NULL;
    CHECK_OK(MPI_Group_incl(world, n, ranks, &group));
    return group;
}

static void drop(MPI_Group *group)
{
    CHECK_OK(MPI_Group_free(group));
}

static void reversed(void)
{
    int ranks[64];
    MPI_Comm comm;
    check_where("reversed");
    for (int i = 0; i < size; i++) ranks[i] = size - 1 - i;
    MPI_Group group = chosen(size, ranks);
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    drop(&group); /* the communicator has its own reference */
    CHECK_MEMBERS(comm, ranks, size);
    use(comm);
    CHECK_OK(MPI_Comm_free(&comm));
}

static void one_group(void)
{
    int ranks[64], n = parity(1, ranks);
    MPI_Comm comm = MPI_COMM_WORLD;
    check_where("one group");
    MPI_Group group = chosen(n, ranks);
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    if (rank % 2 == 0) {
        CHECK(comm == MPI_COMM_NULL);
    } else {
        CHECK_MEMBERS(comm, ranks, n);
        use(comm);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    drop(&group);
}

static void disjoint_groups(void)
{
    int ranks[64], n = 0;
    MPI_Comm comm = MPI_COMM_WORLD;
    check_where("disjoint groups");
    for (int r = size - 1; r >= 0; r--)
        if (r % 3 == rank % 3) ranks[n++] = r;
    MPI_Group group = rank % 3 == 2 ? MPI_GROUP_EMPTY : chosen(n, ranks);
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    if (rank % 3 == 2) {
        CHECK(comm == MPI_COMM_NULL);
    } else {
        CHECK_MEMBERS(comm, ranks, n);
        use(comm);
        /* From a communicator whose ranks are others than those of the world. */
        MPI_Comm last = MPI_COMM_WORLD;
        int place = n - 1;
        MPI_Group one;
        CHECK_OK(MPI_Group_incl(group, 1, &place, &one));
        CHECK_OK(MPI_Comm_create(comm, one, &last));
        if (rank == ranks[n - 1]) {
            CHECK_MEMBERS(last, &rank, 1);
            use(last);
            CHECK_OK(MPI_Comm_free(&last));
        }
        CHECK(last == MPI_COMM_NULL);
        drop(&one);
        drop(&group);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &comm));
    CHECK(comm == MPI_COMM_NULL);
}

static void strangers(void)
{
    MPI_Comm comm = MPI_COMM_SELF, half;
    check_where("strangers");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half));
    if (size > 1) {
        CHECK_CLASS(MPI_Comm_create(half, world, &comm), MPI_ERR_GROUP);
        CHECK(comm == MPI_COMM_SELF);
    }
    CHECK_OK(MPI_Comm_free(&half));
}

/* The ranks with wrong groups get an error, as do the ranks in their groups; the others get
 * their communicator. */
static void disagreement(void)
{
    MPI_Comm comm = MPI_COMM_SELF;
    if (size < 4) return;
    check_where("disagreement");
    MPI_Group good = chosen(2, (int[]){3, 0}), other = chosen(2, (int[]){1, 2}), turned = chosen(2, (int[]){2, 1});
    if (rank == 0 || rank == 3) {
        CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, good, &comm));
        CHECK_MEMBERS(comm, ((int[]){3, 0}), 2);
        use(comm);
        CHECK_OK(MPI_Comm_free(&comm));
    } else {
        int code = MPI_Comm_create(MPI_COMM_WORLD, rank == 1 ? other : rank == 2 ? turned : MPI_GROUP_EMPTY, &comm);
        CHECK_CLASS(code, rank < 3 ? MPI_ERR_GROUP : MPI_SUCCESS);
    }
    comm = MPI_COMM_SELF;
    /* Rank 1 has no group: the ranks that give a group with it get an error, too. */
    MPI_Group mine = rank == 1 ? MPI_GROUP_NULL : rank == 2 ? other : good;
    int code = MPI_Comm_create(MPI_COMM_WORLD, mine, &comm);
    CHECK_CLASS(code, rank == 1 || rank == 2 ? MPI_ERR_GROUP : MPI_SUCCESS);
    if (rank == 0 || rank == 3) CHECK_OK(MPI_Comm_free(&comm));
    drop(&good);
    drop(&other);
    drop(&turned);
}

static void arguments(void)
{
    MPI_Comm comm = MPI_COMM_SELF;
    check_where("arguments");
    CHECK_CLASS(MPI_Comm_create(MPI_COMM_NULL, world, &comm), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &comm), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create(MPI_COMM_WORLD, world, NULL), MPI_ERR_ARG);
    CHECK(comm == MPI_COMM_SELF);
    CHECK_CLASS(MPI_Comm_dup(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, NULL), MPI_ERR_ARG);
    use(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int round = 0; round < 3; round++) {
        reversed();
        one_group();
        disjoint_groups();
        strangers();
        disagreement();
        arguments();
    }
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
