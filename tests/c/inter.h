/* Common parts of the tests of intercommunicator collectives: two groups of the ranks, and the
 * root argument. */
#ifndef INTER_H
#define INTER_H

#include "check.h"

/* The two groups: world ranks below `cut`, in reverse order, and the others in order. */
static MPI_Comm inter, local;
static int cut, lower, mine, ours, theirs;

static int world_rank(int in_lower, int r) { return in_lower ? cut - 1 - r : cut + r; }
static inline int here(int r) { return world_rank(lower, r); }
static inline int there(int r) { return world_rank(!lower, r); }

static void make_groups(int at)
{
    cut = at;
    lower = rank < cut;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, lower, lower ? -rank : rank, &local));
    CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, lower ? cut : cut - 1, 77, &inter));
    MPI_Comm_rank(inter, &mine);
    MPI_Comm_size(inter, &ours);
    MPI_Comm_remote_size(inter, &theirs);
    CHECK_EQ(here(mine), rank);
    CHECK_OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
}

static void free_groups(void)
{
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&local));
}

/* The root argument of this rank if rank `r` of the lower group, or of the other one, is the
 * root. */
static int root_argument(int in_lower, int r)
{
    if (lower != in_lower) return r;
    return mine == r ? MPI_ROOT : MPI_PROC_NULL;
}

#endif
