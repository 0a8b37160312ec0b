/* The C part of f08_tools.f90: a tool that counts calls. */
#include <mpi.h>

static int calls[7];

int calls_in_c(int of)
{
    return calls[of];
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    calls[0]++;
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    calls[1]++;
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Irecv_c(void *buf, MPI_Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                MPI_Request *request)
{
    calls[2]++;
    return PMPI_Irecv_c(buf, count, type, source, tag, comm, request);
}

int MPI_Ssend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    calls[3]++;
    return PMPI_Ssend(buf, count, type, dest, tag, comm);
}

int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    calls[4]++;
    return PMPI_Iallreduce(sendbuf, recvbuf, count, type, op, comm, request);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    calls[5]++;
    return PMPI_Wait(request, status);
}

/* Functions by which the library makes datatypes of sections, and looks at requests. */
int MPI_Type_create_hvector_c(MPI_Count count, MPI_Count length, MPI_Count stride,
                              MPI_Datatype old, MPI_Datatype *new)
{
    calls[6]++;
    return PMPI_Type_create_hvector_c(count, length, stride, old, new);
}

int MPI_Type_commit(MPI_Datatype *type)
{
    calls[6]++;
    return PMPI_Type_commit(type);
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    calls[6]++;
    return PMPI_Request_get_status(request, flag, status);
}
