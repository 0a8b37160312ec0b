// ranks: 1 2 4 7
// transports: all
/* Views: holes, displacements, nested types, overlapping filetypes, the end of the file in a
 * hole, the results of get_view, offsets; and collective access through interleaved views in all
 * modes of the hints, with buffers so small that there are many rounds. */
#include "files.h"

enum { BLOCK = 5, BLOCKS = 40 };

static MPI_Datatype interleaved(int block)
{
    MPI_Datatype row, type;
    MPI_Type_contiguous(block, MPI_INT, &row);
    MPI_Type_create_resized(row, 0, (MPI_Aint) block * size * 4, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&row);
    return type;
}

static MPI_Info hints(const char *collective, const char *sieve, const char *buffer)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_read", collective);
    MPI_Info_set(info, "romio_cb_write", collective);
    MPI_Info_set(info, "romio_ds_read", sieve);
    MPI_Info_set(info, "romio_ds_write", sieve);
    MPI_Info_set(info, "cb_buffer_size", buffer);
    MPI_Info_set(info, "ind_rd_buffer_size", buffer);
    MPI_Info_set(info, "ind_wr_buffer_size", buffer);
    return info;
}

static void write_and_read(const char *collective, const char *sieve, const char *buffer, int nodes, int together)
{
    enum { N = BLOCK * BLOCKS };
    int out[N], in[N + 8];
    MPI_Status status;
    char number[16];
    check_where("%s %s %s nodes %d together %d", collective, sieve, buffer, nodes, together);
    MPI_Info info = hints(collective, sieve, buffer);
    snprintf(number, sizeof number, "%d", nodes);
    MPI_Info_set(info, "cb_nodes", number);
    MPI_Datatype filetype = interleaved(BLOCK);
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Offset disp = 3 + (MPI_Offset) rank * BLOCK * 4;
    CHECK_OK(MPI_File_set_view(fh, disp, MPI_INT, filetype, "native", info));
    for (int i = 0; i < N; i++) out[i] = rank * 10000 + i;
    if (together) CHECK_OK(MPI_File_write_all(fh, out, N, MPI_INT, &status));
    else CHECK_OK(MPI_File_write(fh, out, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, N);
    MPI_Barrier(MPI_COMM_WORLD);

    size_t whole = 3 + sizeof(int) * N * size;
    char *bytes = malloc(whole + 100);
    CHECK_EQ(file_read_plain(bytes, whole + 100), (long long) whole);
    for (int b = 0; b < BLOCKS; b++)
        for (int r = 0; r < size; r++)
            for (int i = 0; i < BLOCK; i++) {
                int value;
                memcpy(&value, bytes + 3 + 4 * ((b * size + r) * BLOCK + i), 4);
                if (!CHECK_EQ(value, r * 10000 + b * BLOCK + i)) b = BLOCKS;
            }
    CHECK_EQ(bytes_differ(bytes, 0, 3, 0), -1);
    free(bytes);

    /* From the middle on, past the end. */
    memset(in, 0xff, sizeof in);
    if (together) CHECK_OK(MPI_File_read_at_all(fh, 7, in, N, MPI_INT, &status));
    else CHECK_OK(MPI_File_read_at(fh, 7, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, N - 7);
    for (int i = 0; i < N - 7; i++) CHECK_EQ(in[i], out[i + 7]);
    CHECK_EQ(bytes_differ(in, 4 * (N - 7), sizeof in, 0xff), -1);

    /* Cut the last rank's last block in two: only this rank reads less. */
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_set_size(fh, (MPI_Offset) whole - 4 * (BLOCK - 2)));
    if (together) CHECK_OK(MPI_File_read_at_all(fh, 0, in, N + 4, MPI_INT, &status));
    else CHECK_OK(MPI_File_read_at(fh, 0, in, N + 4, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, rank == size - 1 ? N - BLOCK + 2 : N);
    MPI_Type_free(&filetype);
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_close(&fh));
}

static void holes(const char *collective, const char *sieve)
{
    enum { N = 30, BYTES = 4000 };
    static unsigned char bytes[BYTES];
    check_where("holes %s %s", collective, sieve);
    MPI_Datatype filetype;
    MPI_Type_create_resized(MPI_BYTE, 0, 2 * size + 1, &filetype);
    MPI_Type_commit(&filetype);
    MPI_Info info = hints(collective, sieve, "100");
    memset(bytes, 0xaa, sizeof bytes);
    file_write_plain(bytes, sizeof bytes);
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 2 * rank, MPI_BYTE, filetype, "native", info));
    memset(bytes, rank + 1, N);
    CHECK_OK(MPI_File_write_all(fh, bytes, N, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write(fh, bytes, N, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(file_read_plain(bytes, BYTES), BYTES);
    for (int i = 0; i < BYTES; i++) {
        int place = i % (2 * size + 1);
        int want = i < 2 * N * (2 * size + 1) && place < 2 * size && place % 2 == 0 ? place / 2 + 1 : 0xaa;
        if (!CHECK_EQ(bytes[i], want)) break;
    }
    MPI_Type_free(&filetype);
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_close(&fh));
}

static void matrix(void)
{
    enum { SIDE = 24 };
    int sizes[2] = {SIDE * size, SIDE}, part[2] = {SIDE, SIDE}, start[2] = {rank * SIDE, 0};
    int data[SIDE * SIDE];
    MPI_Datatype rows, columns;
    check_where("matrix");
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &rows);
    MPI_Type_commit(&rows);
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_INT, rows, "native", MPI_INFO_NULL));
    for (int i = 0; i < SIDE * SIDE; i++) data[i] = rank * SIDE * SIDE + i;
    CHECK_OK(MPI_File_write_all(fh, data, SIDE * SIDE, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Type_free(&rows);
    int column_part[2] = {SIDE * size, SIDE / size}, column_start[2] = {0, rank * (SIDE / size)};
    MPI_Type_create_subarray(2, sizes, column_part, column_start, MPI_ORDER_C, MPI_INT, &columns);
    MPI_Type_commit(&columns);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_INT, columns, "native", MPI_INFO_NULL));
    int width = SIDE / size, total = SIDE * size * width;
    int *got = malloc(total * sizeof *got);
    CHECK_OK(MPI_File_read_all(fh, got, total, MPI_INT, MPI_STATUS_IGNORE));
    for (int i = 0; i < total; i++)
        if (!CHECK_EQ(got[i], i / width * SIDE + rank * width + i % width)) break;
    free(got);
    MPI_Type_free(&columns);
    CHECK_OK(MPI_File_close(&fh));
}

