// ranks: 1 2 4
// transports: all
/* Data representations: external32 is big-endian with its own sizes, native and internal as in
 * memory; registered ones are converted by the program's functions. */
#include "files.h"

static int reads = 0, writes = 0;

/* An int is stored as the four bytes of its negative, backwards; no other type is supported. */
static int flip_read(void *memory, MPI_Datatype type, int count, void *file, MPI_Offset position, void *extra)
{
    const unsigned char *from = file;
    int *to = memory;
    reads++;
    if (*(int *) extra != 42 || type != MPI_INT) return MPI_ERR_CONVERSION;
    for (int i = 0; i < count; i++, from += 4)
        to[position + i] = -(int) ((unsigned) from[0] << 24 | from[1] << 16 | from[2] << 8 | from[3]);
    return MPI_SUCCESS;
}

static int flip_write(void *memory, MPI_Datatype type, MPI_Count count, void *file, MPI_Offset position, void *extra)
{
    unsigned char *to = file;
    const int *from = memory;
    writes++;
    if (*(int *) extra != 42 || type != MPI_INT) return MPI_ERR_CONVERSION;
    for (MPI_Count i = 0; i < count; i++, to += 4) {
        unsigned value = (unsigned) -from[position + i];
        for (int b = 0; b < 4; b++) to[b] = value >> (24 - 8 * b);
    }
    return MPI_SUCCESS;
}

static int flip_read_c(void *memory, MPI_Datatype type, MPI_Count count, void *file, MPI_Offset position, void *extra)
{
    return flip_read(memory, type, (int) count, file, position, extra);
}

static int extent_of(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
    MPI_Aint lb;
    (void) extra;
    return MPI_Type_get_extent(type, &lb, extent);
}

static void external(void)
{
    enum { N = 50 };
    long out[N], in[N];
    unsigned char bytes[4 * N * 8];
    MPI_Datatype filetype;
    MPI_Status status;
    MPI_Aint extent = -1;
    MPI_Count extent_c = -1;
    check_where("external32");
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    /* One long of `size`: the displacements are in longs, of 4 bytes in the file. */
    int lengths[1] = {1}, places[1] = {rank};
    MPI_Type_indexed(1, lengths, places, MPI_LONG, &filetype);
    MPI_Datatype one = filetype;
    MPI_Type_create_resized(one, 0, 4 * size, &filetype);
    MPI_Type_free(&one);
    MPI_Type_commit(&filetype);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_LONG, filetype, "external32", MPI_INFO_NULL));
    CHECK_OK(MPI_File_get_type_extent(fh, MPI_LONG, &extent));
    CHECK_EQ(extent, 4);
    CHECK_OK(MPI_File_get_type_extent_c(fh, MPI_DOUBLE, &extent_c));
    CHECK_EQ(extent_c, 8);
    for (int i = 0; i < N; i++) out[i] = i % 2 ? -(rank * 1000 + i) : rank * 1000 + i;
    CHECK_OK(MPI_File_write_all(fh, out, N, MPI_LONG, &status));
    CHECK_COUNT(status, MPI_LONG, N);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(file_read_plain(bytes, sizeof bytes), 4 * N * size);
    for (int i = 0; i < N * size; i++) {
        int n = i / size, value = n % 2 ? -(i % size * 1000 + n) : i % size * 1000 + n;
        const unsigned char *at = bytes + 4 * i;
        int got = (int) ((unsigned) at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]);
        if (!CHECK_EQ(got, value)) break;
    }
    CHECK_OK(MPI_File_seek(fh, 10, MPI_SEEK_SET));
    memset(in, 0x55, sizeof in);
    CHECK_OK(MPI_File_read_all(fh, in, N, MPI_LONG, &status));
    CHECK_COUNT(status, MPI_LONG, N - 10);
    CHECK(memcmp(in, out + 10, (N - 10) * sizeof *in) == 0);
    CHECK_EQ(bytes_differ(in, (N - 10) * sizeof *in, sizeof in, 0x55), -1);
    CHECK_OK(MPI_File_read_at(fh, 3, in, 2, MPI_LONG, &status));
    CHECK(in[0] == out[3] && in[1] == out[4]);
    CHECK_OK(MPI_File_get_size(fh, &(MPI_Offset){0}));
    MPI_Type_free(&filetype);
    CHECK_OK(MPI_File_close(&fh));
}

