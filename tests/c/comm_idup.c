// ranks: 1 2 4 7
// transports: all
// every day: lamd ofi
/* MPI_Comm_idup: the handle is valid after the request; several at a time, mixed with other
 * traffic, in both kinds. */
#include "comms.h"

static void one(void)
{
    MPI_Comm twin = MPI_COMM_NULL;
    MPI_Request request;
    int related = -1;
    check_where("one");
    CHECK_OK(MPI_Comm_idup(MPI_COMM_WORLD, &twin, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Comm_compare(MPI_COMM_WORLD, twin, &related));
    CHECK_EQ(related, MPI_CONGRUENT);
    use(twin);
    CHECK_OK(MPI_Comm_free(&twin));
}

static void several(void)
{
    enum { COMMS = 12 };
    MPI_Comm twins[COMMS];
    MPI_Request requests[COMMS];
    check_where("several");
    for (int i = 0; i < COMMS; i++) CHECK_OK(MPI_Comm_idup(MPI_COMM_WORLD, &twins[i], &requests[i]));
    if (rank % 2 == 0) {
        CHECK_OK(MPI_Waitall(COMMS, requests, MPI_STATUSES_IGNORE));
    } else {
        for (int i = COMMS - 1; i >= 0; i--) {
            int flag = 0;
            while (!flag) CHECK_OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
        }
    }
    for (int i = 0; i < COMMS; i++) use(twins[(i * 5) % COMMS]);
    /* Each has its own context: a message in one is not received in another. */
    MPI_Request sends[COMMS];
    int out[COMMS], in = -1, to = (rank + 1) % size;
    for (int i = 0; i < COMMS; i++) {
        out[i] = i;
        CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, to, 0, twins[i], &sends[i]));
    }
    for (int i = COMMS - 1; i >= 0; i--) {
        CHECK_OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twins[i], MPI_STATUS_IGNORE));
        CHECK_EQ(in, i);
    }
    CHECK_OK(MPI_Waitall(COMMS, sends, MPI_STATUSES_IGNORE));
    for (int i = 0; i < COMMS; i++) CHECK_OK(MPI_Comm_free(&twins[i]));
}

static void among_others(void)
{
    MPI_Comm parent, twin = MPI_COMM_NULL;
    MPI_Request requests[3];
    int sum = -1, one = 1, all[64];
    check_where("among others");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &parent));
    CHECK_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent, &requests[0]));
    CHECK_OK(MPI_Comm_idup(parent, &twin, &requests[1]));
    CHECK_OK(MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, parent, &requests[2]));
    CHECK_OK(MPI_Comm_free(&parent));
    CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(sum, size);
    for (int i = 0; i < size; i++) CHECK_EQ(all[i], size - 1 - i);
    CHECK_MEMBERS(twin, all, size);
    use(twin);
    CHECK_OK(MPI_Comm_free(&twin));
}

static void handler_at_the_call(void)
{
    MPI_Comm parent, twin;
    MPI_Request request;
    MPI_Errhandler handler;
    check_where("error handler");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    CHECK_OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_ABORT));
    CHECK_OK(MPI_Comm_idup(parent, &twin, &request));
    CHECK_OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_get_errhandler(twin, &handler));
    CHECK(handler == MPI_ERRORS_ABORT);
    CHECK_OK(MPI_Comm_free(&parent));
    CHECK_OK(MPI_Comm_free(&twin));
}

static void two_groups(void)
{
    MPI_Comm half, inter, twins[3];
    MPI_Request requests[3];
    if (size < 2) return;
    check_where("intercommunicator");
    inter = even_odd(&half, 8);
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_idup(i == 1 ? half : inter, &twins[i], &requests[i]));
    CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    use_inter(twins[0]);
    use(twins[1]);
    use_inter(twins[2]);
    use_inter(inter);
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_free(&twins[i]));
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));
}

static void arguments(void)
{
    MPI_Comm twin = MPI_COMM_SELF;
    MPI_Request request = MPI_REQUEST_NULL;
    check_where("arguments");
    CHECK_CLASS(MPI_Comm_idup(MPI_COMM_NULL, &twin, &request), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_idup(MPI_COMM_WORLD, NULL, &request), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_idup(MPI_COMM_WORLD, &twin, NULL), MPI_ERR_ARG);
    CHECK(twin == MPI_COMM_SELF && request == MPI_REQUEST_NULL);
}

static int copies, fails;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void) comm, (void) key, (void) extra;
    if (fails) return MPI_ERR_OTHER;
    copies++;
    *(void **) out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void inherited(void)
{
    check_where("inherited");
    int key, first = 1, second = 2, flag = 0, *value = NULL;
    MPI_Comm parent, twin;
    MPI_Request request;
    MPI_Info info;
    char hint[8] = "";
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(parent, key, &first);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    CHECK_OK(MPI_Comm_idup_with_info(parent, info, &twin, &request));
    CHECK_EQ(copies, 1);
    MPI_Comm_set_attr(parent, key, &second);
    MPI_Info_free(&info);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == &first);
    MPI_Comm_get_info(twin, &info);
    int length = sizeof hint;
    MPI_Info_get_string(info, "mpi_assert_no_any_tag", &length, hint, &flag);
    CHECK(flag && !strcmp(hint, "true"));
    MPI_Info_free(&info);
    MPI_Comm_free(&twin);
    /* A failing copy is an error of the call on one rank; the others get their duplicate. */
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    fails = rank == size - 1;
    int code = MPI_Comm_idup(parent, &twin, &request);
    CHECK_EQ(code != MPI_SUCCESS, fails);
    if (!fails) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&twin);
    }
    fails = 0;
    MPI_Comm_free(&parent);
    MPI_Comm_free_keyval(&key);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    for (int round = 0; round < 3; round++) {
        one();
        several();
        among_others();
        handler_at_the_call();
        two_groups();
        arguments();
    }
    inherited();
    return check_end();
}
