// ranks: 1 2 4 7
// transports: one
/* Wrong arguments: with MPI_ERRORS_RETURN each gives its error class and changes nothing;
 * messages flow afterwards. */
#include "check.h"

static int value = 1, got = 0, flag = 0, count = 0, to, from;
static int buffer[16];
static MPI_Request request = MPI_REQUEST_NULL;
static MPI_Status status;

#define FAILS(call, class) fails((call), (class), __LINE__, #call, #class)

static void fails(int code, int want, int line, const char *call, const char *want_text)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = -1;
    if (!check_class(code, want, __FILE__, line, call, want_text)) return;
    check_report(MPI_Error_string(code, text, &length) == MPI_SUCCESS, __FILE__, line, "Error_string fails for %s", call);
    check_report(length > 0 && length < MPI_MAX_ERROR_STRING && text[0] != 0 && (int) strlen(text) == length, __FILE__, line,
                 "the text of %s has length %d", call, length);
}

static void messages_flow(const char *after)
{
    check_where("after %s", after);
    int in = -1, out = 1000 + rank, sum = -1;
    CHECK_OK(MPI_Sendrecv(&out, 1, MPI_INT, to, 0, &in, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &status));
    CHECK_EQ(in, 1000 + from);
    CHECK_STATUS(&status, from, 0, 4);
    CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, size * (size - 1) / 2);
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    check_where("%s", "");
}

