/* Heat in a square plate, on a grid of ranks.
 *
 * The plate is cut into blocks, one for each rank. In every step a rank exchanges the edges of its block with its four
 * neighbours (rows are contiguous; columns are an MPI vector type) and computes each point from its neighbours.
 * At the end rank 0 computes the same plate alone and compares: the values must be equal bit by bit, because each point
 * is computed from the same numbers in the same order.
 *
 *     mpicc -O2 heat.c -o heat && mpirun -n 4 ./heat [points per side] [steps]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int size, rank;      /* of the job */
static int px, py, mx, my;  /* the grid of ranks, and this rank's place in it */
static int points = 192, steps = 400;

/* The points from `first` to `last` - 1 of `points` belong to part `part` of `parts`. */
static int first_of(int part, int parts) { return (int)((long)points * part / parts); }

static double start_value(int row, int column)
{
    /* A hot top edge, a warm spot, cold elsewhere. */
    if (row == 0)
        return 100.0;
    int dr = row - points / 2, dc = column - points / 3;
    return dr * dr + dc * dc < points * points / 64 ? 60.0 : 0.0;
}

/* One step of a block of rows x columns points inside a frame of one; the plate's own border stays as it is. */
static double step(const double *old, double *new, int rows, int columns, int row0, int column0)
{
    int stride = columns + 2;
    double change = 0;
    for (int r = 1; r <= rows; r++) {
        for (int c = 1; c <= columns; c++) {
            int at = r * stride + c, row = row0 + r - 1, column = column0 + c - 1;
            if (row == 0 || row == points - 1 || column == 0 || column == points - 1) {
                new[at] = old[at];
                continue;
            }
            new[at] = 0.25 * (old[at - stride] + old[at + stride] + old[at - 1] + old[at + 1]);
            double d = new[at] > old[at] ? new[at] - old[at] : old[at] - new[at];
            if (d > change)
                change = d;
        }
    }
    return change;
}

static double *block(int rows, int columns, int row0, int column0)
{
    double *b = calloc((size_t)(rows + 2) * (columns + 2), sizeof *b);
    if (!b) {
        fprintf(stderr, "heat: no memory for a block of %d x %d points\n", rows, columns);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            b[(r + 1) * (columns + 2) + c + 1] = start_value(row0 + r, column0 + c);
    return b;
}

static int neighbour(int dx, int dy)
{
    int x = mx + dx, y = my + dy;
    return x < 0 || x >= px || y < 0 || y >= py ? MPI_PROC_NULL : y * px + x;
}

/* Fills the frame of a block with the edges of the neighbours' blocks. */
static void exchange(double *b, int rows, int columns, MPI_Datatype column_type)
{
    int stride = columns + 2;
    int up = neighbour(0, -1), down = neighbour(0, 1), left = neighbour(-1, 0), right = neighbour(1, 0);
    MPI_Request requests[4];

    MPI_Irecv(b + 1, columns, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(b + (rows + 1) * stride + 1, columns, MPI_DOUBLE, down, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(b + rows * stride + 1, columns, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(b + stride + 1, columns, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Sendrecv(b + stride + 1, 1, column_type, left, 3, b + stride + columns + 1, 1, column_type, right, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(b + stride + columns, 1, column_type, right, 4, b + stride, 1, column_type, left, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* Brings all blocks to rank 0, into a plate without a frame. */
static double *collect(const double *b, int rows, int columns)
{
    int mine[4] = {first_of(my, py), rows, first_of(mx, px), columns};
    int *shapes = malloc(sizeof(int) * 4 * size);
    double *packed = malloc(sizeof(double) * rows * columns), *plate = NULL;

    for (int r = 0; r < rows; r++)
        memcpy(packed + r * columns, b + (r + 1) * (columns + 2) + 1, sizeof(double) * columns);
    MPI_Gather(mine, 4, MPI_INT, shapes, 4, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0) {
        MPI_Send(packed, rows * columns, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD);
    } else {
        plate = malloc(sizeof(double) * points * points);
        for (int from = 0; from < size; from++) {
            const int *shape = shapes + 4 * from;
            double *part = from == 0 ? packed : malloc(sizeof(double) * shape[1] * shape[3]);
            if (from != 0)
                MPI_Recv(part, shape[1] * shape[3], MPI_DOUBLE, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int r = 0; r < shape[1]; r++)
                memcpy(plate + (size_t)(shape[0] + r) * points + shape[2], part + r * shape[3],
                       sizeof(double) * shape[3]);
            if (from != 0)
                free(part);
        }
    }
    free(packed);
    free(shapes);
    return plate;
}

/* The same plate, computed by one rank. Returns how many points differ. */
static long compare(const double *plate, double change)
{
    double *a = block(points, points, 0, 0), *b = block(points, points, 0, 0), alone = 0;
    long wrong = 0;
    for (int s = 0; s < steps; s++) {
        alone = step(a, b, points, points, 0, 0);
        double *t = a;
        a = b;
        b = t;
    }
    for (int r = 0; r < points; r++)
        wrong += memcmp(a + (r + 1) * (points + 2) + 1, plate + (size_t)r * points, sizeof(double) * points) != 0;
    free(a);
    free(b);
    return wrong + (alone != change);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    int wanted[2] = {argc > 1 ? atoi(argv[1]) : points, argc > 2 ? atoi(argv[2]) : steps};
    MPI_Bcast(wanted, 2, MPI_INT, 0, MPI_COMM_WORLD);
    points = wanted[0];
    steps = wanted[1];
    for (px = 1; (px + 1) * (px + 1) <= size; px++)
        ;
    while (size % px != 0)
        px--;
    py = size / px;
    mx = rank % px;
    my = rank / px;
    if (points < 3 || points < py || steps < 1) {
        if (rank == 0)
            fprintf(stderr, "heat: %d points a side and %d steps are too few for %d ranks\n", points, steps, size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }

    int row0 = first_of(my, py), rows = first_of(my + 1, py) - row0;
    int column0 = first_of(mx, px), columns = first_of(mx + 1, px) - column0;
    double *old = block(rows, columns, row0, column0), *new = block(rows, columns, row0, column0);
    MPI_Datatype column_type;
    MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column_type);
    MPI_Type_commit(&column_type);

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime(), change = 0;
    for (int s = 0; s < steps; s++) {
        exchange(old, rows, columns, column_type);
        double mine = step(old, new, rows, columns, row0, column0);
        double *t = old;
        old = new;
        new = t;
        if (s % 100 == 99 || s == steps - 1)
            MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    double mine = MPI_Wtime() - start, seconds;
    MPI_Reduce(&mine, &seconds, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);

    double *plate = collect(old, rows, columns);
    long wrong = 0;
    if (rank == 0) {
        wrong = compare(plate, change);
        printf("heat: %d x %d points, %d steps on %d x %d ranks: %.3f s, last change %.6f\n", points, points, steps, px,
               py, seconds, change);
        if (wrong == 0)
            printf("heat: the result is right: equal to a serial computation, bit by bit\n");
        else
            printf("heat: the result is WRONG: %ld rows differ from a serial computation\n", wrong);
    }
    MPI_Bcast(&wrong, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    MPI_Type_free(&column_type);
    free(plate);
    free(old);
    free(new);
    MPI_Finalize();
    return wrong != 0;
}
