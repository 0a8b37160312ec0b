// ranks: 1 2 4
// transports: one
/* MPI_Finalize first deletes the attributes of MPI_COMM_SELF, the last one first, while MPI
 * still works. */
#include "check.h"

static int order[3], calls = 0, refuse = 1;

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int flag = -1, sum = -1, in = -1, members = 0;
    (void) keyval;
    (void) extra;
    CHECK(comm == MPI_COMM_SELF);
    CHECK_OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 1);
    if ((intptr_t) value == 1 && refuse) return MPI_ERR_OTHER;
    if (calls < 3) order[calls++] = (int) (intptr_t) value;
    CHECK_OK(MPI_Comm_size(MPI_COMM_WORLD, &members));
    CHECK_EQ(members, size);
    CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, size * (size - 1) / 2);
    CHECK_OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 3, &in, 1, MPI_INT, (rank + size - 1) % size, 3,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(in, (rank + size - 1) % size);
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int keyvals[3], flag = -1, failures;
    check_watch();
    MPI_Init(&argc, &argv);
    check_ranks();
    return_errors();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &keyvals[i], NULL));
        CHECK_OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyvals[i], (void *) (intptr_t) (i + 1)));
    }
    int freed = keyvals[1];
    CHECK_OK(MPI_Comm_free_keyval(&freed)); /* freed while set: it is deleted as well */

    /* If a delete function fails, MPI_Finalize fails; the attribute stays, MPI goes on, and a
     * second call deletes it. */
    CHECK_CLASS(MPI_Finalize(), MPI_ERR_OTHER);
    CHECK_OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 0);
    CHECK_EQ(calls, 2);
    CHECK(order[0] == 3 && order[1] == 2);
    void *value = NULL;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_SELF, keyvals[0], &value, &flag));
    CHECK(flag == 1 && (intptr_t) value == 1);
    refuse = 0;
    CHECK_OK(MPI_Finalize());
    CHECK_EQ(calls, 3);
    CHECK_EQ(order[2], 1);
    CHECK_OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 1);
    failures = check_failures;
    if (rank == 0) printf(failures == 0 ? "ok\n" : "%d failures\n", failures);
    return failures != 0;
}
