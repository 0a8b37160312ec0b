// ranks: 1 2 4 7
// transports: all
// every day: nodes
/* Errors of files: the same class on every rank, no hang, and the file stays usable. The handler
 * is that of the file, or that of MPI_FILE_NULL before the file is open. */
#include "files.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int called = 0;
static MPI_File called_for = 0;

static void note(MPI_File *fh, int *code, ...)
{
    called++;
    called_for = *fh;
    (void) code;
}

/* Whether another rank is on the node of the last one: files of different nodes cannot be
 * compared. Collective. */
static int is_last_in_company(void)
{
    MPI_Comm node;
    int here = 0;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MPI_Comm_size(node, &here);
    MPI_Comm_free(&node);
    MPI_Bcast(&here, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    return here > 1;
}

static void opening(void)
{
    MPI_File fh = MPI_FILE_NULL;
    char path[300];
    check_where("opening");
#define OPEN(name, amode) MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &fh)
    CHECK_CLASS(OPEN(file_name, MPI_MODE_RDONLY), MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(OPEN(file_name, MPI_MODE_RDWR), MPI_ERR_NO_SUCH_FILE);
    snprintf(path, sizeof path, "%s/no/such", file_name);
    CHECK_CLASS(OPEN(path, MPI_MODE_RDWR | MPI_MODE_CREATE), MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(OPEN("/tmp", MPI_MODE_RDWR), MPI_ERR_BAD_FILE);
    CHECK_CLASS(OPEN("/tmp", MPI_MODE_RDONLY), MPI_ERR_BAD_FILE);
    CHECK_CLASS(OPEN("", MPI_MODE_RDONLY), MPI_ERR_BAD_FILE);
    CHECK_CLASS(OPEN(file_name, 0), MPI_ERR_AMODE);
    CHECK_CLASS(OPEN(file_name, MPI_MODE_RDONLY | MPI_MODE_RDWR), MPI_ERR_AMODE);
    CHECK_CLASS(OPEN(file_name, MPI_MODE_RDONLY | MPI_MODE_CREATE), MPI_ERR_AMODE);
    CHECK_CLASS(OPEN(file_name, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE), MPI_ERR_AMODE);
    CHECK(access(file_name, F_OK) != 0);
    if (size > 1) {
        CHECK_CLASS(OPEN(file_name, rank == size - 1 ? MPI_MODE_WRONLY | MPI_MODE_CREATE : MPI_MODE_RDWR | MPI_MODE_CREATE),
                    MPI_ERR_NOT_SAME);
        CHECK_CLASS(OPEN(rank == size - 1 ? NULL : file_name, MPI_MODE_RDWR | MPI_MODE_CREATE), MPI_ERR_ARG);
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, file_name, MPI_MODE_RDWR | MPI_MODE_CREATE,
                                  rank == 0 ? (MPI_Info) 0x7777777 : MPI_INFO_NULL, &fh), MPI_ERR_INFO);
        snprintf(path, sizeof path, "%s.other", file_name);
        file_write_plain("x", 1);
        if (rank == 0) {
            int other = open(path, O_CREAT | O_RDWR, 0600);
            CHECK(other >= 0);
            close(other);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (is_last_in_company())
            CHECK_CLASS(OPEN(rank == size - 1 ? path : file_name, MPI_MODE_RDWR), MPI_ERR_NOT_SAME);
        if (rank == 0) {
            unlink(path);
            unlink(file_name);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL);
    CHECK_OK(MPI_File_close(&fh));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_CLASS(OPEN(file_name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL), MPI_ERR_FILE_EXISTS);
    CHECK(fh == MPI_FILE_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK_OK(MPI_File_delete(file_name, MPI_INFO_NULL));
        CHECK_CLASS(MPI_File_delete(file_name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
        /* The kernel permits this user to delete the directory, but not as a file. */
        CHECK(mkdir(file_name, 0700) == 0);
        CHECK_CLASS(MPI_File_delete(file_name, MPI_INFO_NULL), MPI_ERR_BAD_FILE);
        CHECK(rmdir(file_name) == 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    char text[MPI_MAX_ERROR_STRING];
    int length;
    int code = OPEN(file_name, MPI_MODE_RDONLY);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, file_name) != NULL);
}

static void using_it(void)
{
    int value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Offset place;
    MPI_Datatype backward, overlapping, uncommitted;
    check_where("using");
    CHECK_CLASS(MPI_File_sync(MPI_FILE_NULL), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_size((MPI_File) 0x123456, &place), MPI_ERR_FILE);
    file_write_plain(value, sizeof value);
    MPI_File fh = file_open(MPI_MODE_RDONLY);
    CHECK_CLASS(MPI_File_write(fh, value, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write_all(fh, value, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write_ordered(fh, value, 1, MPI_INT, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_iwrite_all(fh, value, 1, MPI_INT, &request), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_set_size(fh, 1), MPI_ERR_READ_ONLY);
    CHECK_OK(MPI_File_close(&fh));
    fh = file_open(MPI_MODE_WRONLY);
    CHECK_CLASS(MPI_File_read(fh, value, 1, MPI_INT, &status), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read_at_all(fh, 0, value, 1, MPI_INT, &status), MPI_ERR_ACCESS);
    CHECK_OK(MPI_File_close(&fh));

    fh = file_open(MPI_MODE_RDWR);
    CHECK_CLASS(MPI_File_read_at(fh, -1, value, 1, MPI_INT, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_read_at(fh, 0, value, -1, MPI_INT, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_read_at(fh, 0, value, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_File_read_at(fh, 0, NULL, 1, MPI_INT, &status), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_File_read_at(fh, INT64_MAX - 2, value, 1, MPI_INT, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(fh, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(fh, 0, 999), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_size(fh, -1), MPI_ERR_ARG);
    /* Wrong on one rank: all get the error, and none waits. */
    CHECK_CLASS(MPI_File_write_at_all(fh, 0, value, rank == size - 1 ? -1 : 2, MPI_INT, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_read_ordered(fh, value, rank == 0 ? -1 : 1, MPI_INT, &status), MPI_ERR_COUNT);
    int code = MPI_File_iread_at_all(fh, rank == size - 1 ? -5 : 0, value, 1, MPI_INT, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, &status);
    CHECK_EQ(code, MPI_ERR_ARG);
    if (size > 1) {
        CHECK_CLASS(MPI_File_set_size(fh, 100 + (rank == 1)), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_preallocate(fh, 100 + (rank == 1)), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_seek_shared(fh, rank == 1, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_set_atomicity(fh, rank == 1), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_set_view(fh, 0, rank == 1 ? MPI_INT : MPI_CHAR, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, rank == 1 ? "native" : "external32", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
    }
    CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "no such", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK_CLASS(MPI_File_set_view(fh, rank == size - 1 ? -1 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_view(fh, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_DOUBLE, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    int lengths[2] = {1, 1}, down[2] = {2, 0}, over[2] = {0, 0};
    MPI_Type_indexed(2, lengths, down, MPI_INT, &backward);
    MPI_Type_commit(&backward);
    MPI_Type_indexed(2, lengths, over, MPI_INT, &overlapping);
    MPI_Type_commit(&overlapping);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_INT, backward, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_INT, overlapping, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_view(fh, 0, MPI_INT, uncommitted, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_CLASS(MPI_File_read(fh, value, 3, MPI_CHAR, &status), MPI_ERR_ARG);
    CHECK_OK(MPI_File_read_all(fh, value, 8, MPI_INT, &status));
    CHECK_EQ(value[7], 8);
    CHECK_OK(MPI_File_close(&fh));
    MPI_Barrier(MPI_COMM_WORLD);
    /* For reading, a view may have the same bytes twice. */
    fh = file_open(MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_INT, overlapping, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_read_all(fh, value, 2, MPI_INT, &status));
    CHECK(value[0] == 1 && value[1] == 1);
    CHECK_OK(MPI_File_close(&fh));
    MPI_Type_free(&backward);
    MPI_Type_free(&overlapping);
    MPI_Type_free(&uncommitted);
}

static void no_room(int together)
{
    enum { N = 10000 };
    static int out[N], in[N];
    MPI_Datatype filetype;
    MPI_Status status;
    MPI_Info info;
    MPI_Request request;
    check_where("no room, together %d", together);
    MPI_File fh = MPI_FILE_NULL;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &fh));
    CHECK_CLASS(MPI_File_write(fh, out, N, MPI_INT, &status), MPI_ERR_NO_SPACE);
    CHECK_CLASS(MPI_File_write_at_all(fh, 0, out, N, MPI_INT, &status), MPI_ERR_NO_SPACE);
    CHECK_CLASS(MPI_File_write_ordered(fh, out, N, MPI_INT, &status), MPI_ERR_NO_SPACE);
    CHECK_OK(MPI_File_close(&fh));

    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", together ? "enable" : "disable");
    MPI_Info_set(info, "cb_buffer_size", "20000");
    MPI_Type_create_resized(MPI_INT, 0, 4 * size, &filetype);
    MPI_Type_commit(&filetype);
    fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_view(fh, 4 * rank, MPI_INT, filetype, "native", info));
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4 * size * 100;
    signal(SIGXFSZ, SIG_IGN);
    for (int who = 0; who < 2; who++) {
        if (who == 0 || rank == 0) setrlimit(RLIMIT_FSIZE, &small);
        for (int i = 0; i < N; i++) out[i] = rank * N + i;
        CHECK_CLASS(MPI_File_write_at_all(fh, 0, out, N, MPI_INT, &status), MPI_ERR_NO_SPACE);
        CHECK_OK(MPI_File_iwrite_at_all(fh, 0, out, N, MPI_INT, &request));
        CHECK_CLASS(MPI_Wait(&request, &status), MPI_ERR_NO_SPACE);
        setrlimit(RLIMIT_FSIZE, &before);
    }
    CHECK_OK(MPI_File_write_at_all(fh, 0, out, N, MPI_INT, &status));
    CHECK_OK(MPI_File_sync(fh));
    CHECK_OK(MPI_File_read_at_all(fh, 0, in, N, MPI_INT, &status));
    CHECK_COUNT(status, MPI_INT, N);
    CHECK(memcmp(in, out, sizeof in) == 0);
    MPI_Type_free(&filetype);
    MPI_Info_free(&info);
    CHECK_OK(MPI_File_close(&fh));
}

static void handlers(void)
{
    MPI_Errhandler handler, got;
    MPI_File fh = MPI_FILE_NULL;
    MPI_Request request;
    int value = 0;
    check_where("handlers");
    CHECK_OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_File_create_errhandler(note, &handler));
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, file_name, MPI_MODE_RDWR, MPI_INFO_NULL, &fh), MPI_ERR_NO_SUCH_FILE);
    CHECK_EQ(called, 1);
    CHECK(called_for == MPI_FILE_NULL);
    /* The new file keeps it, also when that of MPI_FILE_NULL changes. */
    fh = file_open(MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_File_read(fh, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    CHECK_EQ(called, 2);
    CHECK(called_for == fh);
    CHECK_OK(MPI_File_get_errhandler(fh, &got));
    CHECK(got == handler);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&handler);
    CHECK_OK(MPI_File_call_errhandler(fh, MPI_ERR_OTHER));
    CHECK_EQ(called, 3);
    CHECK_OK(MPI_File_close(&fh));
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_WRONLY, MPI_INFO_NULL, &fh));
    CHECK_OK(MPI_File_create_errhandler(note, &handler));
    CHECK_OK(MPI_File_set_errhandler(fh, handler));
    MPI_Errhandler_free(&handler);
    CHECK_OK(MPI_File_iwrite_all(fh, &value, 1, MPI_INT, &request));
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_NO_SPACE);
    CHECK_EQ(called, 4);
    CHECK(called_for == fh);
    CHECK_OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    file_begin();
    opening();
    using_it();
    no_room(0);
    no_room(1);
    handlers();
    return check_end();
}
