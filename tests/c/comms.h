/* Common parts of the programs about communicators: communication, and checks of the members. */
#ifndef COMMS_H
#define COMMS_H

#include "check.h"

static void use(MPI_Comm comm)
{
    int me = -1, n = 0, got = -1, sum = -1;
    MPI_Status status;
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_size(comm, &n));
    CHECK_OK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 1, &got, 1, MPI_INT, (me + n - 1) % n, 1, comm, &status));
    CHECK_EQ(got, (me + n - 1) % n);
    CHECK_STATUS(&status, (me + n - 1) % n, 1, 4);
    CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, n * (n - 1) / 2);
}

static int members(MPI_Group group, int *world_ranks)
{
    int n = 0, ranks[64];
    MPI_Group world;
    CHECK_OK(MPI_Group_size(group, &n));
    for (int i = 0; i < n; i++) ranks[i] = i;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Group_translate_ranks(group, n, ranks, world, world_ranks));
    CHECK_OK(MPI_Group_free(&world));
    return n;
}

static int members_of(MPI_Comm comm, int *world_ranks)
{
    MPI_Group group;
    CHECK_OK(MPI_Comm_group(comm, &group));
    int n = members(group, world_ranks);
    CHECK_OK(MPI_Group_free(&group));
    return n;
}

static int remote_members_of(MPI_Comm comm, int *world_ranks)
{
    MPI_Group group;
    CHECK_OK(MPI_Comm_remote_group(comm, &group));
    int n = members(group, world_ranks);
    CHECK_OK(MPI_Group_free(&group));
    return n;
}

static void check_members(const int *got, int n, const int *want, int wanted, const char *file, int line)
{
    if (!check_equal(n, wanted, file, line, "the number of members", "that expected")) return;
    for (int i = 0; i < n; i++) check_equal(got[i], want[i], file, line, "a member", "the one expected");
}

/* Checks that a communicator has these world ranks in this order, and that this process has the
 * right rank in it. */
#define CHECK_MEMBERS(comm, want, wanted) check_comm((comm), (want), (wanted), __FILE__, __LINE__)

static void check_comm(MPI_Comm comm, const int *want, int wanted, const char *file, int line)
{
    int got[64], me = -1, n = members_of(comm, got);
    check_members(got, n, want, wanted, file, line);
    CHECK_OK(MPI_Comm_rank(comm, &me));
    check_report(me >= 0 && me < n && got[me] == rank, file, line, "rank %d is not this process", me);
}

static void use_inter(MPI_Comm inter)
{
    int me = -1, local = 0, remote = 0, flag = -1;
    int out[64], in[64];
    MPI_Request requests[128];
    MPI_Status statuses[128];
    CHECK_OK(MPI_Comm_test_inter(inter, &flag));
    CHECK_EQ(flag, 1);
    CHECK_OK(MPI_Comm_rank(inter, &me));
    CHECK_OK(MPI_Comm_size(inter, &local));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    for (int i = 0; i < remote; i++) {
        in[i] = -1;
        CHECK_OK(MPI_Irecv(&in[i], 1, MPI_INT, i, 7, inter, &requests[i]));
    }
    for (int i = 0; i < remote; i++) {
        out[i] = 1000 * rank + 10 * i + me;
        CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, i, 7, inter, &requests[remote + i]));
    }
    CHECK_OK(MPI_Waitall(2 * remote, requests, statuses));
    int world[64];
    CHECK_EQ(remote_members_of(inter, world), remote);
    for (int i = 0; i < remote; i++) {
        CHECK_STATUS(&statuses[i], i, 7, 4);
        CHECK_EQ(in[i], 1000 * world[i] + 10 * me + i);
    }
}

/* An intercommunicator between the even and the odd world ranks; size must be at least 2. *half
 * is the local half. */
static MPI_Comm even_odd(MPI_Comm *half, int tag)
{
    MPI_Comm inter;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, half));
    CHECK_OK(MPI_Intercomm_create(*half, 0, MPI_COMM_WORLD, 1 - rank % 2, tag, &inter));
    return inter;
}

static int parity(int odd, int *ranks)
{
    int n = 0;
    for (int r = odd; r < size; r += 2) ranks[n++] = r;
    return n;
}

static void return_all_errors(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

#endif
