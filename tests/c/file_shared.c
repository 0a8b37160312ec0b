// ranks: 1 2 4 7
// transports: all
// every day: nodes lamd ofi
/* The shared file pointer: every write gets its own place; ordered writes are in rank order; the
 * pointer works while other ranks compute; sequential files; appending. */
#include "files.h"

enum { EACH = 40 };

static void shared(void)
{
    MPI_Offset place = -1;
    MPI_Request request;
    check_where("shared");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < EACH; i++) {
        int record[2] = {rank, i};
        if (i % 2 == 0) {
            CHECK_OK(MPI_File_write_shared(fh, record, 2, MPI_INT, MPI_STATUS_IGNORE));
        } else {
            CHECK_OK(MPI_File_iwrite_shared(fh, record, 2, MPI_INT, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_get_position_shared(fh, &place));
    CHECK_EQ(place, 2 * EACH * size);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET));
    /* Each record is there once, those of a rank in its order; any rank reads the next one. */
    int next[64], mine = 0, total = 0;
    for (int r = 0; r < size; r++) next[r] = -1;
    for (;;) {
        int record[2] = {-1, -1};
        MPI_Status status;
        CHECK_OK(MPI_File_read_shared(fh, record, 2, MPI_INT, &status));
        int count = -1;
        MPI_Get_count(&status, MPI_INT, &count);
        if (count == 0) break;
        CHECK_EQ(count, 2);
        if (!CHECK(record[0] >= 0 && record[0] < size && record[1] > next[record[0]])) break;
        next[record[0]] = record[1];
        mine++;
    }
    MPI_Allreduce(&mine, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQ(total, EACH * size);
    CHECK_OK(MPI_File_close(&fh));
}

static void ordered(void)
{
    int data[64], want = 0;
    MPI_Status status;
    MPI_Offset place = -1;
    check_where("ordered");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i <= rank; i++) data[i] = 1000 * turn + 10 * rank + i;
        if (turn < 2) {
            CHECK_OK(MPI_File_write_ordered(fh, data, rank + 1, MPI_INT, &status));
        } else {
            CHECK_OK(MPI_File_write_ordered_begin(fh, data, rank + 1, MPI_INT));
            CHECK_OK(MPI_File_write_ordered_end(fh, data, &status));
        }
        CHECK_COUNT(status, MPI_INT, rank + 1);
    }
    int turn_length = size * (size + 1) / 2;
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_get_position_shared(fh, &place));
    CHECK_EQ(place, 3 * turn_length);
    int *all = malloc(3 * turn_length * sizeof *all);
    CHECK_EQ(file_read_plain(all, 3 * turn_length * sizeof *all), 3 * turn_length * 4);
    for (int turn = 0; turn < 3; turn++)
        for (int r = 0; r < size; r++)
            for (int i = 0; i <= r; i++) CHECK_EQ(all[want++], 1000 * turn + 10 * r + i);
    free(all);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_seek_shared(fh, -turn_length, MPI_SEEK_END));
    memset(data, 0, sizeof data);
    CHECK_OK(MPI_File_read_ordered(fh, data, rank + 1, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, rank + 1);
    for (int i = 0; i <= rank; i++) CHECK_EQ(data[i], 2000 + 10 * rank + i);
    CHECK_OK(MPI_File_read_ordered_begin(fh, data, 1, MPI_INT));
    CHECK_OK(MPI_File_read_ordered_end(fh, data, &status));
    CHECK_COUNT(status, MPI_INT, 0);
    CHECK_OK(MPI_File_close(&fh));
}

static void alone(void)
{
    int value = 77;
    MPI_Offset place = -1;
    check_where("alone");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    if (rank == size - 1) {
        for (int i = 0; i < 10; i++) CHECK_OK(MPI_File_write_shared(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_get_position_shared(fh, &place));
        CHECK_EQ(place, 40);
        if (size > 1) MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        /* Without MPI until the file shows that it is done. */
        struct stat facts;
        do pause_ms(1);
        while (stat(file_name, &facts) != 0 || facts.st_size < 40);
        MPI_Recv(&value, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    CHECK_OK(MPI_File_close(&fh));
}

static void sequential(void)
{
    char text[16] = "";
    MPI_File fh = MPI_FILE_NULL;
    MPI_Offset disp = -1;
    MPI_Datatype etype, filetype;
    char datarep[MPI_MAX_DATAREP_STRING];
    check_where("sequential");
    fh = file_open(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL);
    CHECK_CLASS(MPI_File_write(fh, text, 1, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_write_at(fh, 0, text, 1, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_write_all(fh, text, 1, MPI_CHAR, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_seek(fh, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_seek_shared(fh, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_get_position_shared(fh, &disp), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    snprintf(text, sizeof text, "rank %02d;", rank);
    CHECK_OK(MPI_File_write_ordered(fh, text, 8, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_CHAR, MPI_CHAR, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_view(fh, &disp, &etype, &filetype, datarep));
    CHECK_EQ(disp, 8 * size);
    text[0] = 'R';
    CHECK_OK(MPI_File_write_ordered(fh, text, 8, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_close(&fh));
    MPI_Barrier(MPI_COMM_WORLD);

    fh = file_open(MPI_MODE_RDWR | MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_get_position(fh, &disp));
    CHECK_EQ(disp, 16 * size);
    CHECK_OK(MPI_File_get_position_shared(fh, &disp));
    CHECK_EQ(disp, 16 * size);
    text[0] = '+';
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_write_ordered(fh, text, 8, MPI_CHAR, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    char all[1024], want[16];
    CHECK_EQ(file_read_plain(all, sizeof all), 24 * size);
    for (int r = 0; r < 3 * size; r++) {
        snprintf(want, sizeof want, "%cank %02d;", "rR+"[r / size], r % size);
        CHECK(memcmp(all + 8 * r, want, 8) == 0);
    }
    CHECK_OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    file_begin();
    shared();
    ordered();
    alone();
    sequential();
    return check_end();
}
