// ranks: 1 2
// transports: one
/* Infos: order of keys, limits, wrong arguments, before MPI_Init and after MPI_Finalize. */
#include "check.h"

static char longest_key[MPI_MAX_INFO_KEY], too_long_key[MPI_MAX_INFO_KEY + 1];
static char longest_value[MPI_MAX_INFO_VAL], too_long_value[MPI_MAX_INFO_VAL + 1];

static void expect(MPI_Info info, const char *key, const char *want)
{
    char value[MPI_MAX_INFO_VAL] = "untouched";
    int flag = -1, length = MPI_MAX_INFO_VAL;
    check_where("key %.40s", key);
    CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
    CHECK_EQ(flag, want != NULL);
    if (want) {
        CHECK_EQ(length, (int) strlen(want) + 1);
        CHECK(strcmp(value, want) == 0);
    } else {
        CHECK_EQ(length, MPI_MAX_INFO_VAL);
        CHECK(strcmp(value, "untouched") == 0);
    }
    length = -1;
    CHECK_OK(MPI_Info_get_valuelen(info, key, &length, &flag));
    CHECK_EQ(flag, want != NULL);
    CHECK_EQ(length, want ? (int) strlen(want) : -1);
    check_where("%s", "");
}

static void expect_keys(MPI_Info info, int count, const char **want)
{
    int n = -1;
    CHECK_OK(MPI_Info_get_nkeys(info, &n));
    CHECK_EQ(n, count);
    for (int i = 0; i < count; i++) {
        char key[MPI_MAX_INFO_KEY] = "";
        CHECK_OK(MPI_Info_get_nthkey(info, i, key));
        check_where("key %d is %.40s", i, key);
        CHECK(strcmp(key, want[i]) == 0);
    }
    check_where("%s", "");
}

static void values_and_order(void)
{
    MPI_Info info, copy;
    CHECK_OK(MPI_Info_create(&info));
    expect_keys(info, 0, NULL);
    CHECK_OK(MPI_Info_set(info, "zebra", "1"));
    CHECK_OK(MPI_Info_set(info, "ant", "two words"));
    CHECK_OK(MPI_Info_set(info, "with blank ", " 3 "));
    CHECK_OK(MPI_Info_set(info, "empty", ""));
    CHECK_OK(MPI_Info_set(info, "zebra", "replaced"));
    expect_keys(info, 4, (const char *[]){"zebra", "ant", "with blank ", "empty"});
    expect(info, "zebra", "replaced");
    expect(info, "ant", "two words");
    expect(info, "with blank ", " 3 ");
    expect(info, "with blank", NULL);
    expect(info, "empty", "");
    expect(info, "Zebra", NULL);

    CHECK_OK(MPI_Info_dup(info, &copy));
    CHECK(copy != info);
    CHECK_OK(MPI_Info_delete(info, "ant"));
    CHECK_OK(MPI_Info_set(copy, "ant", "changed"));
    expect_keys(info, 3, (const char *[]){"zebra", "with blank ", "empty"});
    expect_keys(copy, 4, (const char *[]){"zebra", "ant", "with blank ", "empty"});
    expect(copy, "ant", "changed");
    expect(info, "ant", NULL);
    CHECK_OK(MPI_Info_free(&info));
    CHECK(info == MPI_INFO_NULL);
    expect(copy, "zebra", "replaced");
    CHECK_OK(MPI_Info_free(&copy));
}

/* A value that does not fit is truncated; without room nothing is written, and the required room
 * is returned. */
static void rooms(void)
{
    MPI_Info info;
    char value[16];
    int flag = -1, length = 0;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "key", "12345"));
    memset(value, 'x', sizeof value);
    CHECK_OK(MPI_Info_get_string(info, "key", &length, value, &flag));
    CHECK_EQ(flag, 1);
    CHECK_EQ(length, 6);
    CHECK_EQ(bytes_differ(value, 0, sizeof value, 'x'), -1);
    length = 0;
    CHECK_OK(MPI_Info_get_string(info, "key", &length, NULL, &flag));
    CHECK_EQ(length, 6);
    length = 3;
    CHECK_OK(MPI_Info_get_string(info, "key", &length, value, &flag));
    CHECK_EQ(length, 6);
    CHECK(strcmp(value, "12") == 0);
    CHECK_EQ(bytes_differ(value, 3, sizeof value, 'x'), -1);
    memset(value, 'x', sizeof value);
    CHECK_OK(MPI_Info_get(info, "key", 3, value, &flag));
    CHECK(strcmp(value, "123") == 0);
    CHECK_EQ(bytes_differ(value, 4, sizeof value, 'x'), -1);
    CHECK_OK(MPI_Info_get(info, "none", 3, value, &flag));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Info_free(&info));
}

