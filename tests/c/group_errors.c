// ranks: 1 2 4 7
// transports: one
/* Wrong arguments of the calls on groups: the class is that of the standard, and nothing is
 * written. */
#include "comms.h"

static MPI_Group world;
static MPI_Group untouched;

#define FAILS(call, class)                                                                                             \
    do {                                                                                                               \
        untouched = MPI_GROUP_EMPTY;                                                                                   \
        CHECK_CLASS(call, class);                                                                                      \
        CHECK(untouched == MPI_GROUP_EMPTY);                                                                           \
    } while (0)

static void handles(MPI_Group bad)
{
    int value = 0, zero = 0, range[1][3] = {{0, 0, 1}};
    FAILS(MPI_Group_size(bad, &value), MPI_ERR_GROUP);
    FAILS(MPI_Group_rank(bad, &value), MPI_ERR_GROUP);
    FAILS(MPI_Group_compare(bad, world, &value), MPI_ERR_GROUP);
    FAILS(MPI_Group_compare(world, bad, &value), MPI_ERR_GROUP);
    FAILS(MPI_Group_translate_ranks(bad, 1, &zero, world, &value), MPI_ERR_GROUP);
    FAILS(MPI_Group_translate_ranks(world, 1, &zero, bad, &value), MPI_ERR_GROUP);
    FAILS(MPI_Group_union(bad, world, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_union(world, bad, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_intersection(world, bad, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_difference(bad, world, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_incl(bad, 1, &zero, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_excl(bad, 1, &zero, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_range_incl(bad, 1, range, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_range_excl(bad, 1, range, &untouched), MPI_ERR_GROUP);
    FAILS(MPI_Group_free(&bad), MPI_ERR_GROUP);
}

static void ranks(void)
{
    int out[4] = {-9, -9, -9, -9};
    int twice[2] = {0, 0}, beyond[1] = {size}, negative[1] = {-1}, null[1] = {MPI_PROC_NULL};
    int *wrong[] = {beyond, negative, null};
    check_where("ranks");
    for (int i = 0; i < 3; i++) {
        FAILS(MPI_Group_incl(world, 1, wrong[i], &untouched), MPI_ERR_RANK);
        FAILS(MPI_Group_excl(world, 1, wrong[i], &untouched), MPI_ERR_RANK);
    }
    for (int i = 0; i < 2; i++) FAILS(MPI_Group_translate_ranks(world, 1, wrong[i], world, out), MPI_ERR_RANK);
    int second[2] = {0, size};
    FAILS(MPI_Group_translate_ranks(world, 2, second, world, out), MPI_ERR_RANK);
    CHECK_EQ(out[0], -9);
    FAILS(MPI_Group_translate_ranks(MPI_GROUP_EMPTY, 1, twice, world, out), MPI_ERR_RANK);
    FAILS(MPI_Group_incl(world, 2, twice, &untouched), MPI_ERR_RANK);
    FAILS(MPI_Group_excl(world, 2, twice, &untouched), MPI_ERR_RANK);
    FAILS(MPI_Group_incl(world, -1, twice, &untouched), MPI_ERR_ARG);
    FAILS(MPI_Group_excl(world, -1, twice, &untouched), MPI_ERR_ARG);
    FAILS(MPI_Group_translate_ranks(world, -1, twice, world, out), MPI_ERR_ARG);
}

static void range(int first, int last, int stride, int class)
{
    int ranges[1][3] = {{first, last, stride}};
    FAILS(MPI_Group_range_incl(world, 1, ranges, &untouched), class);
    FAILS(MPI_Group_range_excl(world, 1, ranges, &untouched), class);
}

static void ranges(void)
{
    check_where("ranges");
    range(0, size - 1, 0, MPI_ERR_ARG);
    range(0, size, 1, MPI_ERR_RANK);
    range(-1, 0, 1, MPI_ERR_RANK);
    range(size, 0, -1, MPI_ERR_RANK);
    if (size > 1) {
        range(0, size - 1, -1, MPI_ERR_ARG);
        range(size - 1, 0, 1, MPI_ERR_ARG);
    }
    int twice[2][3] = {{0, size - 1, 1}, {size - 1, size - 1, 1}};
    FAILS(MPI_Group_range_incl(world, 2, twice, &untouched), MPI_ERR_RANK);
    FAILS(MPI_Group_range_excl(world, 2, twice, &untouched), MPI_ERR_RANK);
    FAILS(MPI_Group_range_incl(world, -2, twice, &untouched), MPI_ERR_ARG);
}

static void pointers(void)
{
    int zero = 0, out;
    check_where("null pointers");
    FAILS(MPI_Group_size(world, NULL), MPI_ERR_ARG);
    FAILS(MPI_Group_rank(world, NULL), MPI_ERR_ARG);
    FAILS(MPI_Group_compare(world, world, NULL), MPI_ERR_ARG);
    FAILS(MPI_Group_incl(world, 1, NULL, &untouched), MPI_ERR_ARG);
    FAILS(MPI_Group_incl(world, 1, &zero, NULL), MPI_ERR_ARG);
    FAILS(MPI_Group_union(world, world, NULL), MPI_ERR_ARG);
    FAILS(MPI_Group_range_excl(world, 1, NULL, &untouched), MPI_ERR_ARG);
    FAILS(MPI_Group_translate_ranks(world, 1, NULL, world, &out), MPI_ERR_ARG);
    FAILS(MPI_Group_translate_ranks(world, 1, &zero, world, NULL), MPI_ERR_ARG);
    FAILS(MPI_Group_free(NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_group(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
}

static void communicators(void)
{
    check_where("communicators");
    FAILS(MPI_Comm_group(MPI_COMM_NULL, &untouched), MPI_ERR_COMM);
    FAILS(MPI_Comm_remote_group(MPI_COMM_NULL, &untouched), MPI_ERR_COMM);
    FAILS(MPI_Comm_remote_group(MPI_COMM_WORLD, &untouched), MPI_ERR_COMM);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    check_where("MPI_GROUP_NULL");
    handles(MPI_GROUP_NULL);
    check_where("a handle that never was");
    handles((MPI_Group) 0x123456789abcdefL);
    check_where("a freed group");
    MPI_Group freed, kept;
    CHECK_OK(MPI_Group_incl(world, 1, (int[]){0}, &freed));
    kept = freed;
    CHECK_OK(MPI_Group_free(&freed));
    handles(kept);
    ranks();
    ranges();
    pointers();
    communicators();
    int n = -1;
    CHECK_OK(MPI_Group_size(world, &n)); /* the errors have changed nothing */
    CHECK_EQ(n, size);
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
