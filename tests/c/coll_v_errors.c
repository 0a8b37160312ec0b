// ranks: 1 2 4 7
// transports: all
/* Wrong arguments of the v and w forms: the class of each. A call that fails on all ranks loses
 * nothing. */
#include "check.h"

static int ones[64], zeros[64], places[64], bad[64], buffer[64], out[64];
static MPI_Datatype ints[64];

static void gather_and_scatter(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    check_where("roots");
    CHECK_CLASS(MPI_Gatherv(buffer, 1, MPI_INT, out, ones, places, MPI_INT, size, world), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Scatterv(buffer, ones, places, MPI_INT, out, 1, MPI_INT, -1, world), MPI_ERR_ROOT);
    check_where("what only the root sees");
    if (rank == 0) {
        CHECK_CLASS(MPI_Gatherv(buffer, 1, MPI_INT, out, bad, places, MPI_INT, 0, world), MPI_ERR_COUNT);
        CHECK_CLASS(MPI_Gatherv(buffer, 1, MPI_INT, out, NULL, places, MPI_INT, 0, world), MPI_ERR_ARG);
        CHECK_CLASS(MPI_Gatherv(buffer, 1, MPI_INT, out, ones, NULL, MPI_INT, 0, world), MPI_ERR_ARG);
        CHECK_CLASS(MPI_Gatherv(buffer, 1, MPI_INT, NULL, ones, places, MPI_INT, 0, world), MPI_ERR_BUFFER);
        CHECK_CLASS(MPI_Gatherv(buffer, 2, MPI_INT, out, ones, places, MPI_INT, 0, world), MPI_ERR_TRUNCATE);
        CHECK_CLASS(MPI_Gatherv(buffer, 0, MPI_INT, out, ones, places, MPI_INT, 0, world), MPI_ERR_COUNT);
        CHECK_CLASS(MPI_Gatherv(buffer, 1, MPI_INT, MPI_IN_PLACE, ones, places, MPI_INT, 0, world), MPI_ERR_BUFFER);
        CHECK_CLASS(MPI_Scatterv(buffer, bad, places, MPI_INT, out, 1, MPI_INT, 0, world), MPI_ERR_COUNT);
        CHECK_CLASS(MPI_Scatterv(buffer, ones, places, MPI_INT, out, 0, MPI_INT, 0, world), MPI_ERR_TRUNCATE);
    }
    check_where("what all see");
    CHECK_CLASS(MPI_Gatherv(buffer, -1, MPI_INT, out, ones, places, MPI_INT, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Gatherv(buffer, 1, MPI_DATATYPE_NULL, out, ones, places, MPI_INT, 0, world), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Scatterv(buffer, ones, places, MPI_INT, out, -1, MPI_INT, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Igatherv(buffer, 1, MPI_INT, out, ones, places, MPI_INT, 0, world, NULL), MPI_ERR_ARG);
}

static void all_to_all(void)
{
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype uncommitted, types[64];
    check_where("allgatherv");
    CHECK_CLASS(MPI_Allgatherv(buffer, 1, MPI_INT, out, bad, places, MPI_INT, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Allgatherv(buffer, 2, MPI_INT, out, ones, places, MPI_INT, world), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Allgatherv(buffer, 1, MPI_INT, out, NULL, places, MPI_INT, world), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Allgatherv(buffer, 1, MPI_INT, out, ones, places, MPI_DATATYPE_NULL, world), MPI_ERR_TYPE);
    check_where("alltoallv");
    CHECK_CLASS(MPI_Alltoallv(buffer, bad, places, MPI_INT, out, ones, places, MPI_INT, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Alltoallv(buffer, ones, places, MPI_INT, out, bad, places, MPI_INT, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Alltoallv(buffer, NULL, places, MPI_INT, out, ones, places, MPI_INT, world), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Alltoallv(buffer, ones, places, MPI_INT, MPI_IN_PLACE, ones, places, MPI_INT, world), MPI_ERR_BUFFER);
    check_where("alltoallv to itself");
    CHECK_CLASS(MPI_Alltoallv(buffer, ones, places, MPI_INT, out, zeros, places, MPI_INT, world), MPI_ERR_TRUNCATE);
    check_where("alltoallw");
    for (int r = 0; r < size; r++) types[r] = MPI_INT;
    types[size - 1] = MPI_DATATYPE_NULL;
    CHECK_CLASS(MPI_Alltoallw(buffer, ones, zeros, types, out, ones, zeros, ints, world), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Alltoallw(buffer, ones, zeros, NULL, out, ones, zeros, ints, world), MPI_ERR_ARG);
    CHECK_OK(MPI_Type_contiguous(1, MPI_INT, &uncommitted));
    types[size - 1] = uncommitted;
    CHECK_CLASS(MPI_Alltoallw(buffer, ones, zeros, ints, out, ones, zeros, types, world), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&uncommitted));
    check_where("reduce_scatter");
    CHECK_CLASS(MPI_Reduce_scatter(buffer, out, bad, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Reduce_scatter(buffer, out, NULL, MPI_INT, MPI_SUM, world), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Reduce_scatter(buffer, out, ones, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce_scatter(buffer, out, ones, MPI_DOUBLE, MPI_BAND, world), MPI_ERR_OP);
}

static void text_of_an_error(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    check_where("text");
    int code = MPI_Allgatherv(buffer, 1, MPI_INT, out, bad, places, MPI_INT, MPI_COMM_WORLD);
    CHECK_OK(MPI_Error_string(code, text, &length));
    CHECK(strstr(text, "recvcounts[") != NULL && strstr(text, "-5") != NULL);
    MPI_Count huge[64];
    MPI_Aint where[64];
    for (int r = 0; r < size; r++) {
        huge[r] = INT64_MAX / 2;
        where[r] = 0;
    }
    CHECK_CLASS(MPI_Allgatherv_c(buffer, 1, MPI_INT, out, huge, where, MPI_INT, MPI_COMM_WORLD), MPI_ERR_COUNT);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    for (int r = 0; r < size; r++) {
        ones[r] = bad[r] = 1;
        places[r] = r;
        ints[r] = MPI_INT;
    }
    bad[size - 1] = -5;
    gather_and_scatter();
    all_to_all();
    text_of_an_error();
    check_where("and all goes on");
    for (int r = 0; r < size; r++) buffer[r] = rank;
    CHECK_OK(MPI_Alltoallv(buffer, ones, places, MPI_INT, out, ones, places, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) CHECK_EQ(out[r], r);
    return check_end();
}
