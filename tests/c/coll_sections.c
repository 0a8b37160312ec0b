// ranks: 2 4 7
// transports: near
/* The memory of collectives goes from one team to the next: to larger and smaller ones, while it
 * is full of the data of the last one. */
#include "check.h"

enum { ROUNDS = 12, LONG = 200000 };

static unsigned char full[LONG], others[LONG];

static void fill(MPI_Comm comm, int members)
{
    memset(full, 0x7f, LONG);
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Bcast(full, LONG, MPI_BYTE, i % members, comm));
    CHECK_OK(MPI_Alltoall(full, LONG / members / 4, MPI_BYTE, others, LONG / members / 4, MPI_BYTE, comm));
}

static void sums(MPI_Comm comm)
{
    int me, n;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int i = 0; i < 20; i++) {
        int one = me + i, sum = -1;
        CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, n * (n - 1) / 2 + n * i);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int round = 0; round < ROUNDS; round++) {
        int members = 2 + round % (size - 1);
        MPI_Comm part, all;
        check_where("a team of %d after one of %d", size, members);
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank < members ? 0 : MPI_UNDEFINED, rank, &part));
        if (part != MPI_COMM_NULL) {
            sums(part);
            fill(part, members);
            CHECK_OK(MPI_Comm_free(&part));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &all));
        sums(all);
        fill(all, size);
        CHECK_OK(MPI_Comm_free(&all));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return check_end();
}
