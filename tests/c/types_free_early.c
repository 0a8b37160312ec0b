// ranks: 1 2 3
// transports: all
/* Types that are freed while messages of them are under way, and types of freed types. */
#include "check.h"

enum { BLOCKS = 20000, MESSAGES = 8 };

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int *out = allocate(2 * BLOCKS * sizeof *out), *in = allocate(MESSAGES * 3 * BLOCKS * sizeof *in);
    MPI_Request requests[2 * MESSAGES];
    for (int i = 0; i < 2 * BLOCKS; i++) out[i] = 100000 * rank + i;
    for (int i = 0; i < MESSAGES * 3 * BLOCKS; i++) in[i] = -1;
    check_where("freed before the wait");
    for (int m = 0; m < MESSAGES; m++) {
        MPI_Datatype inner, second, third;
        CHECK_OK(MPI_Type_contiguous(1, MPI_INT, &inner));
        CHECK_OK(MPI_Type_vector(BLOCKS, 1, 3, inner, &third));
        CHECK_OK(MPI_Type_vector(BLOCKS, 1, 2, inner, &second));
        CHECK_OK(MPI_Type_free(&inner));
        CHECK_OK(MPI_Type_commit(&second));
        CHECK_OK(MPI_Type_commit(&third));
        CHECK_OK(MPI_Irecv(in + m * 3 * BLOCKS, 1, third, from, m, MPI_COMM_WORLD, &requests[m]));
        CHECK_OK(MPI_Isend(out, 1, second, to, m, MPI_COMM_WORLD, &requests[MESSAGES + m]));
        CHECK_OK(MPI_Type_free(&second));
        CHECK_OK(MPI_Type_free(&third));
        CHECK(second == MPI_DATATYPE_NULL && third == MPI_DATATYPE_NULL);
        CHECK_OK(MPI_Type_contiguous(77, MPI_CHAR, &inner));
        CHECK_OK(MPI_Type_free(&inner));
    }
    CHECK_OK(MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int m = 0; m < MESSAGES; m++)
        for (int i = 0; i < 3 * BLOCKS; i++)
            if (!CHECK_EQ(in[m * 3 * BLOCKS + i], i % 3 ? -1 : 100000 * from + i / 3 * 2)) break;

    check_where("freed twice, and used when freed");
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Datatype type, stale;
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    CHECK_CLASS(MPI_Send(out, 1, type, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE); /* not committed */
    stale = type;
    CHECK_OK(MPI_Type_free(&type));
    CHECK_CLASS(MPI_Type_free(&stale), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_commit(&stale), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Send(out, 1, stale, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_contiguous(2, stale, &type), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_free(&type), MPI_ERR_TYPE); /* null */

    check_where("a long chain of types");
    MPI_Datatype chain, next;
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &chain));
    for (int i = 0; i < 200000; i++) {
        if (i % 2) CHECK_OK(MPI_Type_dup(chain, &next));
        else CHECK_OK(MPI_Type_create_resized(chain, 0, 12 + i, &next));
        CHECK_OK(MPI_Type_free(&chain));
        chain = next;
    }
    int bytes;
    CHECK_OK(MPI_Type_size(chain, &bytes));
    CHECK_EQ(bytes, 12);
    CHECK_OK(MPI_Type_free(&chain)); /* frees the whole chain */
    free(out);
    free(in);
    return check_end();
}
