// ranks: 1 2
// transports: one
/* Making and freeing objects ten thousand times leaves no memory behind. */
#include "check.h"

#include <malloc.h>

static int keyval;

static int no_query(void *extra, MPI_Status *status)
{
    (void) extra;
    (void) status;
    return MPI_SUCCESS;
}

static int no_free(void *extra)
{
    (void) extra;
    return MPI_SUCCESS;
}

static int no_cancel(void *extra, int complete)
{
    (void) extra;
    (void) complete;
    return MPI_SUCCESS;
}

static void note(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    (void) code;
}

static void infos(void)
{
    MPI_Info info, copy;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "a value that takes memory");
    MPI_Info_dup(info, &copy);
    MPI_Info_free(&info);
    MPI_Info_free(&copy);
}

static void handlers(void)
{
    MPI_Errhandler handler, again;
    MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &again);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&again);
}

static void codes(void)
{
    int class, code;
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "a text that takes memory");
    MPI_Remove_error_string(code);
    MPI_Remove_error_code(code);
    MPI_Remove_error_class(class);
}

static void keys(void)
{
    int own;
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &own, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, own, &own);
    MPI_Comm_delete_attr(MPI_COMM_SELF, own);
    MPI_Comm_free_keyval(&own);
}

static void communicators(void)
{
    MPI_Comm comm, copy;
    MPI_Errhandler handler;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Comm_set_attr(comm, keyval, &keyval);
    MPI_Comm_set_name(comm, "a name that takes memory");
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&copy);
}

static void types(void)
{
    static int own = MPI_KEYVAL_INVALID;
    MPI_Datatype type, copy;
    if (own == MPI_KEYVAL_INVALID) MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &own, NULL);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_set_attr(type, own, &own);
    MPI_Type_dup(type, &copy);
    MPI_Type_free(&type);
    MPI_Type_free(&copy);
}

static void requests(void)
{
    MPI_Request request, kept;
    MPI_Grequest_start(no_query, no_free, no_cancel, NULL, &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Grequest_start(no_query, no_free, no_cancel, NULL, &request);
    kept = request;
    MPI_Request_free(&request);
    MPI_Grequest_complete(kept);
}

static long long used_after(void (*round)(void), int rounds)
{
    for (int i = 0; i < rounds; i++) round();
    struct mallinfo2 info = mallinfo2();
    return (long long) (info.uordblks + info.hblkhd);
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*round)(void);
    } kinds[] = {{"infos", infos}, {"error handlers", handlers}, {"error codes", codes}, {"keys", keys},
                 {"communicators", communicators}, {"datatypes", types}, {"requests", requests}};
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    int rounds = scaled(10000);
    for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        /* First to the final size of the tables: the number of a context is used again after a
         * thousand others. */
        long long before = used_after(kinds[i].round, 3000), after = used_after(kinds[i].round, rounds);
        check_where("%s: %lld bytes before, %lld after", kinds[i].name, before, after);
        CHECK(after - before < 16384);
    }
    check_where("%s", "");
    return check_end();
}
