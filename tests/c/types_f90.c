// ranks: 1 2
// transports: one
/* Fortran's types by precision, range and size, and pairs by their members. */
#include "check.h"

static void by_kind(int what, int p, int r, int want_bytes, int want_external)
{
    MPI_Datatype type = MPI_DATATYPE_NULL, again = MPI_DATATYPE_NULL, stale;
    check_where("combiner %d, precision %d, range %d", what, p, r);
    for (int i = 0; i < 2; i++) {
        MPI_Datatype *place = i ? &again : &type;
        if (what == MPI_COMBINER_F90_REAL) CHECK_OK(MPI_Type_create_f90_real(p, r, place));
        else if (what == MPI_COMBINER_F90_COMPLEX) CHECK_OK(MPI_Type_create_f90_complex(p, r, place));
        else CHECK_OK(MPI_Type_create_f90_integer(r, place));
    }
    CHECK(type == again && type != MPI_DATATYPE_NULL);
    int bytes, ni, na, nt, combiner, integers[2] = {-1, -1};
    MPI_Aint room;
    CHECK_OK(MPI_Type_size(type, &bytes));
    CHECK_EQ(bytes, want_bytes);
    CHECK_OK(MPI_Pack_external_size("external32", 1, type, &room));
    CHECK_EQ(room, want_external);
    CHECK_OK(MPI_Type_get_envelope(type, &ni, &na, &nt, &combiner));
    int integer = what == MPI_COMBINER_F90_INTEGER;
    CHECK(ni == (integer ? 1 : 2) && na == 0 && nt == 0 && combiner == what);
    CHECK_OK(MPI_Type_get_contents(type, 2, 0, 0, integers, NULL, NULL));
    CHECK_EQ(integers[0], integer ? r : p);
    if (!integer) CHECK_EQ(integers[1], r);
    stale = type;
    CHECK_CLASS(MPI_Type_free(&stale), MPI_ERR_TYPE);
    CHECK(stale == type);
    /* Committed from the start; a type made of it returns the same handle. */
    char out[64] = "0123456789012345678901234567890123456789", in[64] = "";
    CHECK_OK(MPI_Sendrecv(out, 1, type, (rank + 1) % size, 0, in, 1, type, (rank + size - 1) % size, 0, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    CHECK(memcmp(in, out, bytes) == 0 && in[bytes] == 0);
    MPI_Datatype derived;
    CHECK_OK(MPI_Type_contiguous(2, type, &derived));
    CHECK_OK(MPI_Type_get_contents(derived, 1, 0, 1, integers, NULL, &again));
    CHECK(again == type);
    CHECK_OK(MPI_Type_free(&derived));
    CHECK_OK(MPI_Type_dup(type, &derived)); /* the program must free the copy */
    CHECK_OK(MPI_Type_free(&derived));
    CHECK(derived == MPI_DATATYPE_NULL);
}

static void kinds(void)
{
    const int none = MPI_UNDEFINED, real = MPI_COMBINER_F90_REAL, complex = MPI_COMBINER_F90_COMPLEX;
    static const int reals[][3] = {{1, 4}, {6, 4}, {7, 8}, {15, 8}, {16, 16}, {18, 16}, {19, 16}, {33, 16}};
    for (unsigned i = 0; i < sizeof reals / sizeof *reals; i++) {
        by_kind(real, reals[i][0], none, reals[i][1], reals[i][1]);
        by_kind(complex, reals[i][0], none, 2 * reals[i][1], 2 * reals[i][1]);
    }
    by_kind(real, none, 37, 4, 4);
    by_kind(real, none, 38, 8, 8);
    by_kind(real, 3, 308, 16, 16);
    by_kind(complex, 14, 300, 16, 16);
    static const int integers[][2] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {9, 4}, {10, 8}, {18, 8}, {19, 16}, {38, 16}};
    for (unsigned i = 0; i < sizeof integers / sizeof *integers; i++)
        by_kind(MPI_COMBINER_F90_INTEGER, 0, integers[i][0], integers[i][1], integers[i][1]);
    MPI_Datatype type = MPI_DATATYPE_NULL, other;
    check_where("what is refused");
    CHECK_CLASS(MPI_Type_create_f90_real(34, none, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_f90_real(none, 4932, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_f90_real(none, none, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_f90_complex(-1, none, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_f90_integer(39, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_f90_integer(none, &type), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Type_create_f90_integer(3, NULL), MPI_ERR_ARG);
    CHECK(type == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Type_create_f90_real(5, none, &type));
    CHECK_OK(MPI_Type_create_f90_real(6, none, &other));
    CHECK(type != other);
    check_where("reductions");
    double mine = rank + 1, sum = 0;
    CHECK_OK(MPI_Type_create_f90_real(15, 300, &type));
    CHECK_OK(MPI_Allreduce(&mine, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size + 1) / 2);
}

static void matches(int class, int bytes, MPI_Datatype want)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;
    check_where("class %d of %d bytes", class, bytes);
    if (want == MPI_DATATYPE_NULL) {
        CHECK_CLASS(MPI_Type_match_size(class, bytes, &type), MPI_ERR_ARG);
    } else {
        CHECK_OK(MPI_Type_match_size(class, bytes, &type));
    }
    CHECK(type == want);
}

static void pairs(MPI_Datatype value, MPI_Datatype index, MPI_Datatype want)
{
    MPI_Datatype type = MPI_INT;
    check_where("pairs");
    CHECK_OK(MPI_Type_get_value_index(value, index, &type));
    CHECK(type == want);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    kinds();
    matches(MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1);
    matches(MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4);
    matches(MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16);
    matches(MPI_TYPECLASS_INTEGER, 3, MPI_DATATYPE_NULL);
    matches(MPI_TYPECLASS_REAL, 2, MPI_REAL2);
    matches(MPI_TYPECLASS_REAL, 8, MPI_REAL8);
    matches(MPI_TYPECLASS_REAL, 16, MPI_REAL16);
    matches(MPI_TYPECLASS_REAL, 1, MPI_DATATYPE_NULL);
    matches(MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8);
    matches(MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32);
    matches(MPI_TYPECLASS_COMPLEX, 2, MPI_DATATYPE_NULL);
    matches(MPI_TYPECLASS_REAL, -4, MPI_DATATYPE_NULL);
    matches(12345, 4, MPI_DATATYPE_NULL);
    pairs(MPI_FLOAT, MPI_INT, MPI_FLOAT_INT);
    pairs(MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT);
    pairs(MPI_LONG, MPI_INT, MPI_LONG_INT);
    pairs(MPI_INT, MPI_INT, MPI_2INT);
    pairs(MPI_SHORT, MPI_INT, MPI_SHORT_INT);
    pairs(MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT);
    pairs(MPI_REAL, MPI_REAL, MPI_2REAL);
    pairs(MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION);
    pairs(MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER);
    pairs(MPI_CHAR, MPI_INT, MPI_DATATYPE_NULL);
    MPI_Datatype type;
    CHECK_CLASS(MPI_Type_get_value_index(MPI_DATATYPE_NULL, MPI_INT, &type), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_get_value_index(MPI_INT, MPI_INT, NULL), MPI_ERR_ARG);
    return check_end();
}
