// ranks: 2
// transports: one
/* Names beyond the standard ABI that programs of other MPIs import from their C library. */
#include "check.h"

#ifdef OMPI_MPI_H
int MPIX_Bcast_init(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Info info,
                    MPI_Request *request);
int MPIX_Query_rocm_support(void);

static void names(void)
{
    int number = rank == 0 ? 17 : 0;
    MPI_Request request;
    CHECK_OK(MPIX_Bcast_init(&number, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    CHECK_OK(MPI_Start(&request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(number, 17);
    CHECK_OK(MPI_Request_free(&request));
    CHECK_EQ(MPIX_Query_rocm_support(), 0);
    MPI_Comm host, node;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, OMPI_COMM_TYPE_HOST, 0, MPI_INFO_NULL, &host));
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, OMPI_COMM_TYPE_NODE, 0, MPI_INFO_NULL, &node));
    int same;
    CHECK_OK(MPI_Comm_compare(host, node, &same));
    CHECK_EQ(same, MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_free(&host));
    CHECK_OK(MPI_Comm_free(&node));
}
#else
int MPIX_Delete_error_class(int class);
int MPIX_GPU_query_support(int kind, int *is_supported);
int MPIX_Query_cuda_support(void);
int MPIX_Query_ze_support(void);
#undef MPI_Comm_c2f
#undef MPI_Comm_f2c
MPI_Fint MPI_Comm_c2f(MPI_Comm comm);
MPI_Comm MPI_Comm_f2c(MPI_Fint comm);

static void names(void)
{
    int class, other, is_supported;
    CHECK_OK(MPI_Add_error_class(&class));
    CHECK_OK(MPIX_Delete_error_class(class));
    CHECK_CLASS(MPI_Error_class(class, &other), MPI_ERR_ARG);
    CHECK_OK(MPIX_GPU_query_support(0, &is_supported));
    CHECK_EQ(is_supported, MPIX_Query_cuda_support());
    CHECK_OK(MPIX_GPU_query_support(2, &is_supported));
    CHECK_EQ(is_supported, MPIX_Query_ze_support());
    CHECK_CLASS(MPIX_GPU_query_support(3, &is_supported), MPI_ERR_ARG);
    MPI_Comm copy;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(copy)) == copy);
    CHECK_OK(MPI_Comm_free(&copy));
}
#endif

/* The statuses of Fortran in a program without Fortran. */
static void statuses_of_fortran(void)
{
    MPI_Status status, back;
    MPI_Fint copy[sizeof status / sizeof(MPI_Fint)];
    int number = rank, count;
    CHECK_OK(MPI_Sendrecv(&number, 1, MPI_INT, rank, 3, &number, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Status_c2f(&status, copy));
    CHECK(copy != MPI_F_STATUS_IGNORE && copy != MPI_F_STATUSES_IGNORE);
    CHECK_OK(MPI_Status_f2c(copy, &back));
    CHECK_EQ(back.MPI_TAG, 3);
    CHECK_OK(MPI_Get_count(&back, MPI_INT, &count));
    CHECK_EQ(count, 1);
    CHECK_CLASS(MPI_Status_c2f(MPI_STATUS_IGNORE, copy), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Status_f2c(copy, MPI_STATUS_IGNORE), MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    names();
    statuses_of_fortran();
    return check_end();
}
