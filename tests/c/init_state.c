// ranks: 1 2 4 7
// transports: one
/* Calls that are valid before MPI_Init and after MPI_Finalize, and the reports of
 * initialization. */
#include "check.h"

static void always_legal(int initialized, int finalized)
{
    int flag = -1, version = -1, subversion = -1, length = -1;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    check_where("initialized %d, finalized %d", initialized, finalized);
    CHECK(MPI_Initialized(&flag) == MPI_SUCCESS);
    CHECK_EQ(flag, initialized);
    flag = -1;
    CHECK(MPI_Finalized(&flag) == MPI_SUCCESS);
    CHECK_EQ(flag, finalized);
    CHECK(MPI_Get_version(&version, &subversion) == MPI_SUCCESS);
    CHECK_EQ(version, MPI_VERSION);
    CHECK_EQ(subversion, MPI_SUBVERSION);
    CHECK(MPI_Get_library_version(text, &length) == MPI_SUCCESS);
    CHECK(length > 0 && length < MPI_MAX_LIBRARY_VERSION_STRING && (int) strlen(text) == length);
#if MPI_VERSION >= 4
    int class = -1;
    char reason[MPI_MAX_ERROR_STRING] = "";
    CHECK(MPI_Error_class(MPI_ERR_RANK, &class) == MPI_SUCCESS);
    CHECK_EQ(class, MPI_ERR_RANK);
    CHECK(MPI_Error_string(MPI_ERR_RANK, reason, &length) == MPI_SUCCESS);
    CHECK(length > 0 && (int) strlen(reason) == length);
#endif
}

static void while_usable(int provided)
{
    int level = -1, main_thread = -1, length = -1;
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    check_where("between Init and Finalize");
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Query_thread(&level));
    CHECK_EQ(level, provided);
    CHECK_OK(MPI_Is_thread_main(&main_thread));
    CHECK_EQ(main_thread, 1);
    CHECK_OK(MPI_Get_processor_name(name, &length));
    CHECK(length > 0 && length < MPI_MAX_PROCESSOR_NAME && (int) strlen(name) == length);

    double tick = MPI_Wtick(), before = MPI_Wtime();
    CHECK(tick > 0 && tick < 0.1);
    pause_ms(20);
    double passed = MPI_Wtime() - before;
    CHECK(passed >= 0.019 && passed < 20);
    double last = MPI_Wtime();
    for (int i = 0; i < 1000; i++) {
        double now = MPI_Wtime();
        if (!CHECK(now >= last)) break;
        last = now;
    }
    CHECK(rank >= 0 && rank < size);
}

int main(int argc, char **argv)
{
    check_watch();
    int arguments = argc, provided = -1;
    always_legal(0, 0);
    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
    check_ranks();
    CHECK_EQ(argc, arguments);
    CHECK(argv[0] != NULL && argv[argc] == NULL);
    always_legal(1, 0);
    while_usable(provided);
    int total = check_total();
    MPI_Finalize();
    check_failures = 0;
    always_legal(1, 1);
    if (rank == 0) printf(total == 0 && check_failures == 0 ? "ok\n" : "%d failures\n", total + check_failures);
    return total != 0 || check_failures != 0;
}
