// ranks: 1 2
// transports: one
/* Error classes, codes and texts that a program adds, before MPI_Init, between, and after
 * MPI_Finalize. */
#include "check.h"

static int told = -1;

static void note(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    told = *code;
}

static void says(int code, const char *want)
{
    char text[MPI_MAX_ERROR_STRING] = "untouched";
    int length = -1;
    check_where("code %d", code);
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS);
    CHECK_EQ(length, (int) strlen(want));
    CHECK(strcmp(text, want) == 0);
    check_where("%s", "");
}

static void is_of_class(int code, int want)
{
    int class = -1;
    CHECK(MPI_Error_class(code, &class) == MPI_SUCCESS);
    CHECK_EQ(class, want);
}

static int last_used(void)
{
    int *value = NULL, flag = 0;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    return flag && value ? *value : -1;
}

int main(int argc, char **argv)
{
    int early_class = -1, class = -1, code = -1, other = -1, *value = NULL, flag = 0, ignored;
    char longest[MPI_MAX_ERROR_STRING], too_long[MPI_MAX_ERROR_STRING + 1];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    memset(too_long, 'x', sizeof too_long);
    too_long[sizeof too_long - 1] = 0;
    check_watch();
    CHECK(MPI_Add_error_class(&early_class) == MPI_SUCCESS);
    CHECK(MPI_Add_error_string(early_class, "made before MPI_Init") == MPI_SUCCESS);
    CHECK_EQ(early_class, MPI_ERR_LASTCODE + 1);
    MPI_Init(&argc, &argv);
    check_ranks();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    says(early_class, "made before MPI_Init");
    CHECK_EQ(last_used(), early_class);

    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK_OK(MPI_Add_error_class(&class));
    CHECK_EQ(class, early_class + 1);
    CHECK_EQ(*value, class);
    CHECK_OK(MPI_Add_error_code(class, &code));
    CHECK_OK(MPI_Add_error_code(MPI_ERR_IO, &other));
    CHECK(code > class && other > code);
    CHECK_EQ(*value, other);
    CHECK_EQ(last_used(), other);
    is_of_class(class, class);
    is_of_class(code, class);
    is_of_class(other, MPI_ERR_IO);

    says(code, "");
    CHECK_OK(MPI_Add_error_string(code, "too hot"));
    says(code, "too hot");
    CHECK_OK(MPI_Add_error_string(code, longest));
    says(code, longest);
    CHECK_CLASS(MPI_Add_error_string(code, too_long), MPI_ERR_ARG);
    says(code, longest);
    CHECK_OK(MPI_Add_error_string(code, "too cold"));

    /* Handlers get these codes like all others, and MPI_Comm_call_errhandler returns. */
    MPI_Errhandler handler;
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(note, &handler));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Comm_call_errhandler(comm, code));
    CHECK_EQ(told, code);
    CHECK_OK(MPI_Comm_free(&comm));

    CHECK_CLASS(MPI_Add_error_class(NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_code(code, &ignored), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_code(other + 1, &ignored), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_string(MPI_ERR_IO, "mine"), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_string(other + 1, "mine"), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_string(code, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Error_class(other + 1, &ignored), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Error_class(MPI_ERR_LASTCODE - 1, &ignored), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_class(MPI_ERR_IO), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_class(class), MPI_ERR_ARG); /* it has a code */
    CHECK_CLASS(MPI_Remove_error_class(code), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_code(class), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_string(class), MPI_ERR_ARG);
    CHECK_EQ(last_used(), other);
    says(code, "too cold");

    CHECK_OK(MPI_Remove_error_string(code));
    says(code, "");
    CHECK_OK(MPI_Remove_error_code(code));
    CHECK_CLASS(MPI_Error_class(code, &ignored), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_code(code), MPI_ERR_ARG);
    CHECK_OK(MPI_Remove_error_class(class));
    CHECK_CLASS(MPI_Error_class(class, &ignored), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_code(class, &ignored), MPI_ERR_ARG);
    CHECK_OK(MPI_Add_error_class(&class));
    CHECK_EQ(class, other + 1);
    CHECK_EQ(last_used(), class);
    int total = check_total();
    MPI_Finalize();
    says(early_class, "made before MPI_Init");
    CHECK(MPI_Add_error_code(early_class, &code) == MPI_SUCCESS);
    CHECK_EQ(code, class + 1);
    total += check_failures;
    if (rank == 0) printf(total == 0 ? "ok\n" : "%d failures\n", total);
    return total != 0;
}
