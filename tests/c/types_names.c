// ranks: 1
// transports: one
/* Names of datatypes: of predefined ones, set by the program, and of the greatest length. */
#include "check.h"

#define NAMED(type) {type, #type}
static const struct { MPI_Datatype type; const char *name; } named[] = {
    NAMED(MPI_CHAR), NAMED(MPI_SIGNED_CHAR), NAMED(MPI_UNSIGNED_CHAR), NAMED(MPI_BYTE), NAMED(MPI_WCHAR), NAMED(MPI_SHORT),
    NAMED(MPI_UNSIGNED_SHORT), NAMED(MPI_INT), NAMED(MPI_UNSIGNED), NAMED(MPI_LONG), NAMED(MPI_UNSIGNED_LONG),
    NAMED(MPI_LONG_LONG_INT), NAMED(MPI_UNSIGNED_LONG_LONG), NAMED(MPI_FLOAT), NAMED(MPI_DOUBLE), NAMED(MPI_LONG_DOUBLE),
    NAMED(MPI_C_BOOL), NAMED(MPI_C_COMPLEX), NAMED(MPI_C_DOUBLE_COMPLEX), NAMED(MPI_C_LONG_DOUBLE_COMPLEX),
    NAMED(MPI_INT8_T), NAMED(MPI_INT16_T), NAMED(MPI_INT32_T), NAMED(MPI_INT64_T), NAMED(MPI_UINT8_T), NAMED(MPI_UINT16_T),
    NAMED(MPI_UINT32_T), NAMED(MPI_UINT64_T), NAMED(MPI_AINT), NAMED(MPI_COUNT), NAMED(MPI_OFFSET), NAMED(MPI_PACKED),
    NAMED(MPI_FLOAT_INT), NAMED(MPI_DOUBLE_INT), NAMED(MPI_LONG_INT), NAMED(MPI_2INT), NAMED(MPI_SHORT_INT),
    NAMED(MPI_LONG_DOUBLE_INT), NAMED(MPI_INTEGER), NAMED(MPI_REAL), NAMED(MPI_DOUBLE_PRECISION), NAMED(MPI_COMPLEX),
    NAMED(MPI_DOUBLE_COMPLEX), NAMED(MPI_LOGICAL), NAMED(MPI_CHARACTER), NAMED(MPI_2REAL), NAMED(MPI_2DOUBLE_PRECISION),
    NAMED(MPI_2INTEGER), NAMED(MPI_INTEGER16), NAMED(MPI_REAL2), NAMED(MPI_REAL16), NAMED(MPI_COMPLEX4), NAMED(MPI_COMPLEX32),
    NAMED(MPI_LOGICAL16), NAMED(MPI_CXX_BOOL), NAMED(MPI_DATATYPE_NULL),
};

static void is_called(MPI_Datatype type, const char *want)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length = -1;
    memset(name, 'x', sizeof name);
    CHECK_OK(MPI_Type_get_name(type, name, &length));
    if (!CHECK_EQ(length, strlen(want))) return;
    check_report(memcmp(name, want, length + 1) == 0, __FILE__, __LINE__, "the name is %s, not %s", name, want);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (unsigned i = 0; i < sizeof named / sizeof *named; i++) {
        check_where("%s", named[i].name);
        is_called(named[i].type, named[i].name);
    }
    check_where("of two names of a datatype the one that is no synonym");
    is_called(MPI_LONG_LONG, "MPI_LONG_LONG_INT");
    is_called(MPI_C_FLOAT_COMPLEX, "MPI_C_COMPLEX");
    check_where("names that a program sets");
    CHECK_OK(MPI_Type_set_name(MPI_INT, "whole numbers"));
    is_called(MPI_INT, "whole numbers");
    CHECK_OK(MPI_Type_set_name(MPI_INT, "MPI_INT"));
    MPI_Datatype type, copy;
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    is_called(type, "");
    CHECK_OK(MPI_Type_set_name(type, "caf\xe9")); /* not UTF-8 */
    is_called(type, "caf\xe9");
    CHECK_OK(MPI_Type_dup(type, &copy));
    is_called(copy, "");
    char name[200], cut[MPI_MAX_OBJECT_NAME];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    memset(cut, 'n', sizeof cut);
    cut[MPI_MAX_OBJECT_NAME - 1] = 0;
    CHECK_OK(MPI_Type_set_name(type, name));
    is_called(type, cut);
    CHECK_OK(MPI_Type_set_name(type, ""));
    is_called(type, "");
    int length;
    CHECK_CLASS(MPI_Type_set_name(type, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_set_name(MPI_DATATYPE_NULL, "none"), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_get_name(type, NULL, &length), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_get_name(type, name, NULL), MPI_ERR_ARG);
    MPI_Datatype stale = type;
    CHECK_OK(MPI_Type_free(&type));
    CHECK_CLASS(MPI_Type_get_name(stale, name, &length), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&copy));
    return check_end();
}
