// ranks: 1 2 4 7
// transports: one
/* MPI_Comm_compare, MPI_Comm_test_inter, MPI_Comm_remote_size: for both kinds of communicators. */
#include "comms.h"

static int compared(MPI_Comm a, MPI_Comm b)
{
    int one = -1, other = -2;
    CHECK_OK(MPI_Comm_compare(a, b, &one));
    CHECK_OK(MPI_Comm_compare(b, a, &other));
    CHECK_EQ(one, other);
    return one;
}

static void one_group(void)
{
    MPI_Comm twin, back, half, self;
    int several = size > 1, flag = -1;
    check_where("intracommunicators");
    CHECK_EQ(compared(MPI_COMM_WORLD, MPI_COMM_WORLD), MPI_IDENT);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_EQ(compared(MPI_COMM_WORLD, twin), MPI_CONGRUENT);
    CHECK_EQ(compared(twin, twin), MPI_IDENT);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &back));
    CHECK_EQ(compared(MPI_COMM_WORLD, back), several ? MPI_SIMILAR : MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half));
    CHECK_EQ(compared(MPI_COMM_WORLD, half), several ? MPI_UNEQUAL : MPI_CONGRUENT);
    CHECK_EQ(compared(MPI_COMM_WORLD, MPI_COMM_SELF), several ? MPI_UNEQUAL : MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &self));
    CHECK_EQ(compared(self, MPI_COMM_SELF), MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_test_inter(half, &flag));
    CHECK_EQ(flag, 0);
    CHECK_CLASS(MPI_Comm_remote_size(half, &flag), MPI_ERR_COMM);
    MPI_Comm all[] = {twin, back, half, self};
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Comm_free(&all[i]));
}

static void two_groups(void)
{
    MPI_Comm half, inter, twin, back, turned, other;
    int me = -1, n = -1, flag = -1;
    if (size < 2) return;
    check_where("intercommunicators");
    inter = even_odd(&half, 1);
    CHECK_OK(MPI_Comm_test_inter(inter, &flag));
    CHECK_EQ(flag, 1);
    CHECK_OK(MPI_Comm_remote_size(inter, &n));
    CHECK_EQ(n, (size + rank % 2) / 2);
    CHECK_EQ(compared(inter, inter), MPI_IDENT);
    CHECK_OK(MPI_Comm_dup(inter, &twin));
    CHECK_EQ(compared(inter, twin), MPI_CONGRUENT);
    CHECK_EQ(compared(inter, half), MPI_UNEQUAL);
    CHECK_EQ(compared(inter, MPI_COMM_WORLD), MPI_UNEQUAL);
    CHECK_OK(MPI_Comm_rank(half, &me));
    CHECK_OK(MPI_Comm_split(half, 0, rank % 2 ? -me : me, &back));
    int leader = rank % 2 ? 0 : size % 2 ? size - 2 : size - 1; /* its first is now the last odd rank */
    CHECK_OK(MPI_Intercomm_create(back, 0, MPI_COMM_WORLD, leader, 2, &turned));
    CHECK_EQ(compared(inter, turned), size > 3 ? MPI_SIMILAR : MPI_CONGRUENT);
    /* Local and remote group exchanged: seen from the other side they are the same groups. */
    CHECK_OK(MPI_Comm_split(inter, rank < 2 ? 0 : 1, 0, &other));
    CHECK_EQ(compared(inter, other == MPI_COMM_NULL ? half : other), size > 2 || other == MPI_COMM_NULL ? MPI_UNEQUAL : MPI_CONGRUENT);
    if (other != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&other));
    MPI_Comm all[] = {half, inter, twin, back, turned};
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Comm_free(&all[i]));
}

static void arguments(void)
{
    int value = -5;
    check_where("arguments");
    CHECK_CLASS(MPI_Comm_compare(MPI_COMM_NULL, MPI_COMM_WORLD, &value), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_NULL, &value), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_test_inter(MPI_COMM_NULL, &value), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_test_inter(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_remote_size(MPI_COMM_WORLD, &value), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_remote_size(MPI_COMM_NULL, &value), MPI_ERR_COMM);
    CHECK_EQ(value, -5);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    one_group();
    two_groups();
    arguments();
    return check_end();
}
