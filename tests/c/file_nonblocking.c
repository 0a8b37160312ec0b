// ranks: 1 2 4 7
// transports: all
/* Nonblocking collective accesses: several at a time on several files, begun in another order of
 * the files and waited for in another order on each rank; with other collectives in between;
 * types freed at once; test loops. */
#include "files.h"

enum { FILES = 3, OPS = 4, N = 300 };

static int out[FILES][OPS][N], in[FILES][OPS][N];

int main(int argc, char **argv)
{
    MPI_File files[FILES];
    MPI_Request requests[FILES * OPS], bcast;
    MPI_Datatype filetype;
    MPI_Status statuses[FILES * OPS];
    MPI_Info info;
    check_begin(&argc, &argv);
    file_begin();
    char base[256];
    memcpy(base, file_name, sizeof base);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "1000");
    for (int f = 0; f < FILES; f++) {
        char name[300];
        snprintf(name, sizeof name, "%s.%d", base, f);
        MPI_Type_create_resized(MPI_INT, 0, 4 * size, &filetype);
        MPI_Type_commit(&filetype);
        CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info, &files[f]));
        CHECK_OK(MPI_File_set_view(files[f], 4 * rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
        MPI_Type_free(&filetype);
    }
    for (int f = 0; f < FILES; f++)
        for (int op = 0; op < OPS; op++)
            for (int i = 0; i < N; i++) out[f][op][i] = ((f * OPS + op) * 10 + rank) * N + i;

    check_where("writing");
    for (int k = 0; k < FILES; k++) {
        int f = (k + rank) % FILES;
        for (int op = 0; op < OPS; op++) {
            MPI_Request *request = &requests[f * OPS + op];
            MPI_Datatype half;
            MPI_Type_contiguous(N / 2, MPI_INT, &half);
            MPI_Type_commit(&half);
            if (op % 2) CHECK_OK(MPI_File_iwrite_at_all(files[f], op * N, out[f][op], 2, half, request));
            else {
                CHECK_OK(MPI_File_seek(files[f], op * N, MPI_SEEK_SET));
                CHECK_OK(MPI_File_iwrite_all(files[f], out[f][op], 2, half, request));
            }
            MPI_Type_free(&half);
        }
    }
    int token = 5;
    MPI_Ibcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD, &bcast);
    if (rank % 2) {
        for (int n = FILES * OPS - 1; n >= 0; n--) {
            CHECK_OK(MPI_Wait(&requests[n], &statuses[n]));
            CHECK_COUNT(statuses[n], MPI_INT, N);
        }
    } else {
        CHECK_OK(MPI_Waitall(FILES * OPS, requests, statuses));
    }
    MPI_Wait(&bcast, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);

    check_where("reading");
    for (int k = 0; k < FILES; k++) {
        int f = (FILES - 1 - k + rank) % FILES;
        for (int op = 0; op < OPS; op++)
            CHECK_OK(MPI_File_iread_at_all(files[f], op * N, in[f][op], N, MPI_INT, &requests[f * OPS + op]));
    }
    int done = 0;
    while (!done) CHECK_OK(MPI_Testall(FILES * OPS, requests, &done, statuses));
    CHECK(memcmp(in, out, sizeof in) == 0);
    MPI_Info_free(&info);
    for (int f = 0; f < FILES; f++) CHECK_OK(MPI_File_close(&files[f]));
    return check_end();
}
