/* For the calls with one wrong argument that crates/cli/tests/command_line/coverage/wrong.rs inserts:
 * WRONG(call, class, argument, number) must give an error of that class. */
#include <ctype.h>

/* Places that wrong calls must leave as they are. */
static struct { const char *text; const char *place; size_t size; char before[256]; } watches[16];
static int watched, wrong_calls;

static void watch(const char *text, const void *place, size_t size)
{
    watches[watched].text = text;
    watches[watched].place = place;
    watches[watched].size = size < 256 ? size : 256;
    memcpy(watches[watched].before, place, watches[watched].size);
    ++watched;
}

#define WATCH(place) watch(#place, place, sizeof *(place))

#define NO_NUMBER (-1000000007)

/* Whether a text has this word or number. */
static int has(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        int before = at == text ? ' ' : at[-1], after = at[length];
        if (!isalnum(before) && before != '_' && !isalnum(after) && after != '_') return 1;
    }
    return 0;
}

/* The error is of the class, and its text has the names of the function and of the argument, and the
 * number. The functions for tools give no text. */
static void wrong(int line, const char *call, int code, int class, const char *wanted, const char *argument, long number)
{
    char text[MPI_MAX_ERROR_STRING] = "", digits[32] = "", function[64] = "", named[96];
    int text_length = 0;
    ++wrong_calls;
    if (class_of(code) != class) bad(line, call, code, wanted);
    else if (argument) {
        PMPI_Error_string(code, text, &text_length);
        if (number != NO_NUMBER) snprintf(digits, sizeof digits, "%ld", number);
        snprintf(function, sizeof function, "%.*s", (int) strcspn(call, "("), call);
        snprintf(named, sizeof named, "an error of %s with the argument %s %s", function, argument, digits);
        if (!has(text, function) || !has(text, argument) || !has(text, digits)) bad(line, call, code, named);
    }
    for (int i = 0; i < watched; i++)
        if (memcmp(watches[i].place, watches[i].before, watches[i].size) != 0) {
            bad(line, call, code, watches[i].text);
            memcpy(watches[i].before, watches[i].place, watches[i].size);
        }
}

#define WRONG(call, class, argument, number) wrong(__LINE__, #call, call, class, #class, argument, number)

/* Objects that were freed, and objects of other classes than that of an argument. */
static struct {
    MPI_Comm comm; MPI_Group group; MPI_Datatype datatype; MPI_Op op; MPI_Win win; MPI_File file; MPI_Info info;
    MPI_Errhandler errhandler; MPI_Request request; MPI_Message message; MPI_Session session; int keyval;
} freed_objects, other_objects;

static void operation(void *in, void *out, int *n, MPI_Datatype *type) { (void) in; (void) out; (void) n; (void) type; }
static void error_handler(MPI_Comm *comm, int *code, ...) { (void) comm; (void) code; }

static void make_objects(void)
{
    char name[64], received = 0;
    PMPI_Comm_dup(MPI_COMM_SELF, &other_objects.comm);
    PMPI_Comm_group(MPI_COMM_WORLD, &other_objects.group);
    PMPI_Type_contiguous(2, MPI_INT, &other_objects.datatype);
    PMPI_Op_create(operation, 1, &other_objects.op);
    PMPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &other_objects.win);
    snprintf(name, sizeof name, "freed.%d", rank);
    PMPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &other_objects.file);
    PMPI_Info_create(&other_objects.info);
    PMPI_Comm_create_errhandler(error_handler, &other_objects.errhandler);
    PMPI_Irecv(&received, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF, &other_objects.request);
    PMPI_Send(name, 1, MPI_CHAR, 0, 1, MPI_COMM_SELF);
    PMPI_Send(name, 1, MPI_CHAR, 0, 0, MPI_COMM_SELF);
    PMPI_Mprobe(0, 0, MPI_COMM_SELF, &other_objects.message, MPI_STATUS_IGNORE);
    PMPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other_objects.session);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other_objects.keyval, NULL);
    freed_objects = other_objects;
    PMPI_Mrecv(&received, 1, MPI_CHAR, &other_objects.message, MPI_STATUS_IGNORE);
    PMPI_Wait(&other_objects.request, MPI_STATUS_IGNORE);
    PMPI_Comm_free(&other_objects.comm);
    PMPI_Group_free(&other_objects.group);
    PMPI_Type_free(&other_objects.datatype);
    PMPI_Op_free(&other_objects.op);
    PMPI_Win_free(&other_objects.win);
    PMPI_File_close(&other_objects.file);
    PMPI_Info_free(&other_objects.info);
    PMPI_Errhandler_free(&other_objects.errhandler);
    PMPI_Session_finalize(&other_objects.session);
    PMPI_Comm_free_keyval(&other_objects.keyval);
    PMPI_Comm_group(MPI_COMM_WORLD, &other_objects.group);
    PMPI_Type_contiguous(2, MPI_INT, &other_objects.datatype);
}

/* A rank that the object does not have. */
static int processes_of_comm(MPI_Comm comm)
{
    int is_inter = 0, n = 0;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter) PMPI_Comm_remote_size(comm, &n);
    else PMPI_Comm_size(comm, &n);
    return n;
}

static int processes_of_group(MPI_Group group)
{
    int n = 0;
    PMPI_Group_size(group, &n);
    return n;
}

static int processes_of_win(MPI_Win win)
{
    MPI_Group group;
    PMPI_Win_get_group(win, &group);
    int n = processes_of_group(group);
    PMPI_Group_free(&group);
    return n;
}

static void wrong_calls_end(void) { if (rank <= 0) printf("WRONG %d calls on %d ranks\n", wrong_calls, size); }