static void counts(MPI_Comm comm)
{
    FAILS(MPI_Send(&value, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Ssend(&value, -2147483647, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Isend(&value, -1, MPI_INT, 0, 0, comm, &request), MPI_ERR_COUNT);
    FAILS(MPI_Recv(&value, -1, MPI_INT, 0, 0, comm, &status), MPI_ERR_COUNT);
    FAILS(MPI_Irecv(&value, -1, MPI_INT, 0, 0, comm, &request), MPI_ERR_COUNT);
    FAILS(MPI_Send(&value, -1, MPI_INT, MPI_PROC_NULL, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Sendrecv(&value, 1, MPI_INT, 0, 0, &got, -1, MPI_INT, 0, 0, comm, &status), MPI_ERR_COUNT);
    FAILS(MPI_Bcast(&value, -1, MPI_INT, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Allreduce(&value, &got, -1, MPI_INT, MPI_SUM, comm), MPI_ERR_COUNT);
#if MPI_VERSION >= 4
    FAILS(MPI_Send_c(&value, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
#endif
}

static void ranks(MPI_Comm comm)
{
    int members;
    CHECK_OK(MPI_Comm_size(comm, &members));
    FAILS(MPI_Send(&value, 1, MPI_INT, members, 0, comm), MPI_ERR_RANK);
    FAILS(MPI_Send(&value, 1, MPI_INT, 2147483647, 0, comm), MPI_ERR_RANK);
    FAILS(MPI_Isend(&value, 1, MPI_INT, -1000, 0, comm, &request), MPI_ERR_RANK);
    FAILS(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm), MPI_ERR_RANK);
    FAILS(MPI_Recv(&value, 1, MPI_INT, members, 0, comm, &status), MPI_ERR_RANK);
    FAILS(MPI_Irecv(&value, 1, MPI_INT, -1000, 0, comm, &request), MPI_ERR_RANK);
    FAILS(MPI_Probe(members + 5, 0, comm, &status), MPI_ERR_RANK);
    FAILS(MPI_Iprobe(members + 5, 0, comm, &flag, &status), MPI_ERR_RANK);
    FAILS(MPI_Sendrecv(&value, 1, MPI_INT, members, 0, &got, 1, MPI_INT, 0, 0, comm, &status), MPI_ERR_RANK);
    FAILS(MPI_Bcast(&value, 1, MPI_INT, members, comm), MPI_ERR_ROOT);
    FAILS(MPI_Bcast(&value, 1, MPI_INT, -1, comm), MPI_ERR_ROOT);
    FAILS(MPI_Reduce(&value, &got, 1, MPI_INT, MPI_SUM, members, comm), MPI_ERR_ROOT);
    FAILS(MPI_Gather(&value, 1, MPI_INT, buffer, 1, MPI_INT, -77, comm), MPI_ERR_ROOT);
}

static void tags(MPI_Comm comm)
{
    int *upper = NULL, found = 0;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &found));
    if (!CHECK(found && upper && *upper >= 32767)) return;
    FAILS(MPI_Send(&value, 1, MPI_INT, 0, -1000, comm), MPI_ERR_TAG);
    FAILS(MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, comm), MPI_ERR_TAG);
    FAILS(MPI_Recv(&value, 1, MPI_INT, 0, -1000, comm, &status), MPI_ERR_TAG);
    FAILS(MPI_Iprobe(0, -1000, comm, &flag, &status), MPI_ERR_TAG);
    if (*upper < 2147483647) {
        FAILS(MPI_Send(&value, 1, MPI_INT, 0, *upper + 1, comm), MPI_ERR_TAG);
        FAILS(MPI_Isend(&value, 1, MPI_INT, 0, 2147483647, comm, &request), MPI_ERR_TAG);
        FAILS(MPI_Irecv(&value, 1, MPI_INT, 0, *upper + 1, comm, &request), MPI_ERR_TAG);
    }
    int in = -1;
    CHECK_OK(MPI_Sendrecv(&rank, 1, MPI_INT, to, *upper, &in, 1, MPI_INT, from, *upper, MPI_COMM_WORLD, &status));
    CHECK_EQ(in, from);
    CHECK_STATUS(&status, from, *upper, 4);
}

static void buffers(MPI_Comm comm)
{
    FAILS(MPI_Send(NULL, 1, MPI_INT, 0, 0, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Isend(NULL, 3, MPI_INT, 0, 0, comm, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Recv(NULL, 1, MPI_INT, 0, 0, comm, &status), MPI_ERR_BUFFER);
    FAILS(MPI_Irecv(NULL, 1, MPI_INT, 0, 0, comm, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Bcast(NULL, 1, MPI_INT, 0, comm), MPI_ERR_BUFFER);
    FAILS(MPI_Allreduce(&value, NULL, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_BUFFER);
}

static void datatypes(MPI_Comm comm)
{
    MPI_Datatype pair, kept;
    FAILS(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, comm), MPI_ERR_TYPE);
    FAILS(MPI_Irecv(&value, 1, MPI_DATATYPE_NULL, 0, 0, comm, &request), MPI_ERR_TYPE);
    FAILS(MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE);
    FAILS(MPI_Type_contiguous(2, MPI_DATATYPE_NULL, &pair), MPI_ERR_TYPE);
    pair = MPI_DATATYPE_NULL;
    FAILS(MPI_Type_commit(&pair), MPI_ERR_TYPE);
    FAILS(MPI_Type_free(&pair), MPI_ERR_TYPE);
    FAILS(MPI_Type_size(MPI_DATATYPE_NULL, &count), MPI_ERR_TYPE);
    pair = MPI_INT;
    FAILS(MPI_Type_free(&pair), MPI_ERR_TYPE);

    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    FAILS(MPI_Send(buffer, 1, pair, 0, 0, comm), MPI_ERR_TYPE); /* not committed */
    FAILS(MPI_Recv(buffer, 1, pair, 0, 0, comm, &status), MPI_ERR_TYPE);
    FAILS(MPI_Bcast(buffer, 1, pair, 0, comm), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Sendrecv(buffer, 1, pair, to, 0, buffer + 4, 1, pair, from, 0, MPI_COMM_WORLD, &status));
    kept = pair;
    CHECK_OK(MPI_Type_free(&pair));
    FAILS(MPI_Send(buffer, 1, kept, 0, 0, comm), MPI_ERR_TYPE); /* freed */
}

static void communicators(void)
{
    MPI_Comm copy, kept;
    int n;
    FAILS(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Irecv(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &request), MPI_ERR_COMM);
    FAILS(MPI_Comm_rank(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    FAILS(MPI_Comm_size(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    FAILS(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
    FAILS(MPI_Comm_dup(MPI_COMM_NULL, &copy), MPI_ERR_COMM);
    FAILS(MPI_Comm_split(MPI_COMM_NULL, 0, 0, &copy), MPI_ERR_COMM);
    copy = MPI_COMM_NULL;
    FAILS(MPI_Comm_free(&copy), MPI_ERR_COMM);

    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy)); /* inherits MPI_ERRORS_RETURN */
    FAILS(MPI_Send(&value, 1, MPI_INT, size, 0, copy), MPI_ERR_RANK);
    kept = copy;
    CHECK_OK(MPI_Comm_free(&copy));
    FAILS(MPI_Comm_size(kept, &n), MPI_ERR_COMM);
    FAILS(MPI_Send(&value, 1, MPI_INT, 0, 0, kept), MPI_ERR_COMM);
    FAILS(MPI_Comm_free(&kept), MPI_ERR_COMM);
    FAILS(MPI_Comm_size((MPI_Comm) 0x12345678, &n), MPI_ERR_COMM);
    FAILS(MPI_Bcast(&value, 1, MPI_INT, 0, (MPI_Comm) (intptr_t) -1), MPI_ERR_COMM);
    FAILS(MPI_Comm_size((MPI_Comm) MPI_INT, &n), MPI_ERR_COMM);
    FAILS(MPI_Send(&value, 1, (MPI_Datatype) MPI_COMM_WORLD, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
}

static void invented(void)
{
    FAILS(MPI_Send(&value, 1, (MPI_Datatype) 0x12345678, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    FAILS(MPI_Allreduce(&value, &got, 1, MPI_INT, (MPI_Op) 0x12345678, MPI_COMM_WORLD), MPI_ERR_OP);
    MPI_Request strange = (MPI_Request) 0x12345678;
    FAILS(MPI_Wait(&strange, &status), MPI_ERR_REQUEST);
    FAILS(MPI_Test(&strange, &flag, &status), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&strange), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&strange), MPI_ERR_REQUEST);
}

static void requests(void)
{
    MPI_Request stale, null = MPI_REQUEST_NULL;
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &request));
    stale = request;
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, to, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    FAILS(MPI_Wait(&stale, &status), MPI_ERR_REQUEST);
    FAILS(MPI_Test(&stale, &flag, &status), MPI_ERR_REQUEST);
    FAILS(MPI_Request_get_status(stale, &flag, &status), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&null), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&null), MPI_ERR_REQUEST);

    /* An old handle does not reach a new request in its place. */
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, &request));
    FAILS(MPI_Cancel(&stale), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, to, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *n; i++) ((int *) inout)[i] += ((int *) in)[i];
}

static void operations(MPI_Comm comm)
{
    double number = 1, result;
    MPI_Op op;
    FAILS(MPI_Reduce(&value, &got, 1, MPI_INT, MPI_OP_NULL, 0, comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_OP_NULL, comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&number, &result, 1, MPI_DOUBLE, MPI_BAND, comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_MINLOC, comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(buffer, buffer + 4, 1, MPI_2INT, MPI_SUM, comm), MPI_ERR_OP);
    /* For one-sided accumulates only. */
    FAILS(MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_REPLACE, comm), MPI_ERR_OP);
    FAILS(MPI_Reduce(&value, &got, 1, MPI_INT, MPI_NO_OP, 0, comm), MPI_ERR_OP);
    op = MPI_SUM;
    FAILS(MPI_Op_free(&op), MPI_ERR_OP);
    op = MPI_OP_NULL;
    FAILS(MPI_Op_free(&op), MPI_ERR_OP);
    CHECK_OK(MPI_Op_create(add, 1, &op));
    MPI_Op kept = op;
    CHECK_OK(MPI_Op_free(&op));
    FAILS(MPI_Allreduce(&value, &got, 1, MPI_INT, kept, comm), MPI_ERR_OP);
}

static void without_communicator(void)
{
    int class = -1, length = -1;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    FAILS(MPI_Get_version(NULL, &got), MPI_ERR_ARG);
    FAILS(MPI_Get_version(&got, NULL), MPI_ERR_ARG);
    FAILS(MPI_Abi_get_version(NULL, &got), MPI_ERR_ARG);
    FAILS(MPI_Abi_get_version(&got, NULL), MPI_ERR_ARG);
    FAILS(MPI_Get_library_version(NULL, &length), MPI_ERR_ARG);
    FAILS(MPI_Get_library_version(text, NULL), MPI_ERR_ARG);
    FAILS(MPI_Error_class(-1, &class), MPI_ERR_ARG);
    FAILS(MPI_Error_class(63, &class), MPI_ERR_ARG);
    FAILS(MPI_Error_class(MPI_ERR_RANK, NULL), MPI_ERR_ARG);
    FAILS(MPI_Status_get_source(MPI_STATUS_IGNORE, &got), MPI_ERR_ARG);
    FAILS(MPI_Status_get_tag(MPI_STATUS_IGNORE, &got), MPI_ERR_ARG);
    FAILS(MPI_Status_get_error(&status, NULL), MPI_ERR_ARG);
    FAILS(MPI_Status_set_source(MPI_STATUS_IGNORE, 1), MPI_ERR_ARG);
    FAILS(MPI_Status_set_tag(MPI_STATUS_IGNORE, 1), MPI_ERR_ARG);
    FAILS(MPI_Status_set_error(MPI_STATUS_IGNORE, 1), MPI_ERR_ARG);
    got = 0;
}

/* The handler is the one that was set; a dup inherits it, and a new one on the dup does not
 * reach the original. */
static void handlers(void)
{
    MPI_Errhandler handler;
    MPI_Comm copy;
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK_OK(MPI_Comm_get_errhandler(copy, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_set_errhandler(copy, MPI_ERRORS_ARE_FATAL));
    CHECK_OK(MPI_Comm_get_errhandler(copy, &handler));
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_free(&copy));
}

static void classes(void)
{
    static const int all[] = {MPI_SUCCESS, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM,
                              MPI_ERR_RANK, MPI_ERR_REQUEST, MPI_ERR_ROOT, MPI_ERR_GROUP, MPI_ERR_OP, MPI_ERR_TOPOLOGY,
                              MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_UNKNOWN, MPI_ERR_TRUNCATE, MPI_ERR_OTHER, MPI_ERR_INTERN,
                              MPI_ERR_IN_STATUS, MPI_ERR_PENDING};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        int class = -1, length = 0;
        char text[MPI_MAX_ERROR_STRING] = "";
        CHECK_OK(MPI_Error_class(all[i], &class));
        CHECK_EQ(class, all[i]);
        CHECK_OK(MPI_Error_string(all[i], text, &length));
        CHECK(length > 0 && (int) strlen(text) == length);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    MPI_Errhandler handler;
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    return_errors();
    /* Errors of calls without a communicator, or with a wrong one, are raised on MPI_COMM_SELF. */
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    classes();
    without_communicator();
    handlers();
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int i = 0; i < 2; i++) {
        counts(comms[i]);
        messages_flow("counts");
        ranks(comms[i]);
        messages_flow("ranks");
        tags(comms[i]);
        messages_flow("tags");
        buffers(comms[i]);
        messages_flow("buffers");
        datatypes(comms[i]);
        messages_flow("datatypes");
        operations(comms[i]);
        messages_flow("operations");
    }
    communicators();
    messages_flow("communicators");
    invented();
    messages_flow("invented handles");
    requests();
    messages_flow("requests");
    return check_end();
}
