// ranks: 1 3
// transports: one
/* MPI_Info_create_env and MPI_INFO_ENV have the same values before and after MPI_Init (MPI-5.0
 * section 11.2.1). */
#include "check.h"

static void same(MPI_Info a, MPI_Info b)
{
    int n = -1, m = -1;
    CHECK_OK(MPI_Info_get_nkeys(a, &n));
    CHECK_OK(MPI_Info_get_nkeys(b, &m));
    CHECK_EQ(n, m);
    for (int k = 0; k < n && n == m; k++) {
        char key[MPI_MAX_INFO_KEY + 1], one[MPI_MAX_INFO_VAL] = "", other[MPI_MAX_INFO_VAL] = "";
        int flag = 0, length = sizeof one;
        CHECK_OK(MPI_Info_get_nthkey(a, k, key));
        check_where("key %s", key);
        CHECK_OK(MPI_Info_get_string(a, key, &length, one, &flag));
        length = sizeof other;
        CHECK_OK(MPI_Info_get_string(b, key, &length, other, &flag));
        CHECK(flag && strcmp(one, other) == 0);
    }
    check_where("%s", "");
}

int main(int argc, char **argv)
{
    char ranks[16], value[MPI_MAX_INFO_VAL] = "";
    int flag = 0, length = sizeof value;
    MPI_Info before, copy, after;
    check_watch();
    CHECK_OK(MPI_Info_create_env(argc, argv, &before));
    CHECK_OK(MPI_Info_dup(MPI_INFO_ENV, &copy));
    MPI_Init(&argc, &argv);
    check_ranks();
    CHECK_OK(MPI_Info_create_env(argc, argv, &after));
    same(before, after);
    same(copy, after);
    same(before, MPI_INFO_ENV);
    snprintf(ranks, sizeof ranks, "%d", size);
    CHECK_OK(MPI_Info_get_string(before, "maxprocs", &length, value, &flag));
    CHECK(flag && strcmp(value, ranks) == 0);
    CHECK_OK(MPI_Info_free(&before));
    CHECK_OK(MPI_Info_free(&copy));
    CHECK_OK(MPI_Info_free(&after));
    int total = check_total();
    MPI_Finalize();
    CHECK_OK(MPI_Info_create_env(argc, argv, &after));
    same(after, MPI_INFO_ENV);
    CHECK_OK(MPI_Info_free(&after));
    total += check_failures;
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    return total != 0;
}