static void registered(void)
{
    enum { N = 20 };
    static int extra = 42;
    int out[N], in[N];
    unsigned char bytes[4];
    MPI_Status status;
    check_where("registered");
    CHECK_OK(MPI_Register_datarep_c("flipped", flip_read_c, flip_write, extent_of, &extra));
    CHECK_CLASS(MPI_Register_datarep("flipped", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, NULL), MPI_ERR_DUP_DATAREP);
    CHECK_CLASS(MPI_Register_datarep("native", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, NULL), MPI_ERR_DUP_DATAREP);
    CHECK_CLASS(MPI_Register_datarep("EXTERNAL32", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, NULL), MPI_ERR_DUP_DATAREP);
    CHECK_CLASS(MPI_Register_datarep("", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Register_datarep("flipped when read", flip_read, MPI_CONVERSION_FN_NULL, extent_of, &extra));
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "flipped", MPI_INFO_NULL));
    for (int i = 0; i < N; i++) out[i] = rank * 100 + i + 1;
    CHECK_OK(MPI_File_write_at_all(fh, rank * N, out, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, N);
    CHECK_EQ(writes, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQ(file_read_plain(bytes, 4), 4);
    CHECK(bytes[0] == 0xff && bytes[3] == 0xff);
    memset(in, 0x55, sizeof in);
    CHECK_OK(MPI_File_read_at_all(fh, rank * N, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, N);
    CHECK(memcmp(in, out, sizeof in) == 0);
    memset(in, 0x55, sizeof in);
    CHECK_OK(MPI_File_read_at(fh, N * size - 3, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, 3);
    CHECK_EQ(in[2], (size - 1) * 100 + N);
    CHECK_EQ(bytes_differ(in, 12, sizeof in, 0x55), -1);
    CHECK_EQ(reads, 2);
    /* A conversion that fails on one rank fails on all. */
    CHECK_CLASS(MPI_File_write_at_all(fh, 0, out, N, rank == size - 1 ? MPI_UNSIGNED : MPI_INT, &status), MPI_ERR_CONVERSION);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "flipped when read", MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_read_at(fh, rank * N, in, 1, MPI_INT, &status));
    CHECK_EQ(in[0], rank * 100 + 1);
    CHECK_OK(MPI_File_close(&fh));
}

/* Programs from Fortran write the standard's names in capitals; mixed spellings are refused. */
static void spelled(void)
{
    static const struct { const char *given, *name; int byte; } names[] = {
        {"NATIVE", "native", 1}, {"INTERNAL", "internal", 1}, {"EXTERNAL32", "external32", 0}, {"external32", "external32", 0}};
    static const char *const wrong[] = {"Native", "NATIVe", "nATIVE", "EXTERNAL", "External32", "NATIVE ", ""};
    int value = 0x01000100 * (rank + 1);
    unsigned char byte = 0xaa;
    MPI_Status status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[MPI_MAX_DATAREP_STRING] = "";
        MPI_Offset disp = -1, bytes = -1;
        MPI_Datatype etype, filetype;
        check_where("%s", names[i].given);
        MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
        CHECK_OK(MPI_File_set_view(fh, 4 * rank, MPI_INT, MPI_INT, names[i].given, MPI_INFO_NULL));
        CHECK_OK(MPI_File_get_view(fh, &disp, &etype, &filetype, name));
        CHECK(strcmp(name, names[i].name) == 0 && disp == 4 * rank);
        for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
            CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, wrong[w], MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
        CHECK_OK(MPI_File_write_all(fh, &value, 1, MPI_INT, &status));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_File_get_size(fh, &bytes));
        CHECK_EQ(bytes, 4 * size);
        CHECK_EQ(file_read_plain(&byte, 1), 1);
        CHECK_EQ(byte, names[i].byte ? 0 : 1);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_File_close(&fh));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    file_begin();
    external();
    registered();
    spelled();
    return check_end();
}
