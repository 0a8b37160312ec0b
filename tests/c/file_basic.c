// ranks: 1 2 4 7
// transports: all
/* Files: opened, written and read at offsets and by the individual pointer, blocking and not,
 * contiguous and strided in memory; counts at the end of the file; sizes; MPI_BOTTOM; info;
 * delete on close. */
#include "files.h"

#include <sys/mman.h>

enum { N = 100 };

static void offsets(void)
{
    int out[N], in[N + 10];
    MPI_Status status;
    MPI_Offset length = -1;
    MPI_Request request = MPI_REQUEST_NULL;
    check_where("offsets");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE);
    for (int i = 0; i < N; i++) out[i] = 1000 * rank + i;
    MPI_Offset place = (MPI_Offset) rank * sizeof out;
    CHECK_OK(MPI_File_write_at(fh, place, out, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, N);
    CHECK_OK(MPI_File_sync(fh));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_sync(fh));
    CHECK_OK(MPI_File_get_size(fh, &length));
    CHECK_EQ(length, (MPI_Offset) size * sizeof out);
    memset(in, 0xff, sizeof in);
    int other = (rank + 1) % size;
    CHECK_OK(MPI_File_read_at(fh, (MPI_Offset) other * sizeof out, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, N);
    for (int i = 0; i < N; i++) CHECK_EQ(in[i], 1000 * other + i);

    memset(in, 0xff, sizeof in);
    CHECK_OK(MPI_File_read_at(fh, length - 6 * 4 + 2, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, MPI_UNDEFINED);
    CHECK_COUNT(status, MPI_BYTE, 22);
    CHECK_EQ(bytes_differ(in, 22, sizeof in, 0xff), -1);
    CHECK_OK(MPI_File_read_at(fh, length - 12, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, 3);
    CHECK_OK(MPI_File_read_at(fh, length + 50, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, 0);
    CHECK_OK(MPI_File_iread_at(fh, length - 8, in, N, MPI_INT, &request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_COUNT(status, MPI_INT, 2);
    CHECK_EQ(in[1], 1000 * (size - 1) + N - 1);
    CHECK_OK(MPI_File_iwrite_at(fh, place, out, 0, MPI_INT, &request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_COUNT(status, MPI_INT, 0);

    CHECK_OK(MPI_File_read_at_all(fh, length - 4 * (rank + 1), in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, rank + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_set_size(fh, 10));
    CHECK_OK(MPI_File_get_size(fh, &length));
    CHECK_EQ(length, 10);
    CHECK_OK(MPI_File_preallocate(fh, 5000));
    CHECK_OK(MPI_File_get_size(fh, &length));
    CHECK_EQ(length, 5000);
    CHECK_OK(MPI_File_preallocate(fh, 50));
    CHECK_OK(MPI_File_get_size(fh, &length));
    CHECK_EQ(length, 5000);
    CHECK_OK(MPI_File_close(&fh));
    CHECK(fh == MPI_FILE_NULL);
}

static void individual(void)
{
    enum { ROWS = 50 };
    int out[2 * ROWS], in[2 * ROWS];
    MPI_Datatype column;
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Offset place = -1;
    check_where("individual");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE);
    MPI_Type_vector(ROWS, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < 2 * ROWS; i++) out[i] = rank * 500 + i;
    MPI_Offset base = (MPI_Offset) rank * ROWS * 4;
    CHECK_OK(MPI_File_seek(fh, base, MPI_SEEK_SET));
    CHECK_OK(MPI_File_write(fh, out, 1, column, &status));
    CHECK_COUNT(status, column, 1);
    CHECK_OK(MPI_File_get_position(fh, &place));
    CHECK_EQ(place, base + ROWS * 4);
    CHECK_OK(MPI_File_seek(fh, -ROWS * 4, MPI_SEEK_CUR));
    memset(in, 0xee, sizeof in);
    CHECK_OK(MPI_File_iread(fh, in, ROWS / 2, MPI_INT, &requests[0]));
    CHECK_OK(MPI_File_iread(fh, in + ROWS / 2, ROWS / 2, MPI_INT, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < ROWS; i++) CHECK_EQ(in[i], out[2 * i]);
    CHECK_OK(MPI_File_seek(fh, base, MPI_SEEK_SET));
    memset(in, 0xee, sizeof in);
    CHECK_OK(MPI_File_read_all(fh, in, 1, column, &status));
    for (int i = 0; i < ROWS; i++) {
        CHECK_EQ(in[2 * i], out[2 * i]);
        if (i < ROWS - 1) CHECK_EQ(in[2 * i + 1], (int) 0xeeeeeeee);
    }
    MPI_Type_free(&column);
    CHECK_OK(MPI_File_close(&fh));
}

static void bottom(void)
{
    int a = 10 * rank + 1, b = 10 * rank + 2, c = 0, d = 0;
    int lengths[2] = {1, 1};
    MPI_Aint places[2];
    MPI_Datatype out, in;
    MPI_Status status;
    check_where("bottom");
    MPI_Get_address(&a, &places[0]);
    MPI_Get_address(&b, &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &out);
    MPI_Get_address(&d, &places[0]);
    MPI_Get_address(&c, &places[1]);
    MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &in);
    MPI_Type_commit(&out);
    MPI_Type_commit(&in);
    MPI_File fh = file_open(MPI_MODE_RDWR);
    CHECK_OK(MPI_File_write_at_all(fh, 8 * rank, MPI_BOTTOM, 1, out, &status));
    CHECK_COUNT(status, out, 1);
    CHECK_OK(MPI_File_read_at(fh, 8 * rank, MPI_BOTTOM, 1, in, &status));
    CHECK_EQ(d, a);
    CHECK_EQ(c, b);
    c = d = 0;
    CHECK_OK(MPI_File_read_at_all(fh, 8 * rank, MPI_BOTTOM, 1, in, &status));
    CHECK_EQ(d, a);
    CHECK_EQ(c, b);
    MPI_Type_free(&out);
    MPI_Type_free(&in);
    CHECK_OK(MPI_File_close(&fh));
}

static void facts(void)
{
    MPI_Info info, used;
    char value[MPI_MAX_INFO_VAL + 1];
    int flag = 0, room = sizeof value, amode = 0, atomic = -1, relation = -1;
    MPI_Group group, world;
    MPI_File fh = MPI_FILE_NULL;
    check_where("facts");
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "no_such_hint", "7");
    MPI_Info_set(info, "striping_factor", "4");
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, file_name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info, &fh));
    CHECK_OK(MPI_File_get_info(fh, &used));
    MPI_Info_get_string(used, "cb_buffer_size", &room, value, &flag);
    CHECK(flag && strcmp(value, "65536") == 0);
    room = sizeof value;
    MPI_Info_get_string(used, "romio_cb_write", &room, value, &flag);
    CHECK(flag && strcmp(value, "enable") == 0);
    room = sizeof value;
    MPI_Info_get_string(used, "no_such_hint", &room, value, &flag);
    CHECK(!flag);
    MPI_Info_get_string(used, "striping_factor", &room, value, &flag);
    CHECK(!flag);
    MPI_Info_free(&used);
    MPI_Info_set(info, "cb_buffer_size", "4096");
    CHECK_OK(MPI_File_set_info(fh, info));
    CHECK_OK(MPI_File_get_info(fh, &used));
    room = sizeof value;
    MPI_Info_get_string(used, "cb_buffer_size", &room, value, &flag);
    CHECK(flag && strcmp(value, "4096") == 0);
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_get_amode(fh, &amode));
    CHECK_EQ(amode, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_get_group(fh, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &relation);
    CHECK_EQ(relation, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    CHECK_OK(MPI_File_get_atomicity(fh, &atomic));
    CHECK_EQ(atomic, 0);
    CHECK_OK(MPI_File_set_atomicity(fh, 1));
    CHECK_OK(MPI_File_get_atomicity(fh, &atomic));
    CHECK_EQ(atomic, 1);
    CHECK(MPI_File_fromint(MPI_File_toint(fh)) == fh);
    CHECK_OK(MPI_File_close(&fh));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(access(file_name, F_OK) != 0);
}

static void atomic_mode(void)
{
    enum { BYTES = 20000, TURNS = 20 };
    static unsigned char bytes[BYTES];
    check_where("atomic");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_atomicity(fh, 1));
    CHECK_OK(MPI_File_set_size(fh, BYTES));
    for (int turn = 0; turn < TURNS; turn++) {
        memset(bytes, 1 + rank, BYTES);
        CHECK_OK(MPI_File_write_at(fh, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_File_read_at(fh, 0, bytes, BYTES, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(bytes[0] >= 1 && bytes[0] <= size);
        CHECK_EQ(bytes_differ(bytes, 0, BYTES, bytes[0]), -1);
    }
    CHECK_OK(MPI_File_close(&fh));
}

static void large(void)
{
    MPI_Count bytes = 0x7ffff000 + (MPI_Count) 5000, got = -1;
    MPI_Status status;
    MPI_File fh = MPI_FILE_NULL;
    check_where("large");
    void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(data != MAP_FAILED);
    if (data == MAP_FAILED) return;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &fh));
    CHECK_OK(MPI_File_write_at_c(fh, 0, data, bytes, MPI_BYTE, &status));
    CHECK_OK(MPI_Get_count_c(&status, MPI_BYTE, &got));
    CHECK_EQ(got, bytes);
    CHECK_OK(MPI_File_write_at_all_c(fh, 0, data, bytes, MPI_BYTE, &status));
    CHECK_OK(MPI_Get_count_c(&status, MPI_BYTE, &got));
    CHECK_EQ(got, bytes);
    CHECK_OK(MPI_File_close(&fh));
    munmap(data, bytes);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    file_begin();
    offsets();
    individual();
    bottom();
    facts();
    atomic_mode();
    large();
    return check_end();
}
