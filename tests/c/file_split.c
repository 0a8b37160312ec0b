// ranks: 1 2 4 7
// transports: all
/* Split collective access: all pairs, work in between, and forbidden mixtures. */
#include "files.h"

enum { N = 200 };

int main(int argc, char **argv)
{
    int out[N], in[N];
    MPI_Status status;
    MPI_Datatype filetype;
    check_begin(&argc, &argv);
    file_begin();
    MPI_Type_create_resized(MPI_INT, 0, 4 * size, &filetype);
    MPI_Type_commit(&filetype);
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 4 * rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
    for (int i = 0; i < N; i++) out[i] = rank * N + i;

    check_where("at");
    CHECK_OK(MPI_File_write_at_all_begin(fh, 0, out, N, MPI_INT));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_read_at(fh, 5 * N, in, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write_at_all_end(fh, out, &status));
    CHECK_COUNT(status, MPI_INT, N);
    MPI_Barrier(MPI_COMM_WORLD);
    memset(in, 0, sizeof in);
    CHECK_OK(MPI_File_read_at_all_begin(fh, 0, in, N, MPI_INT));
    CHECK_OK(MPI_File_read_at_all_end(fh, in, &status));
    CHECK_COUNT(status, MPI_INT, N);
    CHECK(memcmp(in, out, sizeof in) == 0);

    check_where("individual");
    CHECK_OK(MPI_File_seek(fh, N, MPI_SEEK_SET));
    CHECK_OK(MPI_File_write_all_begin(fh, out, N, MPI_INT));
    CHECK_OK(MPI_File_write_all_end(fh, out, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_seek(fh, N + N / 2, MPI_SEEK_SET));
    CHECK_OK(MPI_File_read_all_begin(fh, in, N, MPI_INT));
    CHECK_OK(MPI_File_read_all_end(fh, in, &status));
    CHECK_COUNT(status, MPI_INT, N / 2);
    CHECK(memcmp(in, out + N / 2, sizeof in / 2) == 0);

    check_where("mixed");
    CHECK_CLASS(MPI_File_read_all_end(fh, in, &status), MPI_ERR_OTHER);
    CHECK_OK(MPI_File_read_at_all_begin(fh, 0, in, N, MPI_INT));
    CHECK_CLASS(MPI_File_write_all_begin(fh, out, N, MPI_INT), MPI_ERR_OTHER);
    CHECK_CLASS(MPI_File_read_all_end(fh, in, &status), MPI_ERR_OTHER);
    CHECK_CLASS(MPI_File_read_at_all_end(fh, out, &status), MPI_ERR_OTHER);
    CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_OTHER);
    CHECK_CLASS(MPI_File_close(&fh), MPI_ERR_OTHER);
    CHECK(fh != MPI_FILE_NULL);
    CHECK_OK(MPI_File_read_at_all_end(fh, in, &status));
    CHECK(memcmp(in, out, sizeof in) == 0);
    /* Rank 0 begins twice; the others, which are right, do not wait for it. */
    check_where("begun twice by one rank");
    CHECK_OK(MPI_File_read_at_all_begin(fh, 0, in, N, MPI_INT));
    if (rank != 0) CHECK_OK(MPI_File_read_at_all_end(fh, in, &status));
    int began = MPI_File_read_all_begin(fh, in, N, MPI_INT);
    if (rank == 0) {
        CHECK_CLASS(began, MPI_ERR_OTHER);
        CHECK_OK(MPI_File_read_at_all_end(fh, in, &status));
    } else {
        CHECK_OK(began);
        CHECK_CLASS(MPI_File_read_all_end(fh, in, &status), MPI_ERR_OTHER);
    }
    CHECK_OK(MPI_File_close(&fh));
    MPI_Type_free(&filetype);
    return check_end();
}
