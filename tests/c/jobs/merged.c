/* A communicator of two jobs, whose ranks may have different parameters: they choose the same
 * algorithms. One job uses ports, of which the other one has no information. */
#include "../check.h"

int main(int argc, char **argv)
{
    MPI_Comm parent, inter, all;
    char port[MPI_MAX_PORT_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    inter = parent;
    if (parent == MPI_COMM_NULL) MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(inter, parent != MPI_COMM_NULL, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    if (rank == 0) CHECK_OK(MPI_Open_port(MPI_INFO_NULL, port));
    for (int i = 0; i < 10; i++) {
        double one = rank, sum = -1, sums[8];
        CHECK_OK(MPI_Barrier(all));
        CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, all));
        CHECK(sum == size * (size - 1) / 2);
        CHECK_OK(MPI_Allgather(&sum, 1, MPI_DOUBLE, sums, 1, MPI_DOUBLE, all));
    }
    if (rank == 0) CHECK_OK(MPI_Close_port(port));
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    MPI_Finalize();
    if (rank == 0) puts(check_failures ? "failed" : "ok");
    return 0;
}
