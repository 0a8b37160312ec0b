// ranks: 2 3
/* Collectives of up to 12 bytes in any order, with any roots: what two ranks give each other as words, in between by other lines and
 * by nonblocking collectives. Each rank by itself describes its bytes by a datatype with a gap, and so goes another way through the
 * library, or is late, or gives in place. */
#include "check.h"

#include <unistd.h>

enum { MOST = 3, CALLS = 20000 };

static MPI_Datatype gapped; /* an int and a gap as long */

static int value(int from, int to, int i, int call) { return 1 + from * 1009 + to * 101 + i * 11 + call * 3; }

static int sum(int to, int i, int call)
{
    int total = 0;
    for (int r = 0; r < size; r++) total += value(r, to, i, call);
    return total;
}

static void fill(int *at, int step, int blocks, int count, int call)
{
    for (int i = 0; i < blocks * count; i++) at[i * step] = value(rank, i / count, i % count, call);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    for (unsigned seed = 1; seed <= 3; seed++) {
        MPI_Comm comm;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int call = 0; call < CALLS; call++) {
            /* What all ranks draw, and what this one draws. */
            unsigned all = drawn(seed, (unsigned) call, 0), own = drawn(seed, (unsigned) call, 1 + (unsigned) rank);
            int mine[2 * MOST * 3], got[2 * MOST * 3], root = (int) (all % (unsigned) size);
            int kind = (int) (all / 8 % 10), count = 1 + (int) (all / 128 % MOST);
            int step = 1 + (int) (own % 2), in_place = (int) (own / 2 % 2);
            MPI_Datatype type = step == 2 ? gapped : MPI_INT;
            const void *sums = in_place ? MPI_IN_PLACE : mine;
            MPI_Request request;
            check_where("seed %u, call %d of kind %d, %d elements, root %d, step %d", seed, call, kind, count, root, step);
            if (own / 4 % 64 == 0) usleep(own / 256 % 200);
            switch (kind) {
            case 0: CHECK_OK(MPI_Barrier(comm)); break;
            case 1:
                fill(got, step, 1, count, call);
                CHECK_OK(MPI_Bcast(got, count, type, root, comm));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i * step], value(root, 0, i, call));
                break;
            case 2:
                fill(mine, step, 1, count, call);
                CHECK_OK(MPI_Gather(mine, count, type, got, count, MPI_INT, root, comm));
                for (int i = 0; rank == root && i < size * count; i++)
                    CHECK_EQ(got[i], value(i / count, 0, i % count, call));
                break;
            case 3:
                fill(mine, 1, size, count, call);
                CHECK_OK(MPI_Scatter(mine, count, MPI_INT, got, count, type, root, comm));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i * step], value(root, rank, i, call));
                break;
            case 4:
                fill(mine, 1, 1, count, call);
                memcpy(got, mine, sizeof got);
                CHECK_OK(MPI_Reduce(rank == root ? sums : mine, got, count, MPI_INT, MPI_SUM, root, comm));
                for (int i = 0; rank == root && i < count; i++) CHECK_EQ(got[i], sum(0, i, call));
                break;
            case 5:
                fill(mine, 1, 1, count, call);
                memcpy(got, mine, sizeof got);
                CHECK_OK(MPI_Allreduce(sums, got, count, MPI_INT, MPI_SUM, comm));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, i, call));
                break;
            case 6:
                fill(mine, step, 1, count, call);
                CHECK_OK(MPI_Allgather(mine, count, type, got, count, MPI_INT, comm));
                for (int i = 0; i < size * count; i++) CHECK_EQ(got[i], value(i / count, 0, i % count, call));
                break;
            case 7:
                fill(mine, 1, size, count, call);
                CHECK_OK(MPI_Alltoall(mine, count, MPI_INT, got, count, type, comm));
                for (int i = 0; i < size * count; i++) CHECK_EQ(got[i * step], value(i / count, rank, i % count, call));
                break;
            case 8:
                fill(mine, 1, size, count, call);
                memcpy(got, mine, sizeof got);
                CHECK_OK(MPI_Reduce_scatter_block(sums, got, count, MPI_INT, MPI_SUM, comm));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(rank, i, call));
                break;
            default:
                fill(mine, 1, 1, count, call);
                CHECK_OK(MPI_Iallreduce(mine, got, count, MPI_INT, MPI_SUM, comm, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, i, call));
            }
        }
        /* So that the next one has its section. */
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK_OK(MPI_Type_free(&gapped));
    return check_end();
}
