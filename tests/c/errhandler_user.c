// ranks: 1 2 4
// transports: one
/* Error handlers of the program: their arguments, longjmp out of them, and their life. */
#include "check.h"

#include <setjmp.h>

static int calls = 0, told_code = -1;
static MPI_Comm told_comm = MPI_COMM_NULL;
static jmp_buf back;

static void note(MPI_Comm *comm, int *code, ...)
{
    calls++;
    told_comm = *comm;
    told_code = *code;
    int members = -1;
    CHECK(MPI_Comm_size(*comm, &members) == MPI_SUCCESS && members > 0);
}

static void note_only(MPI_Comm *comm, int *code, ...)
{
    calls++;
    told_comm = *comm;
    told_code = *code;
}

static int made_of_it = MPI_SUCCESS;

static void replace(MPI_Comm *comm, int *code, ...)
{
    note_only(comm, code);
    *code = made_of_it;
}

static void jump(MPI_Comm *comm, int *code, ...)
{
    note(comm, code);
    longjmp(back, 1);
}

static void for_files(MPI_File *file, int *code, ...)
{
    (void) file;
    calls += 100;
    told_code = *code;
}

static void was_told(MPI_Comm comm, int class, int line)
{
    int got = -1;
    check_report(calls == 1, __FILE__, line, "%d calls, not 1", calls);
    check_report(told_comm == comm, __FILE__, line, "the handler was told of another communicator");
    MPI_Error_class(told_code, &got);
    check_report(got == class, __FILE__, line, "the handler was told class %d, not %d", got, class);
    calls = 0;
    told_comm = MPI_COMM_NULL;
    told_code = -1;
}

#define TOLD(comm, class) was_told((comm), (class), __LINE__)

static void replaces_the_code(void)
{
    int value = 1, large[2] = {1, 2}, me, ours;
    MPI_Errhandler handler;
    MPI_Comm comm;
    CHECK_OK(MPI_Add_error_class(&ours));
    CHECK_OK(MPI_Comm_create_errhandler(replace, &handler));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    made_of_it = MPI_SUCCESS;
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, size, 0, comm));
    TOLD(comm, MPI_ERR_RANK);
    made_of_it = ours;
    CHECK_EQ(MPI_Send(&value, 1, MPI_INT, size, 0, comm), ours);
    TOLD(comm, MPI_ERR_RANK);

    /* Also the code of a failed operation, but not MPI_ERR_IN_STATUS. */
    MPI_Request requests[2];
    MPI_Status statuses[2];
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, me, 6, comm, &requests[0]));
    CHECK_OK(MPI_Send(large, 2, MPI_INT, me, 6, comm));
    CHECK_EQ(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), ours);
    TOLD(comm, MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, me, 7, comm, &requests[0]));
    CHECK_OK(MPI_Isend(large, 2, MPI_INT, me, 7, comm, &requests[1]));
    CHECK_CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK_EQ(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    TOLD(comm, MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Comm_free(&comm));
}

static void called_with_the_code(void)
{
    int value = 1;
    MPI_Errhandler handler;
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_create_errhandler(note, &handler));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, comm), MPI_ERR_RANK);
    TOLD(comm, MPI_ERR_RANK);
    CHECK_CLASS(MPI_Bcast(&value, -1, MPI_INT, 0, comm), MPI_ERR_COUNT);
    TOLD(comm, MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Comm_set_name(comm, NULL), MPI_ERR_ARG);
    TOLD(comm, MPI_ERR_ARG);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    CHECK_EQ(calls, 0);

    CHECK_OK(MPI_Comm_call_errhandler(comm, MPI_ERR_IO));
    TOLD(comm, MPI_ERR_IO);
    CHECK_OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_IO));
    CHECK_EQ(calls, 0);
    CHECK_CLASS(MPI_Comm_call_errhandler(comm, 12345), MPI_ERR_ARG);
    TOLD(comm, MPI_ERR_ARG);

    /* A failed operation of several: the handler gets the operation's code, the caller
     * MPI_ERR_IN_STATUS. */
    int small[1] = {0}, large[2] = {1, 2};
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int me;
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Irecv(small, 1, MPI_INT, me, 5, comm, &requests[0]));
    CHECK_OK(MPI_Isend(large, 2, MPI_INT, me, 5, comm, &requests[1]));
    CHECK_CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    TOLD(comm, MPI_ERR_TRUNCATE);
    CHECK_EQ(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    CHECK_EQ(statuses[1].MPI_ERROR, MPI_SUCCESS);

    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK(handler == MPI_ERRHANDLER_NULL);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, size, 0, comm), MPI_ERR_RANK); /* freed, but still attached */
    TOLD(comm, MPI_ERR_RANK);
    CHECK_OK(MPI_Comm_free(&comm));
}

