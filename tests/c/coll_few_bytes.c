// ranks: 2 3
// transports: all
// not over: gm, because it makes more calls than the emulation has time for
/* Collectives of up to 12 bytes in any order, with any roots, on the fast path of short ones,
 * and sometimes during a nonblocking collective, which disables the fast path. Single ranks
 * leave it too: with a datatype with a gap, late, or in place. */
#include "check.h"

#include <unistd.h>

enum { MOST = 3, CALLS = 20000 };

static MPI_Datatype gapped; /* an int and a gap of the same length */

static int value(int from, int to, int i, int call) { return 1 + from * 1009 + to * 101 + i * 11 + call * 3; }

static int sum(int from, int until, int to, int i, int call)
{
    int total = 0;
    for (int r = from; r < until; r++) total += value(r, to, i, call);
    return total;
}

static void fill(int *at, int step, int blocks, int count, int call)
{
    for (int i = 0; i < blocks * count; i++) at[i * step] = value(rank, i / count, i % count, call);
}

/* The first collectives of a communicator, whose memory is not mapped yet, and of an operation. */
static void first_of_all(void)
{
    for (int kind = 0; kind < 4; kind++) {
        MPI_Comm comm;
        double given[3] = {1 + rank, 10 + rank, 100 + rank}, got[3] = {-1, -1, -1};
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        check_where("first collective of kind %d", kind);
        MPI_Op op = kind % 2 ? MPI_MAX : MPI_SUM;
        double wanted[3], rest = given[1];
        for (int b = 0, power = 1; b < 3; b++, power *= 10)
            wanted[b] = op == MPI_MAX ? power + size - 1 : power * size + size * (size - 1) / 2;
        if (kind < 2) {
            CHECK_OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, given, 1, MPI_DOUBLE, op, comm));
            CHECK(given[0] == wanted[rank]);
            CHECK(rank == 1 || given[1] == rest);
        } else {
            CHECK_OK(MPI_Reduce(rank ? given : MPI_IN_PLACE, rank ? got : given, 1, MPI_DOUBLE, op, 0, comm));
            CHECK(rank || (given[0] == wanted[0] && given[1] == rest));
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    first_of_all();
    for (unsigned seed = 1; seed <= 3; seed++) {
        MPI_Comm comm;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int call = 0; call < CALLS; call++) {
            unsigned all = drawn(seed, (unsigned) call, 0), own = drawn(seed, (unsigned) call, 1 + (unsigned) rank);
            int mine[2 * MOST * 3], got[2 * MOST * 3], root = (int) (all % (unsigned) size);
            int kind = (int) (all / 8 % 11), count = 1 + (int) (all / 128 % MOST);
            int step = 1 + (int) (own % 2), in_place = (int) (own / 2 % 2);
            MPI_Datatype type = step == 2 ? gapped : MPI_INT;
            const void *sums = in_place ? MPI_IN_PLACE : mine;
            int later = all / 512 % 4 == 0, number = rank + call, numbers = 0;
            MPI_Request request = MPI_REQUEST_NULL;
            check_where("seed %u, call %d of kind %d, %d elements, root %d, step %d", seed, call, kind, count, root, step);
            if (own / 4 % 64 == 0) usleep(own / 256 % 200);
            if (later) CHECK_OK(MPI_Iallreduce(&number, &numbers, 1, MPI_INT, MPI_SUM, comm, &request));
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
                for (int i = 0; rank == root && i < count; i++) CHECK_EQ(got[i], sum(0, size, 0, i, call));
                break;
            case 5:
                fill(mine, 1, 1, count, call);
                memcpy(got, mine, sizeof got);
                CHECK_OK(MPI_Allreduce(sums, got, count, MPI_INT, MPI_SUM, comm));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, size, 0, i, call));
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
                for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, size, rank, i, call));
                break;
            case 9:
                fill(mine, 1, 1, count, call);
                memcpy(got, mine, sizeof got);
                CHECK_OK(MPI_Scan(sums, got, count, MPI_INT, MPI_SUM, comm));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i], sum(0, rank + 1, 0, i, call));
                break;
            default:
                fill(mine, 1, 1, count, call);
                memcpy(got, mine, sizeof got);
                CHECK_OK(MPI_Exscan(sums, got, count, MPI_INT, MPI_SUM, comm));
                for (int i = 0; i < count; i++) CHECK_EQ(got[i], rank == 0 ? mine[i] : sum(0, rank, 0, i, call));
            }
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (later) CHECK_EQ(numbers, size * call + size * (size - 1) / 2);
        }
        /* So that the next communicator gets its section. */
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK_OK(MPI_Type_free(&gapped));
    return check_end();
}
