// ranks: 1 2 4
// transports: one
/* The attributes of the library, which programs can only read. */
#include "check.h"

static int value_of(int keyval, int *value)
{
    int *place = NULL, flag = -1;
    check_where("key %d", keyval);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &place, &flag));
    CHECK(flag == 0 || flag == 1);
    if (flag == 1 && CHECK(place != NULL)) *value = *place;
    check_where("%s", "");
    return flag;
}

int main(int argc, char **argv)
{
    const int keyvals[] = {MPI_TAG_UB, MPI_IO, MPI_HOST, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_LASTUSEDCODE,
                           MPI_UNIVERSE_SIZE};
    int value = -77;
    check_begin(&argc, &argv);
    return_errors();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK(value_of(MPI_TAG_UB, &value) && value >= 32767);
    CHECK(value_of(MPI_IO, &value) && value == MPI_ANY_SOURCE);
    CHECK(value_of(MPI_HOST, &value) && value == MPI_PROC_NULL);
    CHECK(value_of(MPI_WTIME_IS_GLOBAL, &value) && (value == 0 || value == 1));
    CHECK(value_of(MPI_LASTUSEDCODE, &value) && value == MPI_ERR_LASTCODE);
    CHECK(value_of(MPI_UNIVERSE_SIZE, &value) && value >= size);
    const char *slots = getenv("OXMPI_UNIVERSE_SIZE");
    if (slots) CHECK_EQ(value, atoi(slots));
    /* With "mpirun PROGRAM" each rank is of program 0; with "mpirun A : B" the argument is the
     * number. */
    int appnum = argc > 1 ? atoi(argv[1]) : 0;
    CHECK(value_of(MPI_APPNUM, &value) && value == appnum);

    for (unsigned i = 0; i < sizeof keyvals / sizeof keyvals[0]; i++) {
        int keyval = keyvals[i];
        check_where("key %d", keyval);
        CHECK_CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, &value), MPI_ERR_KEYVAL);
        CHECK_CLASS(MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval), MPI_ERR_KEYVAL);
        CHECK_CLASS(MPI_Comm_free_keyval(&keyval), MPI_ERR_KEYVAL);
        CHECK_EQ(keyval, keyvals[i]);
    }
    check_where("%s", "");
    CHECK(value_of(MPI_TAG_UB, &value) && value >= 32767);
    return check_end();
}
