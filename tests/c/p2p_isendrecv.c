// ranks: 1 2 4 7
// transports: all
// every day: shm-denied shm-single-copy ofi
/* MPI_Isendrecv and MPI_Isendrecv_replace: one request for both halves, in every length. */
#include "check.h"

enum { LONGEST = 1 << 19 };
static unsigned char out[LONGEST], in[LONGEST];

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    static const int lengths[] = {0, 1, 57, 5000, 65537, LONGEST};
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        int length = lengths[n];
        check_where("length %d", length);
        pattern_fill(out, (size_t) length, (unsigned) rank);
        memset(in, 0, sizeof in);
        MPI_Request request;
        MPI_Status status;
        MPI_Isendrecv(out, length, MPI_BYTE, to, 1, in, LONGEST, MPI_BYTE, from, 1, MPI_COMM_WORLD, &request);
        if (n % 2) {
            int done = 0;
            while (!done) MPI_Test(&request, &done, &status);
        } else {
            MPI_Wait(&request, &status);
        }
        CHECK(request == MPI_REQUEST_NULL);
        CHECK_STATUS(&status, from, 1, length);
        CHECK_EQ(pattern_differs(in, (size_t) length, (unsigned) from), -1);

        MPI_Isendrecv_replace(out, length, MPI_BYTE, to, 2, from, 2, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, &status);
        CHECK_STATUS(&status, from, 2, length);
        CHECK_EQ(pattern_differs(out, (size_t) length, (unsigned) from), -1);
    }
    check_where("not complete before both are");
    int mine = rank, got = -1, done = 1;
    MPI_Request request;
    MPI_Isendrecv(&mine, 1, MPI_INT, MPI_PROC_NULL, 0, &got, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    CHECK_EQ(done, 0);
    MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    CHECK_EQ(done, 0);
    MPI_Send(&mine, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
    MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    CHECK_EQ(done, 1);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQ(got, rank);

    check_where("freed");
    MPI_Isendrecv(&mine, 1, MPI_INT, to, 6, &got, 1, MPI_INT, from, 6, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
    MPI_Barrier(MPI_COMM_WORLD);

    check_where("errors");
    return_errors();
    CHECK_CLASS(MPI_Isendrecv(&mine, 1, MPI_INT, size, 0, &got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Isendrecv(&mine, 1, MPI_INT, 0, -1, &got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Isendrecv(&mine, 1, MPI_INT, rank, 7, out, 2, MPI_BYTE, rank, 7, MPI_COMM_WORLD, &request), MPI_SUCCESS);
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);

    check_where("what is replaced is kept only if somebody is sent it");
    MPI_Datatype line, huge;
    MPI_Type_vector(1 << 20, 1, 0, MPI_BYTE, &line);
    MPI_Type_create_hvector(1 << 20, 1, 0, line, &huge);
    MPI_Type_commit(&huge);
    const int far = size, bad = -1, nobody = MPI_PROC_NULL;
    MPI_Status status;
    CHECK_CLASS(MPI_Sendrecv_replace(out, 1, huge, far, 0, rank, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Sendrecv_replace(out, 1, huge, rank, bad, rank, 0, MPI_COMM_WORLD, &status), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Isendrecv_replace(out, 1, huge, rank, 0, far, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Isendrecv_replace(out, 1, huge, rank, 0, rank, -3, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Sendrecv_replace(out, 1, huge, nobody, 0, nobody, 0, MPI_COMM_WORLD, &status), MPI_SUCCESS);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Type_free(&line);
    MPI_Type_free(&huge);
    return check_end();
}
