/* The main program of f08_called_by_c.f90. */
#include <mpi.h>
#include <stdio.h>

int exchange(MPI_Fint comm, int right, int left);
void make(MPI_Fint *op, MPI_Fint *request, MPI_Fint *errhandler, int *buffer, MPI_Fint comm);
int errors_in_fortran(void);
int use_objects(MPI_Fint op, const MPI_Fint *status, MPI_Fint comm);

static int faults;

static void check(int holds, const char *what)
{
    if (!holds) {
        printf("wrong: %s\n", what);
        faults++;
    }
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks, numbers[3] = {0};
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;

    MPI_Request request, other;
    char bytes[9] = {0};
    MPI_Irecv(numbers, 3, MPI_INT, left, 1, comm, &request);
    MPI_Isend(bytes, 9, MPI_CHAR, right, 2, comm, &other);
    check(exchange(MPI_Comm_c2f(comm), right, left) == 0, "messages in Fortran");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&other, MPI_STATUS_IGNORE);
    check(numbers[0] == 99 && numbers[1] == 55 && numbers[2] == 11, "a section of Fortran");

    MPI_Fint op_number, request_number, handler_number, f_status[MPI_F_STATUS_SIZE];
    int buffer[4] = {0}, sent[4] = {1, 2, 3, 4};
    MPI_Status status;
    make(&op_number, &request_number, &handler_number, buffer, MPI_Comm_c2f(comm));
    request = MPI_Request_f2c(request_number);
    MPI_Send(sent, 4, MPI_INT, right, 9, comm);
    MPI_Wait(&request, &status);
    check(buffer[0] == 1 && buffer[3] == 4, "a request of Fortran");
    MPI_Op op = MPI_Op_f2c(op_number);
    int largest[2] = {rank, -rank};
    MPI_Allreduce(MPI_IN_PLACE, largest, 2, MPI_INT, op, comm);
    check(largest[0] == ranks - 1 && largest[1] == 0, "an operation of Fortran");
    MPI_Op_free(&op);
    MPI_Errhandler handler = MPI_Errhandler_f2c(handler_number);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Send(sent, -1, MPI_INT, right, 9, comm);
    check(errors_in_fortran() == 1, "an error handler of Fortran");
    MPI_Errhandler_free(&handler);

    MPI_Op_create(add, 1, &op);
    MPI_Status_c2f(&status, f_status);
    check(use_objects(MPI_Op_c2f(op), f_status, MPI_Comm_c2f(comm)) == 0, "objects of C");
    MPI_Op_free(&op);
    MPI_Comm_free(&comm);
    int all;
    MPI_Allreduce(&faults, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && all == 0)
        printf("ok\n");
    MPI_Finalize();
    return 0;
}
