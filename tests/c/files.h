/* Common parts of the tests of files: the name of a file that all ranks know and rank 0 removes
 * at the end, and access without MPI. */
#ifndef FILES_H
#define FILES_H

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static char file_name[256];

static inline void file_remove(void)
{
    if (file_name[0]) unlink(file_name);
}

static inline void file_begin(void)
{
    const char *directory = getenv("TMPDIR");
    if (rank == 0) {
        snprintf(file_name, sizeof file_name, "%s/oxmpi-file-%ld", directory ? directory : "/tmp", (long) getpid());
        atexit(file_remove);
    }
    MPI_Bcast(file_name, sizeof file_name, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static inline MPI_File file_open(int amode)
{
    MPI_File fh = MPI_FILE_NULL;
    CHECK_OK(MPI_File_open(MPI_COMM_WORLD, file_name, amode, MPI_INFO_NULL, &fh));
    return fh;
}

static inline void file_write_plain(const void *bytes, size_t length)
{
    if (rank == 0) {
        FILE *file = fopen(file_name, "wb");
        CHECK(file != NULL);
        if (file) {
            CHECK(fwrite(bytes, 1, length, file) == length);
            fclose(file);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static inline long long file_read_plain(void *bytes, size_t room)
{
    FILE *file = fopen(file_name, "rb");
    if (!file) return -1;
    size_t got = fread(bytes, 1, room, file);
    fclose(file);
    return (long long) got;
}

#define CHECK_COUNT(status, datatype, count) check_count(&(status), datatype, count, __FILE__, __LINE__)

static inline void check_count(const MPI_Status *status, MPI_Datatype datatype, int count, const char *file, int line)
{
    int got = -2;
    MPI_Get_count(status, datatype, &got);
    check_equal(got, count, file, line, "count", "expected");
}

#endif
