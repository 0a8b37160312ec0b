// ranks: 1 2 4 7
// transports: all
// every day: tcp-encrypted nodes lamd ofi
/* MPI_Intercomm_merge: the order of the groups, also when both give the same value;
 * contradictions in a group. */
#include "comms.h"

/* First the low half, then the high one. */
static int in_order(int odd_first, int *want)
{
    int n = parity(odd_first, want);
    return n + parity(!odd_first, want + n);
}

static void by_height(MPI_Comm inter, int odd_is_high)
{
    MPI_Comm all;
    int want[64], high = rank % 2 ? odd_is_high : !odd_is_high;
    check_where("odd ranks are %s", odd_is_high ? "high" : "low");
    CHECK_OK(MPI_Intercomm_merge(inter, high ? 77 : 0, &all)); /* any value but 0 is true */
    int n = in_order(!odd_is_high, want), flag = -1;
    CHECK_MEMBERS(all, want, n);
    CHECK_OK(MPI_Comm_test_inter(all, &flag));
    CHECK_EQ(flag, 0);
    use(all);
    CHECK_OK(MPI_Comm_free(&all));
}

/* The order is free, but one group must be behind the other, each in its order, and the same on
 * all ranks. */
static void equal_height(MPI_Comm inter, int high)
{
    MPI_Comm all;
    int want[64], got[64], seen[64];
    check_where("both are %s", high ? "high" : "low");
    CHECK_OK(MPI_Intercomm_merge(inter, high, &all));
    int n = members_of(all, got);
    in_order(got[0] % 2, want);
    check_members(got, n, want, size, __FILE__, __LINE__);
    CHECK_OK(MPI_Allgather(&rank, 1, MPI_INT, seen, 1, MPI_INT, all));
    check_members(seen, n, want, size, __FILE__, __LINE__);
    use(all);
    CHECK_OK(MPI_Comm_free(&all));
}

static void contradiction(MPI_Comm inter)
{
    MPI_Comm all = MPI_COMM_SELF;
    if (size < 3) return;
    check_where("contradiction");
    CHECK_CLASS(MPI_Intercomm_merge(inter, rank == 0, &all), MPI_ERR_ARG);
    CHECK(all == MPI_COMM_SELF);
    use_inter(inter);
}

static void round_trip(MPI_Comm inter)
{
    MPI_Comm all, piece, again, merged;
    int me, n, want[64];
    check_where("round trip");
    CHECK_OK(MPI_Intercomm_merge(inter, rank % 2, &all)); /* the even ones first */
    CHECK_OK(MPI_Comm_rank(all, &me));
    CHECK_OK(MPI_Comm_split(all, me < size / 2, me, &piece));
    CHECK_OK(MPI_Intercomm_create(piece, 0, all, me < size / 2 ? size / 2 : 0, 0, &again));
    use_inter(again);
    CHECK_OK(MPI_Comm_rank(all, &n));
    CHECK_OK(MPI_Intercomm_merge(again, me >= size / 2, &merged));
    CHECK_MEMBERS(merged, want, in_order(0, want));
    use(merged);
    MPI_Comm comms[] = {all, piece, again, merged};
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    if (size > 1) {
        MPI_Comm half, all = MPI_COMM_SELF, inter = even_odd(&half, 5);
        CHECK_OK(MPI_Comm_free(&half));
        for (int i = 0; i < 4; i++) {
            by_height(inter, i % 2);
            equal_height(inter, i % 2);
            contradiction(inter);
            round_trip(inter);
        }
        CHECK_CLASS(MPI_Intercomm_merge(inter, rank % 2, NULL), MPI_ERR_ARG);
        use_inter(inter);
        CHECK_OK(MPI_Comm_free(&inter));
    }
    MPI_Comm none = MPI_COMM_SELF;
    CHECK_CLASS(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &none), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Intercomm_merge(MPI_COMM_NULL, 0, &none), MPI_ERR_COMM);
    CHECK(none == MPI_COMM_SELF);
    return check_end();
}