/* The error of a request belongs to its communicator, also when that was freed. */
static void of_a_freed_communicator(void)
{
    int small[1] = {0}, large[2] = {1, 2}, me;
    MPI_Errhandler handler;
    MPI_Comm comm, freed;
    MPI_Request request;
    CHECK_OK(MPI_Comm_create_errhandler(note_only, &handler));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Irecv(small, 1, MPI_INT, me, 5, comm, &request));
    CHECK_OK(MPI_Send(large, 2, MPI_INT, me, 5, comm));
    freed = comm;
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    TOLD(freed, MPI_ERR_TRUNCATE);
}

static void leaves_by_longjmp(void)
{
    int value = 1;
    MPI_Errhandler handler;
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(jump, &handler));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    volatile int jumps = 0;
    for (volatile int i = 0; i < 1000; i++) {
        if (setjmp(back) == 0) {
            MPI_Send(&value, -1, MPI_INT, 0, 0, comm);
            CHECK(!"the handler jumps");
        } else {
            jumps++;
        }
    }
    CHECK_EQ(jumps, 1000);
    CHECK_EQ(calls, 1000);
    calls = 0;
    CHECK_OK(MPI_Errhandler_free(&handler));
    int sum = -1;
    CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
    CHECK_OK(MPI_Comm_free(&comm));
}

static void references(void)
{
    MPI_Errhandler handler, again, stale;
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(note, &handler));
    CHECK(MPI_Errhandler_fromint(MPI_Errhandler_toint(handler)) == handler);
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    CHECK_OK(MPI_Comm_get_errhandler(comm, &again));
    CHECK(again == handler);
    stale = handler;
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Comm_set_errhandler(comm, again)); /* each reference is valid */
    CHECK_OK(MPI_Errhandler_free(&again));
    CHECK_CLASS(MPI_Errhandler_free(&stale), MPI_ERR_ERRHANDLER);
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, stale), MPI_ERR_ERRHANDLER);
    CHECK_OK(MPI_Comm_get_errhandler(comm, &again)); /* the communicator has the only other reference */
    CHECK(again == stale);
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(comm, again));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&again));
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, stale), MPI_ERR_ERRHANDLER); /* now it is freed */
    CHECK_OK(MPI_Comm_get_errhandler(comm, &again));
    CHECK(again == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Errhandler_free(&again));
    CHECK_OK(MPI_Comm_free(&comm));
}

static void wrong(void)
{
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL, files;
    CHECK_CLASS(MPI_Comm_create_errhandler(NULL, &handler), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_create_errhandler(note, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, (MPI_Errhandler) 0x123456), MPI_ERR_ERRHANDLER);
    CHECK_CLASS(MPI_Comm_get_errhandler(MPI_COMM_SELF, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Errhandler_free(&handler), MPI_ERR_ERRHANDLER);
    CHECK_CLASS(MPI_Comm_call_errhandler(MPI_COMM_NULL, MPI_ERR_IO), MPI_ERR_COMM);

    /* A handler for files is for files: MPI_FILE_NULL has one, which new files would get. */
    CHECK_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_File_create_errhandler(for_files, &files));
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, files), MPI_ERR_ERRHANDLER);
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, files));
    CHECK_OK(MPI_Errhandler_free(&files));
    CHECK_OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO));
    CHECK_EQ(calls, 100);
    CHECK_EQ(told_code, MPI_ERR_IO);
    calls = 0;
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
}

int main(int argc, char **argv)
{
    MPI_Errhandler early;
    check_watch();
    CHECK_OK(MPI_Comm_create_errhandler(note, &early)); /* before MPI_Init */
    MPI_Init(&argc, &argv);
    check_ranks();
    return_errors();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    called_with_the_code();
    replaces_the_code();
    leaves_by_longjmp();
    references();
    wrong();
    of_a_freed_communicator();

    /* Errors without a communicator are those of MPI_COMM_SELF. */
    int value = 0;
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, early));
    CHECK_CLASS(MPI_Type_size(MPI_DATATYPE_NULL, &value), MPI_ERR_TYPE);
    TOLD(MPI_COMM_SELF, MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    TOLD(MPI_COMM_SELF, MPI_ERR_COMM);
    CHECK_CLASS(MPI_Info_free(NULL), MPI_ERR_ARG);
    TOLD(MPI_COMM_SELF, MPI_ERR_ARG);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    int total = check_total();
    MPI_Finalize();
    CHECK_OK(MPI_Errhandler_free(&early)); /* after MPI_Finalize */
    total += check_failures;
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    return total != 0;
}
