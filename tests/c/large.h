// A buffer of more than 2^31 bytes, and its checks. The same pages are mapped again and again, so
// the buffer uses little memory.
#define _GNU_SOURCE
#include "must.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 1 << 23 };
static const MPI_Count LONG = (1LL << 31) + PIECE;

/* `times` times LONG bytes of address space over PIECE bytes of memory, filled with one byte. */
static unsigned char *long_wide(int fill, int times)
{
    int fd = memfd_create("piece", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, PIECE) == 0);
    unsigned char *start = mmap(NULL, times * LONG, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(start != MAP_FAILED);
    for (MPI_Count at = 0; at < times * LONG; at += PIECE) {
        void *here = mmap(start + at, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
        CHECK(here == start + at);
    }
    close(fd);
    memset(start, fill, PIECE);
    return start;
}

static unsigned char *long_buffer(int fill) { return long_wide(fill, 1); }

static int is_all(const unsigned char *buffer, int value)
{
    for (int i = 0; i < PIECE; i++)
        if (buffer[i] != value) return 0;
    return 1;
}

static void count_is(const MPI_Status *status, MPI_Datatype type, MPI_Count wanted)
{
    MPI_Count count;
    CHECK(MPI_Get_count_c(status, type, &count) == MPI_SUCCESS && count == wanted);
    int small;
    CHECK(MPI_Get_count(status, type, &small) == MPI_SUCCESS);
    CHECK(small == (wanted > 0x7fffffff ? MPI_UNDEFINED : (int) wanted));
}

/* Sends a message of more bytes than an int can count from rank 0, whose buffer is full of 10,
 * to rank 1. */
static void send_long(const unsigned char *from, unsigned char *to, int rank)
{
    MPI_Status status;
    if (rank == 0) CHECK(MPI_Send_c(from, LONG, MPI_BYTE, 1, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
    if (rank == 1) {
        CHECK(MPI_Recv_c(to, LONG, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
        count_is(&status, MPI_BYTE, LONG);
        CHECK(is_all(to, 10));
    }
}
