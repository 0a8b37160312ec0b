// ranks: 1 3
// transports: one
/* MPI_INFO_ENV and MPI_Info_create_env: how the program was started. */
#include "check.h"

static void has(MPI_Info info, const char *key, const char *want)
{
    char value[MPI_MAX_INFO_VAL] = "";
    int flag = -1, length = sizeof value;
    check_where("key %s", key);
    CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
    CHECK_EQ(flag, want != NULL);
    check_where("key %s is '%.100s'", key, value);
    if (want) CHECK(strcmp(value, want) == 0);
    check_where("%s", "");
}

static int keys(MPI_Info info)
{
    int n = -1;
    CHECK_OK(MPI_Info_get_nkeys(info, &n));
    return n;
}

int main(int argc, char **argv)
{
    char *words[] = {"program", "-a", "b c", NULL}, ranks[16], directory[900] = "";
    MPI_Info info;
    int provided;
    check_watch();
    if (getcwd(directory, sizeof directory) == NULL) return 3;

    /* Before MPI_Init it has the values that are known then. */
    has(MPI_INFO_ENV, "command", argv[0]);
    CHECK_OK(MPI_Info_create_env(3, words, &info));
    has(info, "command", "program");
    has(info, "argv", "-a b c");
    has(info, "wdir", directory);
    CHECK_OK(MPI_Info_free(&info));

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    check_ranks();
    snprintf(ranks, sizeof ranks, "%d", size);
    has(MPI_INFO_ENV, "command", argv[0]);
    has(MPI_INFO_ENV, "argv", NULL);
    has(MPI_INFO_ENV, "maxprocs", ranks);
    has(MPI_INFO_ENV, "wdir", directory);
    has(MPI_INFO_ENV, "thread_level", "MPI_THREAD_FUNNELED");
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    CHECK_OK(MPI_Get_processor_name(name, &length));
    has(MPI_INFO_ENV, "host", name);

    CHECK_OK(MPI_Info_dup(MPI_INFO_ENV, &info));
    CHECK_EQ(keys(info), keys(MPI_INFO_ENV));
    CHECK_OK(MPI_Info_set(info, "command", "other"));
    has(info, "command", "other");
    has(MPI_INFO_ENV, "command", argv[0]);
    CHECK_OK(MPI_Info_free(&info));

    CHECK_OK(MPI_Info_create_env(0, NULL, &info));
    CHECK_EQ(keys(info), keys(MPI_INFO_ENV));
    has(info, "command", argv[0]);
    has(info, "maxprocs", ranks);
    CHECK_OK(MPI_Info_free(&info));
    int total = check_total();
    MPI_Finalize();
    has(MPI_INFO_ENV, "maxprocs", ranks);
    total += check_failures;
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    return total != 0;
}
