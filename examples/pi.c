/* Pi by the midpoint rule: every rank integrates its share of 4 / (1 + x^2) from 0 to 1. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size;
    long steps = argc > 1 ? atol(argv[1]) : 10000000;
    double part = 0, pi = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Bcast(&steps, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (long i = rank; i < steps; i += size) {
        double x = (i + 0.5) / steps;
        part += 4.0 / (1.0 + x * x);
    }
    part /= steps;
    MPI_Reduce(&part, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("pi is about %.12f, wrong by %.1e\n", pi, fabs(pi - 3.14159265358979323846));
    MPI_Finalize();
    return 0;
}
