/* Heat spreads over a plate whose rows the ranks share. Rank 0 prints the residual at intervals,
 * and at the end the sum of all cells: integers, the same in any order of the ranks, which one
 * wrong message changes. Arguments: steps, microseconds of each step after its work, and
 * optionally a file for whose existence the ranks wait before they end (the last argument is the
 * mark of the test). */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 32, COLUMNS = 1024, SAY = 20 };

static double now[ROWS + 2][COLUMNS], next[ROWS + 2][COLUMNS];

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int steps = argc > 1 ? atoi(argv[1]) : 100, pause = argc > 2 ? atoi(argv[2]) : 0;
    int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    for (int row = 1; row <= ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            now[row][column] = (rank * ROWS + row) % 7 + column % 5 * 0.25;
    printf("rank %d %d\n", rank, (int) getpid());
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 1; step <= steps; step++) {
        MPI_Sendrecv(now[1], COLUMNS, MPI_DOUBLE, up, 1, now[ROWS + 1], COLUMNS, MPI_DOUBLE, down, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(now[ROWS], COLUMNS, MPI_DOUBLE, down, 2, now[0], COLUMNS, MPI_DOUBLE, up, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        long mine = 0, all;
        for (int row = 1; row <= ROWS; row++)
            for (int column = 1; column + 1 < COLUMNS; column++) {
                next[row][column] = 0.25 * (now[row - 1][column] + now[row + 1][column] + now[row][column - 1]
                                            + now[row][column + 1]);
                double change = next[row][column] - now[row][column];
                mine += (long) (change * change * 1e9);
            }
        for (int row = 1; row <= ROWS; row++)
            memcpy(&now[row][1], &next[row][1], (COLUMNS - 2) * sizeof(double));
        MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0 && step % SAY == 0) {
            printf("step %d residual %ld\n", step, all);
            fflush(stdout);
        }
        usleep(pause);
    }
    while (argc > 4 && access(argv[3], F_OK)) usleep(1000);
    long mine = 0, all;
    for (int row = 1; row <= ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) mine += (long) (now[row][column] * 1e9);
    MPI_Reduce(&mine, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %ld\n", all);
    MPI_Finalize();
    return 0;
}
