// ranks: 1 2
// transports: one
/* The number of received elements and basic elements: whole, partial, none, and more than an int
 * counts. */
#include "check.h"

static MPI_Status received(int bytes)
{
    static char out[4096], in[4096];
    MPI_Status status;
    CHECK_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 1) % size, 1, in, sizeof in, MPI_BYTE, (rank + size - 1) % size, 1,
                          MPI_COMM_WORLD, &status));
    return status;
}

static void counts(const MPI_Status *status, MPI_Datatype type, long long count, long long elements)
{
    int small;
    MPI_Count large;
    int fits = count <= INT32_MAX, elements_fit = elements <= INT32_MAX;
    CHECK_OK(MPI_Get_count(status, type, &small));
    CHECK_EQ(small, fits ? count : MPI_UNDEFINED);
    CHECK_OK(MPI_Get_count_c(status, type, &large));
    CHECK_EQ(large, count);
    CHECK_OK(MPI_Get_elements(status, type, &small));
    CHECK_EQ(small, elements_fit ? elements : MPI_UNDEFINED);
    CHECK_OK(MPI_Get_elements_c(status, type, &large));
    CHECK_EQ(large, elements);
    CHECK_OK(MPI_Get_elements_x(status, type, &large));
    CHECK_EQ(large, elements);
}

static void parts(void)
{
    MPI_Status status;
    MPI_Datatype mixed, three, empty, pairs;
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 16};
    MPI_Datatype members[2] = {MPI_DOUBLE, MPI_SHORT};
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, members, &mixed)); /* 8 + 2 + 2 bytes */
    CHECK_OK(MPI_Type_contiguous(3, mixed, &three));
    CHECK_OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    CHECK_OK(MPI_Type_contiguous(2, MPI_DOUBLE_INT, &pairs));
    static const struct { int bytes; long long count, elements; } cases[] = {
        {0, 0, 0},  {8, MPI_UNDEFINED, 1},  {10, MPI_UNDEFINED, 2}, {12, 1, 3},
        {20, MPI_UNDEFINED, 4}, {24, 2, 6}, {36, 3, 9}, {1, MPI_UNDEFINED, MPI_UNDEFINED}, {11, MPI_UNDEFINED, MPI_UNDEFINED},
        {46, MPI_UNDEFINED, 11},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_where("%d bytes", cases[i].bytes);
        status = received(cases[i].bytes);
        counts(&status, mixed, cases[i].count, cases[i].elements);
        long long thirds = cases[i].count < 0 || cases[i].count % 3 ? MPI_UNDEFINED : cases[i].count / 3;
        counts(&status, three, thirds, cases[i].elements);
    }
    check_where("parts of plain types");
    status = received(7);
    counts(&status, MPI_INT, MPI_UNDEFINED, MPI_UNDEFINED);
    counts(&status, MPI_BYTE, 7, 7);
    status = received(24);
    counts(&status, MPI_DOUBLE_INT, 2, 4);
    counts(&status, pairs, 1, 4);
    counts(&status, MPI_C_DOUBLE_COMPLEX, MPI_UNDEFINED, MPI_UNDEFINED);
    status = received(32);
    counts(&status, MPI_C_DOUBLE_COMPLEX, 2, 2);
    counts(&status, MPI_DOUBLE_INT, MPI_UNDEFINED, 5);
    check_where("types without data");
    counts(&status, empty, MPI_UNDEFINED, MPI_UNDEFINED);
    status = received(0);
    counts(&status, empty, 0, 0);
    CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    counts(&status, mixed, 0, 0);
    CHECK_OK(MPI_Type_free(&mixed));
    CHECK_OK(MPI_Type_free(&three));
    CHECK_OK(MPI_Type_free(&empty));
    CHECK_OK(MPI_Type_free(&pairs));
}

static void set(void)
{
    MPI_Status status = {0};
    MPI_Datatype mixed, large, empty;
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 16};
    MPI_Datatype members[2] = {MPI_DOUBLE, MPI_SHORT};
    check_where("elements that a program sets");
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, members, &mixed));
    CHECK_OK(MPI_Type_contiguous_c(3000000000LL, MPI_CHAR, &large));
    CHECK_OK(MPI_Type_contiguous(0, MPI_CHAR, &empty));
    CHECK_OK(MPI_Status_set_cancelled(&status, 1));
    status.MPI_SOURCE = 17;
    for (int n = 0; n < 9; n++) {
        CHECK_OK(MPI_Status_set_elements(&status, mixed, n));
        counts(&status, mixed, n % 3 ? MPI_UNDEFINED : n / 3, n);
    }
    int cancelled;
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled && status.MPI_SOURCE == 17);
    CHECK_OK(MPI_Status_set_elements_x(&status, MPI_INT, 5000000000LL));
    counts(&status, MPI_INT, 5000000000LL, 5000000000LL);
    CHECK_OK(MPI_Status_set_elements_c(&status, large, 6000000000LL));
    counts(&status, large, 2, 6000000000LL);
    CHECK_OK(MPI_Status_set_elements(&status, empty, 0));
    counts(&status, empty, 0, 0);
    CHECK_CLASS(MPI_Status_set_elements(&status, empty, 1), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Status_set_elements(&status, MPI_INT, -1), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Status_set_elements_c(&status, MPI_INT, INT64_MAX), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Status_set_elements(NULL, MPI_INT, 1), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Status_set_elements(&status, MPI_DATATYPE_NULL, 1), MPI_ERR_TYPE);
    int n;
    CHECK_CLASS(MPI_Get_elements(NULL, MPI_INT, &n), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Get_elements(&status, MPI_INT, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Get_elements(&status, MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&mixed));
    CHECK_OK(MPI_Type_free(&large));
    CHECK_OK(MPI_Type_free(&empty));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    parts();
    set();
    return check_end();
}
