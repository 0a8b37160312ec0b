// ranks: 1 2
// transports: one
/* The texts of errors have the values that the program has passed: the number of a handle or an
 * argument, or the name of a constant. Programs for other ABIs have other numbers. */
#include "check.h"

static int value = 1, number;

#define SHOWS(call, want) shows((call), (want), __LINE__, #call)
#define NUMBERED(call, format, number) \
    do { \
        char want_[64]; \
        snprintf(want_, sizeof want_, format, (number)); \
        SHOWS(call, want_); \
    } while (0)
/* A handle is a pointer or an integer of 32 bits. */
#define BITS(handle) \
    (sizeof(handle) == 4 ? (unsigned long long) (unsigned) (uintptr_t) (handle) \
                         : (unsigned long long) (uintptr_t) (handle))
#define HANDLED(call, what, handle) NUMBERED(call, what " %#llx: ", BITS(handle))

static void shows(int code, const char *want, int line, const char *call)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    CHECK_OK(MPI_Error_string(code, text, &length));
    check_report(code != MPI_SUCCESS && strstr(text, want) != NULL, __FILE__, line,
                 "the text of %s has no '%s': %s", call, want, text);
}

static void freed_handles(MPI_Comm comm)
{
    MPI_Comm copy, old_copy;
    CHECK_OK(MPI_Comm_dup(comm, &copy));
    old_copy = copy;
    CHECK_OK(MPI_Comm_free(&copy));
    HANDLED(MPI_Comm_size(old_copy, &number), "the communicator", old_copy);

    MPI_Datatype type, old_type;
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    old_type = type;
    CHECK_OK(MPI_Type_free(&type));
    HANDLED(MPI_Send(&value, 1, old_type, 0, 0, comm), "the datatype", old_type);

    MPI_Group group, old_group;
    CHECK_OK(MPI_Comm_group(comm, &group));
    old_group = group;
    CHECK_OK(MPI_Group_free(&group));
    HANDLED(MPI_Group_size(old_group, &number), "the group", old_group);

    MPI_Info info, old_info;
    CHECK_OK(MPI_Info_create(&info));
    old_info = info;
    CHECK_OK(MPI_Info_free(&info));
    HANDLED(MPI_Info_get_nkeys(old_info, &number), "the info", old_info);

    MPI_Request request, old_request;
    CHECK_OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, comm, &request));
    old_request = request;
    CHECK_OK(MPI_Request_free(&request));
    request = old_request;
    HANDLED(MPI_Wait(&request, MPI_STATUS_IGNORE), "the request", old_request);
}

static void wrong_handles(MPI_Comm comm)
{
    MPI_Comm low = (MPI_Comm) (uintptr_t) 0x101, high = (MPI_Comm) (uintptr_t) 0x44000007;
    if (low != MPI_COMM_WORLD) HANDLED(MPI_Comm_size(low, &number), "the communicator", low);
    HANDLED(MPI_Comm_size(high, &number), "the communicator", high);
    MPI_Message message = (MPI_Message) (uintptr_t) 0x77;
    HANDLED(MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE), "the message", message);
    SHOWS(MPI_Comm_size(MPI_COMM_NULL, &number), "the communicator is MPI_COMM_NULL");
    SHOWS(MPI_Allreduce(&value, &number, 1, MPI_FLOAT, MPI_BAND, comm),
          "MPI_BAND is not defined for MPI_FLOAT");
}

static void constants(MPI_Comm comm)
{
    MPI_Group group;
    int bad = MPI_ANY_SOURCE;
    char text[80];
    snprintf(text, sizeof text, "dest is MPI_ANY_SOURCE (%d);", MPI_ANY_SOURCE);
    SHOWS(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm), text);
    SHOWS(MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, comm), "tag is MPI_ANY_TAG");
    SHOWS(MPI_Bcast(&value, 1, MPI_INT, MPI_PROC_NULL, comm), "root is MPI_PROC_NULL");
    SHOWS(MPI_Comm_set_attr(comm, MPI_TAG_UB, NULL), "keyval MPI_TAG_UB is predefined");
    CHECK_OK(MPI_Comm_group(comm, &group));
    SHOWS(MPI_Group_translate_ranks(group, 1, &bad, group, &number), "ranks1[0] is MPI_ANY_SOURCE");
    CHECK_OK(MPI_Group_free(&group));
}

/* Numbers that are no constants in this ABI, and may be constants in another. */
static void numbers(MPI_Comm comm)
{
    MPI_Datatype type;
    int sizes[1] = {4}, parts[1] = {2}, starts[1] = {0};
    for (int bad = -9; bad < 0; bad++) {
        if (bad == MPI_ANY_SOURCE || bad == MPI_PROC_NULL || bad == MPI_ROOT) continue;
        NUMBERED(MPI_Send(&value, 1, MPI_INT, bad, 0, comm), "dest is %d;", bad);
        NUMBERED(MPI_Bcast(&value, 1, MPI_INT, bad, comm), "root is %d;", bad);
    }
    for (int bad = -9; bad < 0; bad++)
        if (bad != MPI_ANY_TAG)
            NUMBERED(MPI_Send(&value, 1, MPI_INT, 0, bad, comm), "tag is %d;", bad);
    for (int bad = 0; bad < 1000; bad++) {
        if (bad == MPI_ORDER_C || bad == MPI_ORDER_FORTRAN) continue;
        NUMBERED(MPI_Type_create_subarray(1, sizes, parts, starts, bad, MPI_INT, &type),
                 "order is %d,", bad);
    }
    NUMBERED(MPI_Error_class(123456, &number), "errorcode %d is", 123456);
}

static void bits(void)
{
    MPI_Win win;
    CHECK_OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    NUMBERED(MPI_Win_fence(MPI_MODE_NOCHECK, win), "assert is %#x,", MPI_MODE_NOCHECK);
    for (int bad = 1; bad <= 1 << 20; bad <<= 1) {
        if (bad == MPI_MODE_NOSTORE || bad == MPI_MODE_NOPUT || bad == MPI_MODE_NOPRECEDE
            || bad == MPI_MODE_NOSUCCEED)
            continue;
        NUMBERED(MPI_Win_fence(MPI_MODE_NOSTORE | bad, win), "of which %#x mean nothing", bad);
    }
    NUMBERED(MPI_Win_lock(17, 0, 0, win), "lock_type is %d;", 17);
    CHECK_OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    freed_handles(comm);
    wrong_handles(comm);
    constants(comm);
    numbers(comm);
    bits();
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
