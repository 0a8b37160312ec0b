// ranks: 1 2 4
// transports: one
/* Calls that do not need MPI_Init give the same results before it, after it, after MPI_Finalize
 * and during a session: the binary interface, versions, arithmetic of addresses, fields of
 * statuses, the environment. */
#include "sessions.h"

static void addresses(void)
{
    static double field[10];
    MPI_Aint first, last;
    CHECK_EQ(MPI_Aint_diff((MPI_Aint) &field[7], (MPI_Aint) &field[2]), 5 * sizeof field[0]);
    CHECK_EQ(MPI_Aint_diff((MPI_Aint) &field[2], (MPI_Aint) &field[7]), -5 * (long long) sizeof field[0]);
    CHECK_EQ(MPI_Aint_add((MPI_Aint) &field[2], 5 * (MPI_Aint) sizeof field[0]), (MPI_Aint) &field[7]);
    CHECK_EQ(MPI_Aint_add((MPI_Aint) &field[7], -7 * (MPI_Aint) sizeof field[0]), (MPI_Aint) field);
    CHECK_EQ(MPI_Aint_add((MPI_Aint) MPI_BOTTOM, 16), 16);
    CHECK_EQ(MPI_Aint_diff(0, 16), -16);
    /* Addresses are unsigned: a difference across INTPTR_MAX is right, too. */
    first = INTPTR_MAX - 7;
    last = MPI_Aint_add(first, 16);
    CHECK(last < 0);
    CHECK_EQ(MPI_Aint_diff(last, first), 16);
}

/* Between MPI_Init and MPI_Finalize. */
static void of_members(void)
{
    struct {
        char c;
        double d;
    } one = {0, 0};
    MPI_Aint first, last;
    CHECK_OK(MPI_Get_address(&one, &first));
    CHECK_OK(MPI_Get_address(&one.d, &last));
    CHECK_EQ(MPI_Aint_diff(last, first), (char *) &one.d - (char *) &one);
    CHECK(MPI_Aint_add(first, MPI_Aint_diff(last, first)) == last);
}

static void statuses(void)
{
    MPI_Status status;
    int value = -1, flag = -1;
    memset(&status, 0x5a, sizeof status);
    CHECK_OK(MPI_Status_set_source(&status, 17));
    CHECK_OK(MPI_Status_set_tag(&status, MPI_ANY_TAG));
    CHECK_OK(MPI_Status_set_error(&status, MPI_ERR_TRUNCATE));
    CHECK(status.MPI_SOURCE == 17 && status.MPI_TAG == MPI_ANY_TAG && status.MPI_ERROR == MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Status_get_source(&status, &value));
    CHECK_EQ(value, 17);
    CHECK_OK(MPI_Status_get_tag(&status, &value));
    CHECK_EQ(value, MPI_ANY_TAG);
    CHECK_OK(MPI_Status_get_error(&status, &value));
    CHECK_EQ(value, MPI_ERR_TRUNCATE);
    for (int wanted = 1; wanted >= 0; wanted--) {
        CHECK_OK(MPI_Status_set_cancelled(&status, wanted));
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK_EQ(flag, wanted);
    }
    CHECK_OK(MPI_Status_get_source(&status, &value));
    CHECK_EQ(value, 17);
}

static void interface(void)
{
    static const char *const sizes[] = {"mpi_aint_size", "mpi_count_size", "mpi_offset_size"};
    static const size_t bytes[] = {sizeof(MPI_Aint), sizeof(MPI_Count), sizeof(MPI_Offset)};
    int major = -1, minor = -1, length, flag = -1;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info;
    CHECK_OK(MPI_Abi_get_version(&major, &minor));
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION);
    CHECK_OK(MPI_Get_version(&major, &minor));
    CHECK(major == MPI_VERSION && minor == MPI_SUBVERSION);
    CHECK_OK(MPI_Abi_get_info(&info));
    for (int i = 0; i < 3; i++) {
        length = sizeof text;
        CHECK_OK(MPI_Info_get_string(info, sizes[i], &length, text, &flag));
        CHECK(flag == 1 && (size_t) atoi(text) == bytes[i]);
    }
    MPI_Info_free(&info);
    CHECK_OK(MPI_Get_library_version(text, &length));
    CHECK(length > 0 && length < MPI_MAX_LIBRARY_VERSION_STRING && strlen(text) == (size_t) length);
    CHECK(strstr(text, "OxMPI") == text);
    CHECK_OK(MPI_Abi_get_fortran_info(&info));
    CHECK(info == MPI_INFO_NULL);
    for (int size_of_logical = 1; size_of_logical <= 16; size_of_logical *= 2) {
        CHECK_OK(MPI_Abi_get_fortran_booleans(size_of_logical, text, text, &flag));
        CHECK_EQ(flag, 0);
    }
}

static void surroundings(void)
{
    MPI_Info info;
    int keys = 0, class = 0, code = 0, got = 0, length = 32, flag = 0;
    char text[MPI_MAX_INFO_VAL];
    CHECK_OK(MPI_Get_hw_resource_info(&info));
    CHECK_OK(MPI_Info_get_nkeys(info, &keys));
    CHECK(keys > 0);
    MPI_Info_free(&info);
    char program[] = "program", word[] = "word", *arguments[] = {program, word, NULL};
    CHECK_OK(MPI_Info_create_env(2, arguments, &info));
    CHECK_OK(MPI_Info_get_string(info, "command", &length, text, &flag));
    CHECK(flag && !strcmp(text, "program"));
    MPI_Info_free(&info);
    CHECK_OK(MPI_Add_error_class(&class));
    CHECK_OK(MPI_Add_error_code(class, &code));
    CHECK_OK(MPI_Add_error_string(code, "any time"));
    CHECK_OK(MPI_Error_class(code, &got));
    CHECK_EQ(got, class);
    CHECK_OK(MPI_Remove_error_string(code));
    CHECK_OK(MPI_Remove_error_code(code));
    CHECK_OK(MPI_Remove_error_class(class));
    CHECK(MPI_Wtime() > 0 && MPI_Wtick() > 0);
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Type_fromint(MPI_Type_toint(MPI_DOUBLE)) == MPI_DOUBLE);
}

static void all(const char *when)
{
    check_where("%s", when);
    addresses();
    statuses();
    interface();
    surroundings();
}

int main(int argc, char **argv)
{
    check_watch();
    all("before everything");
    MPI_Session session = open_session();
    all("beside a session");
    of_members();
    MPI_Init(&argc, &argv);
    check_ranks();
    all("between MPI_Init and MPI_Finalize");
    of_members();
    MPI_Finalize();
    all("after MPI_Finalize, beside a session");
    close_session(&session);
    all("after everything");
    return sessions_end();
}
