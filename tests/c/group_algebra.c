// ranks: 1 2 4 7
// transports: one
/* Groups: the algebra of ordered sets, ranks, translation, comparison, and the integer forms of
 * handles. */
#include "comms.h"

static MPI_Group world;

static MPI_Group chosen(int n, const int *ranks)
{
    MPI_Group group = MPI_GROUP_NULL;
    CHECK_OK(MPI_Group_incl(world, n, ranks, &group));
    return group;
}

#define CHECK_GROUP(group, n, ...) check_group((group), (n), (int[]){__VA_ARGS__}, __LINE__)

static void check_group(MPI_Group group, int n, const int *want, int line)
{
    int got[64], me = -2, expected = MPI_UNDEFINED;
    int count = members(group, got);
    check_members(got, count, want, n, __FILE__, line);
    for (int i = 0; i < n; i++)
        if (want[i] == rank) expected = i;
    CHECK_OK(MPI_Group_rank(group, &me));
    check_equal(me, expected, __FILE__, line, "the rank in the group", "the place of this process");
}

static int compared(MPI_Group a, MPI_Group b)
{
    int result = -1;
    CHECK_OK(MPI_Group_compare(a, b, &result));
    return result;
}

static void of_communicators(void)
{
    MPI_Group self, again;
    int n = -1;
    check_where("groups of communicators");
    CHECK_OK(MPI_Group_size(world, &n));
    CHECK_EQ(n, size);
    CHECK_OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    CHECK_GROUP(self, 1, rank);
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &again));
    CHECK_EQ(compared(world, again), MPI_IDENT);
    CHECK_EQ(compared(world, self), size == 1 ? MPI_IDENT : MPI_UNEQUAL);
    CHECK_OK(MPI_Group_free(&self));
    CHECK_OK(MPI_Group_free(&again));
    CHECK(self == MPI_GROUP_NULL);
}

static void empty(void)
{
    MPI_Group none, other;
    const int from[] = {0, MPI_PROC_NULL};
    int n = -1, me = 0, there[] = {-9, -9};
    check_where("the empty group");
    CHECK_OK(MPI_Group_size(MPI_GROUP_EMPTY, &n));
    CHECK_EQ(n, 0);
    CHECK_OK(MPI_Group_rank(MPI_GROUP_EMPTY, &me));
    CHECK_EQ(me, MPI_UNDEFINED);
    none = chosen(0, NULL);
    CHECK(none == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_difference(world, world, &other));
    CHECK(other == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_intersection(world, MPI_GROUP_EMPTY, &other));
    CHECK(other == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_union(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY, &other));
    CHECK(other == MPI_GROUP_EMPTY);
    CHECK_EQ(compared(none, other), MPI_IDENT);
    CHECK_EQ(compared(none, world), MPI_UNEQUAL);
    CHECK_OK(MPI_Group_translate_ranks(world, 2, from, MPI_GROUP_EMPTY, there));
    CHECK_EQ(there[0], MPI_UNDEFINED);
    CHECK_EQ(there[1], MPI_PROC_NULL);
    CHECK_OK(MPI_Group_union(MPI_GROUP_EMPTY, world, &other));
    CHECK_EQ(compared(world, other), MPI_IDENT);
    CHECK_OK(MPI_Group_free(&other));
    CHECK_OK(MPI_Group_free(&none)); /* results may be freed */
    CHECK(none == MPI_GROUP_NULL);
    CHECK_OK(MPI_Group_size(MPI_GROUP_EMPTY, &n));
    CHECK_EQ(n, 0);
    CHECK_OK(MPI_Group_excl(world, 0, NULL, &other));
    CHECK_EQ(compared(world, other), MPI_IDENT);
    CHECK_OK(MPI_Group_free(&other));
}

static void subsets(void)
{
    MPI_Group back, kept, rest, both;
    int ranks[64];
    check_where("incl and excl");
    for (int i = 0; i < size; i++) ranks[i] = size - 1 - i;
    back = chosen(size, ranks);
    check_group(back, size, ranks, __LINE__);
    CHECK_EQ(compared(world, back), size == 1 ? MPI_IDENT : MPI_SIMILAR);
    kept = chosen(1, &ranks[size - 1]);
    CHECK_GROUP(kept, 1, 0);
    CHECK_OK(MPI_Group_excl(back, 1, &ranks[0], &rest)); /* without its last, which is world rank 0 */
    check_group(rest, size - 1, ranks, __LINE__);
    CHECK_OK(MPI_Group_union(kept, rest, &both));
    int want[64] = {0};
    for (int i = 1; i < size; i++) want[i] = size - i;
    check_group(both, size, want, __LINE__);
    MPI_Group common;
    CHECK_OK(MPI_Group_intersection(both, back, &common)); /* in the order of the first */
    CHECK_EQ(compared(common, both), MPI_IDENT);
    MPI_Group groups[] = {back, kept, rest, both, common};
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Group_free(&groups[i]));
}