static void limits(void)
{
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, longest_key, longest_value));
    expect(info, longest_key, longest_value);
    CHECK_CLASS(MPI_Info_set(info, too_long_key, "v"), MPI_ERR_INFO_KEY);
    CHECK_CLASS(MPI_Info_set(info, "", "v"), MPI_ERR_INFO_KEY);
    CHECK_CLASS(MPI_Info_set(info, "k", too_long_value), MPI_ERR_INFO_VALUE);
    char value[8];
    int flag = 7, length = 8;
    CHECK_CLASS(MPI_Info_get_string(info, too_long_key, &length, value, &flag), MPI_ERR_INFO_KEY);
    CHECK_CLASS(MPI_Info_delete(info, too_long_key), MPI_ERR_INFO_KEY);
    expect_keys(info, 1, (const char *[]){longest_key});
    for (int i = 0; i < 1000; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        CHECK_OK(MPI_Info_set(info, key, key + 1));
    }
    expect(info, "k999", "999");
    CHECK_OK(MPI_Info_free(&info));
}

static void wrong(void)
{
    MPI_Info info, stale, null = MPI_INFO_NULL, env = MPI_INFO_ENV;
    char text[MPI_MAX_INFO_VAL];
    int n = 8, flag;
    CHECK_CLASS(MPI_Info_create(NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Info_create(&info));
    CHECK_CLASS(MPI_Info_delete(info, "none"), MPI_ERR_INFO_NOKEY);
    CHECK_CLASS(MPI_Info_get_nthkey(info, 0, text), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Info_get_nthkey(info, -1, text), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Info_set(info, NULL, "v"), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Info_set(info, "k", NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Info_get_nkeys(info, NULL), MPI_ERR_ARG);
    n = -1;
    CHECK_CLASS(MPI_Info_get_string(info, "k", &n, text, &flag), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Info_get(info, "k", -1, text, &flag), MPI_ERR_ARG);
    stale = info;
    CHECK_OK(MPI_Info_free(&info));
    CHECK_CLASS(MPI_Info_set(stale, "k", "v"), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_free(&stale), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_free(&info), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_get_nkeys(null, &n), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_dup(null, &info), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_set(null, "k", "v"), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_set(env, "k", "v"), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_delete(env, "command"), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_free(&env), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_get_nkeys((MPI_Info) 0x12345678, &n), MPI_ERR_INFO);
}

static void numbers(void)
{
    MPI_Info info, other;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_create(&other));
    CHECK(MPI_Info_toint(info) != MPI_Info_toint(other));
    CHECK(MPI_Info_fromint(MPI_Info_toint(info)) == info);
    CHECK(MPI_Info_fromint(MPI_Info_toint(other)) == other);
    CHECK(MPI_Info_fromint(MPI_Info_toint(MPI_INFO_NULL)) == MPI_INFO_NULL);
    CHECK(MPI_Info_fromint(MPI_Info_toint(MPI_INFO_ENV)) == MPI_INFO_ENV);
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Info_free(&other));
}

int main(int argc, char **argv)
{
    check_watch();
    memset(longest_key, 'k', sizeof longest_key - 1);
    memset(too_long_key, 'k', sizeof too_long_key - 1);
    memset(longest_value, 'v', sizeof longest_value - 1);
    memset(too_long_value, 'v', sizeof too_long_value - 1);
    values_and_order();
    rooms();
    numbers();
    MPI_Info kept;
    CHECK_OK(MPI_Info_create(&kept));
    CHECK_OK(MPI_Info_set(kept, "from", "before"));
    MPI_Init(&argc, &argv);
    check_ranks();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    expect(kept, "from", "before");
    values_and_order();
    rooms();
    limits();
    wrong();
    numbers();
    void *memory = NULL;
    MPI_Info aligned, abi;
    CHECK_OK(MPI_Abi_get_info(&abi));
    char bytes[3][8];
    snprintf(bytes[0], sizeof bytes[0], "%zu", sizeof(MPI_Aint));
    snprintf(bytes[1], sizeof bytes[1], "%zu", sizeof(MPI_Count));
    snprintf(bytes[2], sizeof bytes[2], "%zu", sizeof(MPI_Offset));
    expect(abi, "mpi_aint_size", bytes[0]);
    expect(abi, "mpi_count_size", bytes[1]);
    expect(abi, "mpi_offset_size", bytes[2]);
    CHECK_OK(MPI_Info_free(&abi));
    CHECK_OK(MPI_Info_create(&aligned));
    CHECK_OK(MPI_Info_set(aligned, "mpi_minimum_memory_alignment", "4096"));
    CHECK_OK(MPI_Alloc_mem(100, aligned, &memory));
    CHECK_EQ((uintptr_t) memory % 4096, 0);
    CHECK_OK(MPI_Free_mem(memory));
    CHECK_OK(MPI_Info_set(aligned, "mpi_minimum_memory_alignment", "100"));
    CHECK_CLASS(MPI_Alloc_mem(100, aligned, &memory), MPI_ERR_INFO_VALUE);
    CHECK_OK(MPI_Info_free(&aligned));
    int total = check_total();
    MPI_Finalize();
    expect(kept, "from", "before");
    CHECK_OK(MPI_Info_free(&kept));
    values_and_order();
    total += check_failures;
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    return total != 0;
}
