/* Closes all descriptors from 3 on after MPI_Init, as code for daemons does, and then exchanges
 * messages with its peers. With "reused" it first opens files with these numbers, which must
 * stay empty; with "late" it has exchanged messages before. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void around(int rank, int size)
{
    for (int a = 0, b; a < 100; a++)
        MPI_Sendrecv(&a, 1, MPI_INT, (rank + 1) % size, 1, &b, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size, files[200], count = 0;
    const char *how = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(how, "late") == 0)
        around(rank, size);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    if (strcmp(how, "reused") == 0) {
        char name[64];
        snprintf(name, sizeof name, "reused.%d", rank);
        while (count < 200)
            files[count++] = open(name, O_RDWR | O_CREAT, 0600);
    }
    around(rank, size);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    void *memory;
    MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &memory);
    memset(memory, 1, 1 << 20);
    MPI_Free_mem(memory);
    struct stat stat;
    for (int i = 0; i < count; i++)
        if (fstat(files[i], &stat) != 0 || stat.st_size != 0)
            return 9;
    if (sum != size * (size - 1) / 2)
        return 8;
    if (rank == 0)
        puts("all met");
    MPI_Finalize();
    return 0;
}