static void two_sets(void)
{
    if (size < 4) return;
    MPI_Group a = chosen(3, (int[]){3, 0, 2}), b = chosen(2, (int[]){2, 1}), c;
    check_where("two sets");
    CHECK_OK(MPI_Group_union(a, b, &c));
    CHECK_GROUP(c, 4, 3, 0, 2, 1);
    CHECK_OK(MPI_Group_free(&c));
    CHECK_OK(MPI_Group_intersection(a, b, &c));
    CHECK_GROUP(c, 1, 2);
    CHECK_OK(MPI_Group_free(&c));
    CHECK_OK(MPI_Group_difference(a, b, &c));
    CHECK_GROUP(c, 2, 3, 0);
    CHECK_OK(MPI_Group_free(&c));
    CHECK_OK(MPI_Group_difference(b, a, &c));
    CHECK_GROUP(c, 1, 1);
    CHECK_OK(MPI_Group_free(&c));
    CHECK_OK(MPI_Group_free(&a));
    CHECK_OK(MPI_Group_free(&b));
}

static void ranges(void)
{
    MPI_Group group;
    check_where("ranges");
    int all[1][3] = {{size - 1, 0, -1}}, want[64], n = 0;
    for (int i = 0; i < size; i++) want[i] = size - 1 - i;
    CHECK_OK(MPI_Group_range_incl(world, 1, all, &group));
    check_group(group, size, want, __LINE__);
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Group_range_excl(world, 1, all, &group));
    CHECK(group == MPI_GROUP_EMPTY);
    int odd[1][3] = {{0, size - 1, 2}};
    CHECK_OK(MPI_Group_range_excl(world, 1, odd, &group));
    n = parity(1, want);
    check_group(group, n, want, __LINE__);
    if (group != MPI_GROUP_EMPTY) CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Group_range_incl(world, 0, NULL, &group));
    CHECK(group == MPI_GROUP_EMPTY);
    int one[1][3] = {{size - 1, size - 1, 100}};
    CHECK_OK(MPI_Group_range_incl(world, 1, one, &group));
    CHECK_GROUP(group, 1, size - 1);
    CHECK_OK(MPI_Group_free(&group));
    if (size < 7) return;
    int several[3][3] = {{6, 1, -3}, {0, 1, 2}, {1, 5, 4}}; /* 6 3, 0, 1 5 */
    CHECK_OK(MPI_Group_range_incl(world, 3, several, &group));
    CHECK_GROUP(group, 5, 6, 3, 0, 1, 5);
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Group_range_excl(world, 3, several, &group));
    CHECK_GROUP(group, 2, 2, 4);
    CHECK_OK(MPI_Group_free(&group));
}

static void translation(void)
{
    int ranks[64], there[66];
    check_where("translation");
    for (int i = 0; i < size; i++) ranks[i] = size - 1 - i;
    MPI_Group back = chosen(size, ranks), self;
    CHECK_OK(MPI_Group_translate_ranks(world, size, ranks, back, there));
    for (int i = 0; i < size; i++) CHECK_EQ(there[i], i);
    CHECK_OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    int from[3] = {MPI_PROC_NULL, rank, 0}, to[4] = {-77, -77, -77, -77};
    CHECK_OK(MPI_Group_translate_ranks(world, 3, from, self, to));
    CHECK_EQ(to[0], MPI_PROC_NULL);
    CHECK_EQ(to[1], 0);
    CHECK_EQ(to[2], rank == 0 ? 0 : MPI_UNDEFINED);
    CHECK_EQ(to[3], -77);
    CHECK_OK(MPI_Group_translate_ranks(world, 1, from, MPI_GROUP_EMPTY, to));
    CHECK_EQ(to[0], MPI_PROC_NULL);
    CHECK_OK(MPI_Group_translate_ranks(MPI_GROUP_EMPTY, 0, NULL, world, NULL));
    CHECK_OK(MPI_Group_free(&back));
    CHECK_OK(MPI_Group_free(&self));
}

static void integers(void)
{
    MPI_Group group = chosen(1, (int[]){0}), same;
    check_where("integers");
    same = MPI_Group_fromint(MPI_Group_toint(group));
    CHECK(same == group);
    CHECK_EQ(compared(same, group), MPI_IDENT);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_NULL)) == MPI_GROUP_NULL);
    CHECK(MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_free(&group));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    of_communicators();
    empty();
    subsets();
    two_sets();
    ranges();
    translation();
    integers();
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
