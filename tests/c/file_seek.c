// ranks: 1 2 4
// transports: all
/* Seeking with each whence, in views with holes, and at the end of the file in them. */
#include "files.h"

static MPI_Offset position(MPI_File fh)
{
    MPI_Offset place = -1;
    CHECK_OK(MPI_File_get_position(fh, &place));
    return place;
}

int main(int argc, char **argv)
{
    int values[100];
    MPI_Datatype filetype;
    MPI_Offset place = -1;
    check_begin(&argc, &argv);
    file_begin();
    for (int i = 0; i < 100; i++) values[i] = i;
    file_write_plain(values, sizeof values);
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    check_where("bytes");
    CHECK_OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    CHECK_EQ(position(fh), 400);
    CHECK_OK(MPI_File_seek(fh, -30, MPI_SEEK_CUR));
    CHECK_EQ(position(fh), 370);
    CHECK_OK(MPI_File_seek(fh, 1000, MPI_SEEK_END));
    CHECK_EQ(position(fh), 1400);
    CHECK_CLASS(MPI_File_seek(fh, -1401, MPI_SEEK_CUR), MPI_ERR_ARG);
    CHECK_EQ(position(fh), 1400);

    /* Two ints of each five, from the third on: 2 3, 7 8, ... 97 98. */
    check_where("view");
    MPI_Type_vector(1, 2, 5, MPI_INT, &filetype);
    MPI_Datatype resized;
    MPI_Type_create_resized(filetype, 0, 20, &resized);
    MPI_Type_commit(&resized);
    CHECK_OK(MPI_File_set_view(fh, 8, MPI_INT, resized, "native", MPI_INFO_NULL));
    CHECK_EQ(position(fh), 0);
    CHECK_OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    CHECK_EQ(position(fh), 40);
    CHECK_OK(MPI_File_seek(fh, -3, MPI_SEEK_END));
    int got[5] = {-1, -1, -1, -1, -1};
    MPI_Status status;
    CHECK_OK(MPI_File_read(fh, got, 5, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, 3);
    CHECK(got[0] == 93 && got[1] == 97 && got[2] == 98 && got[3] == -1);
    MPI_Barrier(MPI_COMM_WORLD);
    /* The end in a hole, and in the middle of an int, which counts as one. */
    CHECK_OK(MPI_File_set_size(fh, 4 * 95));
    CHECK_OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    CHECK_EQ(position(fh), 38);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_set_size(fh, 4 * 93 + 1));
    CHECK_OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    CHECK_EQ(position(fh), 38);
    CHECK_OK(MPI_File_read_at(fh, 36, got, 2, MPI_INT, &status));
    CHECK_COUNT(status, MPI_BYTE, 5);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_seek_shared(fh, -8, MPI_SEEK_END));
    CHECK_OK(MPI_File_get_position_shared(fh, &place));
    CHECK_EQ(place, 30);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_seek_shared(fh, 2, MPI_SEEK_CUR));
    CHECK_OK(MPI_File_get_position_shared(fh, &place));
    CHECK_EQ(place, 32);
    CHECK_CLASS(MPI_File_seek_shared(fh, -33, MPI_SEEK_CUR), MPI_ERR_ARG);
    MPI_Type_free(&filetype);
    MPI_Type_free(&resized);
    CHECK_OK(MPI_File_close(&fh));
    return check_end();
}
