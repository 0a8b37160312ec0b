// ranks: 2
// transports: all
/* A long message from memory that no other process can read (memfd_secret, like device memory),
 * while its sender computes: the receiver cannot copy it and must wait for the sender, which has
 * not failed. Without such memory in the kernel this is an ordinary message. */
#define _GNU_SOURCE
#include "check.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { LEN = 1 << 20 };

static char *secret(void)
{
    void *memory = MAP_FAILED;
#ifdef SYS_memfd_secret
    int fd = (int) syscall(SYS_memfd_secret, 0);
    if (fd >= 0 && ftruncate(fd, LEN) == 0) memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#endif
    return memory == MAP_FAILED ? allocate(LEN) : memory;
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    char *data = rank == 0 ? secret() : allocate(LEN);
    int ping = 0;
    /* Until both have connected completely. */
    for (int i = 0; i < 5; i++) {
        CHECK_OK(MPI_Send(&ping, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD));
        CHECK_OK(MPI_Recv(&ping, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    if (rank == 0) {
        MPI_Request request;
        memset(data, 7, LEN);
        CHECK_OK(MPI_Isend(data, LEN, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
        usleep(200 * 1000);
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        MPI_Status status;
        CHECK_OK(MPI_Recv(data, LEN, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status));
        CHECK_STATUS(&status, 0, 1, LEN);
        CHECK_EQ(bytes_differ(data, 0, LEN, 7), -1);
    }
    return check_end();
}
