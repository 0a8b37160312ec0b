// ranks: 2
// transports: one
// every day: none
// More than 2^31 elements in one call.
#include "large.h"

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    unsigned char *from = long_buffer(10 + rank), *to = long_buffer(0);
    int other = (rank + 1) % size;
    MPI_Status status;

    send_long(from, to, rank);

    memset(to, 0, PIECE);
    MPI_Datatype piece;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_commit(&piece);
    int pieces = (int) (LONG / PIECE);
    if (rank == 1) CHECK(MPI_Send(from, pieces, piece, other, 2, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (rank == 0) {
        CHECK(MPI_Recv(to, pieces, piece, other, 2, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
        count_is(&status, piece, pieces);
        count_is(&status, MPI_BYTE, LONG);
        CHECK(is_all(to, 10 + other));
    }

    MPI_Request request;
    memset(from, 20 + rank, PIECE);
    memset(to, 0, PIECE);
    if (rank == 0) {
        CHECK(MPI_Psend_init(from, 1, LONG, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &request) == MPI_SUCCESS);
    } else {
        CHECK(MPI_Precv_init(to, 1, LONG, MPI_BYTE, other, 2, MPI_COMM_WORLD, MPI_INFO_NULL, &request) == MPI_SUCCESS);
    }
    MPI_Start(&request);
    if (rank == 0) CHECK(MPI_Pready(0, request) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    if (rank == 1) {
        count_is(&status, MPI_BYTE, LONG);
        CHECK(is_all(to, 20 + other));
    }
    MPI_Request_free(&request);
    memset(from, 10 + rank, PIECE);

    MPI_Datatype longest;
    MPI_Count lengths[2] = {LONG / 2 - 1, LONG / 2}, places[2] = {0, LONG / 2};
    CHECK(MPI_Type_create_hindexed_c(2, lengths, places, MPI_BYTE, &longest) == MPI_SUCCESS);
    MPI_Type_commit(&longest);
    MPI_Count bytes;
    MPI_Type_size_c(longest, &bytes);
    int small;
    MPI_Type_size(longest, &small);
    CHECK(bytes == LONG - 1 && small == MPI_UNDEFINED);
    memset(to, 0, PIECE);
    if (rank == 0) CHECK(MPI_Send(from, 1, longest, other, 3, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (rank == 1) {
        CHECK(MPI_Recv(to, 1, longest, other, 3, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
        count_is(&status, longest, 1);
        CHECK(is_all(to, 10 + other));
    }

    memset(from, rank == 0 ? 77 : 0, PIECE);
    CHECK(MPI_Bcast_c(from, LONG, MPI_BYTE, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(is_all(from, 77));
    memset(from, 1, PIECE);
    memset(to, 0, PIECE);
    CHECK(MPI_Allreduce_c(from, to, LONG, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(is_all(to, 1));

    MPI_Win win;
    memset(to, 0, PIECE);
    CHECK(MPI_Win_create_c(to, LONG, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win) == MPI_SUCCESS);
    memset(from, 50 + rank, PIECE);
    MPI_Win_fence(0, win);
    CHECK(MPI_Put_c(from, LONG, MPI_BYTE, other, 0, LONG, MPI_BYTE, win) == MPI_SUCCESS);
    MPI_Win_fence(0, win);
    CHECK(is_all(to, 50 + other));
    MPI_Win_free(&win);

    MPI_Type_free(&longest);
    MPI_Type_free(&piece);
    munmap(from, LONG);
    munmap(to, LONG);
    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