static void told(void)
{
    MPI_Offset disp = -1, offset = -1;
    MPI_Datatype etype, filetype, type = interleaved(3);
    char datarep[MPI_MAX_DATAREP_STRING];
    int combiner, n[3];
    check_where("told");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_get_view(fh, &disp, &etype, &filetype, datarep));
    CHECK(disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && strcmp(datarep, "native") == 0);
    CHECK_OK(MPI_File_set_view(fh, 100, MPI_INT, type, "internal", MPI_INFO_NULL));
    MPI_Type_free(&type);
    CHECK_OK(MPI_File_get_view(fh, &disp, &etype, &filetype, datarep));
    CHECK(disp == 100 && etype == MPI_INT && strcmp(datarep, "internal") == 0);
    MPI_Type_get_envelope(filetype, &n[0], &n[1], &n[2], &combiner);
    CHECK_EQ(combiner, MPI_COMBINER_RESIZED);
    MPI_Type_free(&filetype);
    CHECK_OK(MPI_File_get_byte_offset(fh, 4, &offset));
    CHECK_EQ(offset, 100 + 3 * size * 4 + 4);
    CHECK_OK(MPI_File_close(&fh));
}

/* Pieces are written to a file without read permission, with all hints, and the data between
 * them stay. */
static void only_written(const char *sieve)
{
    enum { N = 2 * BLOCK };
    int out[N];
    check_where("only written, %s", sieve);
    size_t whole = sizeof(int) * (2 * N * size + 1);
    unsigned char *bytes = malloc(whole);
    memset(bytes, 0x5a, whole);
    file_write_plain(bytes, whole);
    MPI_Datatype type;
    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint) 2 * size * 4, &type);
    MPI_Type_commit(&type);
    MPI_Info info = hints("disable", sieve, "4096");
    MPI_File fh = file_open(MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, (MPI_Offset) rank * 8, MPI_INT, type, "native", info));
    for (int i = 0; i < N; i++) out[i] = rank * 10000 + i;
    CHECK_OK(MPI_File_write(fh, out, N, MPI_INT, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(file_read_plain(bytes, whole), (long long) whole);
    for (int at = 0; at <= 2 * N * size; at++) {
        int value;
        memcpy(&value, bytes + 4 * at, 4);
        int wanted = at % 2 || at == 2 * N * size ? 0x5a5a5a5a : at / 2 % size * 10000 + at / 2 / size;
        CHECK_EQ(value, wanted);
    }
    free(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_close(&fh));
    MPI_Info_free(&info);
    MPI_Type_free(&type);
}

/* The filetype of a structure of which only the last member has explicit bounds: these are its
 * bounds, so the next one would begin in the middle of the first. It can be used once, by all
 * together, as libraries do to show a header before a part of an array. */
static void bounds_of_a_member(const char *collective)
{
    enum { HEADER = 16, COLUMNS = 3, ROWS = 7 };
    int sizes[2] = {ROWS, COLUMNS * size}, part[2] = {ROWS, COLUMNS}, start[2] = {0, COLUMNS * rank};
    int lengths[2] = {HEADER, 1}, out[HEADER / 4 + ROWS * COLUMNS], in[HEADER / 4 + ROWS * COLUMNS];
    MPI_Aint places[2] = {0, 100};
    MPI_Datatype columns, whole;
    check_where("bounds of a member, %s", collective);
    MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_INT, &columns);
    MPI_Datatype members[2] = {MPI_BYTE, columns};
    MPI_Type_create_struct(2, lengths, places, members, &whole);
    MPI_Type_commit(&columns);
    MPI_Type_commit(&whole);
    MPI_Info info = hints(collective, "automatic", "64");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    int before = rank == 0 ? HEADER / 4 : 0, n = ROWS * COLUMNS;
    CHECK_OK(MPI_File_set_view(fh, rank == 0 ? 0 : 100, MPI_INT, rank == 0 ? whole : columns, "native", info));
    for (int i = 0; i < before + n; i++) out[i] = i < before ? 7 * i : rank * 1000 + i - before;
    CHECK_OK(MPI_File_write_at_all(fh, 0, out, before + n, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_read_at_all(fh, before, in, n, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_EQ(memcmp(in, out + before, n * sizeof *in), 0);
    MPI_Offset end = -1;
    CHECK_OK(MPI_File_seek(fh, 0, MPI_SEEK_END));
    CHECK_OK(MPI_File_get_position(fh, &end));
    CHECK_EQ(end, before + n);
    if (rank == 0) {
        /* A filetype that begins before the end of the last one is not written. */
        CHECK_CLASS(MPI_File_write_at(fh, before + n - 1, out, 2, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
        CHECK_OK(MPI_File_write_at(fh, before + n - 1, out + before + n - 1, 1, MPI_INT, MPI_STATUS_IGNORE));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    char bytes[100 + ROWS * COLUMNS * 4 * 8];
    CHECK_EQ(file_read_plain(bytes, sizeof bytes), 100 + ROWS * COLUMNS * 4 * size);
    for (int i = 0; i < HEADER / 4; i++) CHECK_EQ(((int *) bytes)[i], 7 * i);
    CHECK_EQ(bytes_differ(bytes, HEADER, 100, 0), -1);
    for (int i = 0; i < ROWS * COLUMNS * size; i++) {
        int row = i / (COLUMNS * size), column = i % (COLUMNS * size);
        CHECK_EQ(((int *) (bytes + 100))[i], column / COLUMNS * 1000 + row * COLUMNS + column % COLUMNS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&columns);
    MPI_Type_free(&whole);
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_close(&fh));
}

/* In a file that is only read, filetypes may interleave. */
static void filetypes_between_each_other(void)
{
    enum { LONG = 20, TILES = 5 };
    unsigned char bytes[200], in[2 * TILES];
    int places[2] = {rank, rank + LONG};
    MPI_Datatype pair, type;
    check_where("filetypes between each other");
    for (int i = 0; i < (int) sizeof bytes; i++) bytes[i] = i;
    file_write_plain(bytes, sizeof bytes);
    MPI_Type_create_indexed_block(2, 1, places, MPI_BYTE, &pair);
    MPI_Type_create_resized(pair, 0, 3, &type);
    MPI_Type_commit(&type);
    MPI_File fh = file_open(MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_read_at_all(fh, 1, in, 2 * TILES, MPI_BYTE, MPI_STATUS_IGNORE));
    for (int i = 0; i < 2 * TILES; i++) CHECK_EQ(in[i], rank + (i + 1) / 2 * 3 + (i % 2 ? 0 : LONG));
    MPI_Type_free(&pair);
    MPI_Type_free(&type);
    CHECK_OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    file_begin();
    bounds_of_a_member("automatic");
    bounds_of_a_member("enable");
    bounds_of_a_member("disable");
    filetypes_between_each_other();
    for (int together = 0; together < 2; together++) {
        write_and_read("automatic", "automatic", "1000000", size, together);
        write_and_read("enable", "disable", "64", 2, together);
        write_and_read("enable", "enable", "4096", 1, together);
        write_and_read("disable", "enable", "50", size, together);
    }
    holes("enable", "automatic");
    holes("disable", "enable");
    holes("disable", "disable");
    only_written("automatic");
    only_written("enable");
    matrix();
    told();
    return check_end();
}
