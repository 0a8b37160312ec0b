// ranks: 1 2 4 7
// transports: all
/* A call refuses objects of different sessions, and of a session with the World Model. */
#include "sessions.h"

static void groups(MPI_Group one, MPI_Group other)
{
    MPI_Group made = MPI_GROUP_NULL;
    int result, zero = 0, n = 0;
    CHECK_CLASS(MPI_Group_union(one, other, &made), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_intersection(one, other, &made), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_difference(one, other, &made), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_compare(one, other, &result), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_translate_ranks(one, 1, &zero, other, &result), MPI_ERR_GROUP);
    CHECK(made == MPI_GROUP_NULL);
    CHECK_OK(MPI_Group_compare(one, MPI_GROUP_EMPTY, &result));
    CHECK_EQ(result, MPI_UNEQUAL);
    CHECK_OK(MPI_Group_union(MPI_GROUP_EMPTY, other, &made));
    CHECK_OK(MPI_Group_size(made, &n));
    CHECK(n > 0);
    CHECK_CLASS(MPI_Group_union(one, made, &made), MPI_ERR_GROUP);
    MPI_Group_free(&made);
}

static void requests(MPI_Comm one, MPI_Comm other)
{
    int numbers[2] = {-1, -1}, me, n, flag, index, indices[2];
    MPI_Request both[2];
    MPI_Comm_rank(one, &me);
    MPI_Comm_size(one, &n);
    CHECK_OK(MPI_Irecv(&numbers[0], 1, MPI_INT, (me + n - 1) % n, 5, one, &both[0]));
    CHECK_OK(MPI_Irecv(&numbers[1], 1, MPI_INT, (me + n - 1) % n, 5, other, &both[1]));
    CHECK_CLASS(MPI_Waitall(2, both, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Waitsome(2, both, &index, indices, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Testall(2, both, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Testany(2, both, &index, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Testsome(2, both, &index, indices, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_get_status_all(2, both, &flag, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    CHECK(both[0] != MPI_REQUEST_NULL && both[1] != MPI_REQUEST_NULL);
    /* An arrived message completes its receive at once. */
    CHECK_OK(MPI_Barrier(one));
    CHECK_OK(MPI_Send(&me, 1, MPI_INT, (me + 1) % n, 5, one));
    CHECK_OK(MPI_Send(&me, 1, MPI_INT, (me + 1) % n, 5, other));
    CHECK_OK(MPI_Wait(&both[0], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    CHECK(numbers[0] == (me + n - 1) % n && numbers[1] == numbers[0]);
}

static void communicators(MPI_Comm one, MPI_Comm other)
{
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group group, remote;
    int result, me, n;
    MPI_Comm_rank(one, &me);
    MPI_Comm_size(one, &n);
    CHECK_CLASS(MPI_Comm_compare(one, other, &result), MPI_ERR_COMM);
    MPI_Comm_group(other, &group);
    CHECK_CLASS(MPI_Comm_create(one, group, &made), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create_group(one, group, 1, &made), MPI_ERR_GROUP);
    MPI_Group_free(&group);
    CHECK(made == MPI_COMM_NULL);
    if (n < 2) return;
    MPI_Comm half;
    CHECK_OK(MPI_Comm_split(one, me % 2, 0, &half));
    CHECK(MPI_Intercomm_create(half, 0, other, 1 - me % 2, 5, &made) != MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
    CHECK_OK(MPI_Intercomm_create(half, 0, one, 1 - me % 2, 5, &made));
    MPI_Comm_free(&made);
    MPI_Comm_group(half, &group);
    MPI_Comm_group(other, &remote);
    CHECK_CLASS(MPI_Intercomm_create_from_groups(group, 0, remote, 0, "mixed", MPI_INFO_NULL, RETURN, &made),
                MPI_ERR_GROUP);
    MPI_Group_free(&group);
    MPI_Group_free(&remote);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, RETURN);
    MPI_Session sessions[2] = {open_session(), open_session()};
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group of[3] = {group_of(sessions[0], "mpi://WORLD"), group_of(sessions[1], "mpi://WORLD"), world};
    MPI_Comm comms[3] = {comm_of(sessions[0], "first"), comm_of(sessions[1], "second"), MPI_COMM_WORLD};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            if (i == j) continue;
            check_where("%d and %d", i, j);
            groups(of[i], of[j]);
            communicators(comms[i], comms[j]);
            requests(comms[i], comms[j]);
        }
    for (int i = 0; i < 2; i++) {
        MPI_Comm_free(&comms[i]);
        MPI_Group_free(&of[i]);
        close_session(&sessions[i]);
    }
    MPI_Group_free(&world);
    return check_end();
}
