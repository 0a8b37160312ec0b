// ranks: 1 2 4 7
// transports: all
// every day: usysv sysv
/* Every persistent collective of one group, started again and again with other contents each
 * time, also in place. */
#include "check.h"

enum { ROUNDS = 5, LONGEST = 40000 };

static void run(MPI_Request *request, int round)
{
    MPI_Request before = *request;
    int flag = 0, index = -1, count = -1;
    MPI_Status status;
    memset(&status, 0x5a, sizeof status);
    CHECK_OK(round % 2 ? MPI_Startall(1, request) : MPI_Start(request));
    switch (round % 5) {
    case 0: CHECK_OK(MPI_Wait(request, &status)); break;
    case 1:
        while (!flag) CHECK_OK(MPI_Test(request, &flag, &status));
        break;
    case 2: CHECK_OK(MPI_Waitany(1, request, &index, &status)); break;
    case 3: CHECK_OK(MPI_Waitsome(1, request, &count, &index, &status)); break;
    default: CHECK_OK(MPI_Waitall(1, request, &status));
    }
    CHECK(*request == before);
    int bytes = -1;
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &bytes));
    CHECK_EQ(bytes, 0);
}

static int mine[LONGEST * 8], all[LONGEST * 8];

static int value(int from, int to, int round, int i) { return from * 1000003 + to * 10007 + round * 101 + i; }

static void fill(int count, int round)
{
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) mine[r * count + i] = value(rank, r, round, i);
    memset(all, 0xff, sizeof all);
}

static void movements(int count)
{
    MPI_Request request;
    int root = size - 1;
    check_where("count %d", count);

    CHECK_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) run(&request, round);
    CHECK_OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);

    CHECK_OK(MPI_Bcast_init(all, count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < count; i++) all[i] = rank == root ? value(root, 0, round, i) : -1;
        run(&request, round);
        for (int i = 0; i < count; i++)
            if (!CHECK_EQ(all[i], value(root, 0, round, i))) return;
    }
    CHECK_OK(MPI_Request_free(&request));

    CHECK_OK(MPI_Gather_init(mine, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(count, round);
        run(&request, round);
        for (int r = 0; r < size && rank == root; r++)
            for (int i = 0; i < count; i++)
                if (!CHECK_EQ(all[r * count + i], value(r, 0, round, i))) return;
    }
    CHECK_OK(MPI_Request_free(&request));

    CHECK_OK(MPI_Scatter_init(mine, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(count, round);
        run(&request, round);
        for (int i = 0; i < count; i++)
            if (!CHECK_EQ(all[i], value(root, rank, round, i))) return;
    }
    CHECK_OK(MPI_Request_free(&request));

    CHECK_OK(MPI_Allgather_init(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(count, round);
        run(&request, round);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < count; i++)
                if (!CHECK_EQ(all[r * count + i], value(r, 0, round, i))) return;
    }
    CHECK_OK(MPI_Request_free(&request));

    CHECK_OK(MPI_Alltoall_init_c(mine, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(count, round);
        run(&request, round);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < count; i++)
                if (!CHECK_EQ(all[r * count + i], value(r, rank, round, i))) return;
    }
    CHECK_OK(MPI_Request_free(&request));

    /* In place: the block of each rank is at the place of the result. */
    CHECK_OK(MPI_Alltoall_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < ROUNDS; round++) {
        fill(count, round);
        memcpy(all, mine, sizeof(int) * (size_t) (count * size));
        run(&request, round);
        for (int r = 0; r < size; r++)
            for (int i = 0; i < count; i++)
                if (!CHECK_EQ(all[r * count + i], value(r, rank, round, i))) return;
    }
    CHECK_OK(MPI_Request_free(&request));
}

static long long sum_of(int ranks, int to, int round, int i)
{
    long long sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, to, round, i);
    return (int) sum;
}

static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void) type;
    unsigned *left = in, *right = inout;
    for (int i = 0; i < *len; i++) {
        right[2 * i + 1] += left[2 * i + 1] * right[2 * i];
        right[2 * i] *= left[2 * i];
    }
}

static void reductions(int count)
{
    MPI_Request request;
    int root = 0, counts[8];
    check_where("reductions, count %d", count);
    for (int r = 0; r < size; r++) counts[r] = count;

    for (int in_place = 0; in_place < 2; in_place++) {
        const void *input = in_place && rank == root ? MPI_IN_PLACE : mine;
        CHECK_OK(MPI_Reduce_init(input, all, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        for (int round = 0; round < ROUNDS; round++) {
            fill(count, round);
            if (in_place) memcpy(all, mine, sizeof(int) * (size_t) count);
            run(&request, round);
            for (int i = 0; i < count && rank == root; i++)
                if (!CHECK_EQ(all[i], sum_of(size, 0, round, i))) return;
        }
        CHECK_OK(MPI_Request_free(&request));

        input = in_place ? MPI_IN_PLACE : mine;
        CHECK_OK(MPI_Allreduce_init(input, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        for (int round = 0; round < ROUNDS; round++) {
            fill(count, round);
            if (in_place) memcpy(all, mine, sizeof(int) * (size_t) count);
            run(&request, round);
            for (int i = 0; i < count; i++)
                if (!CHECK_EQ(all[i], sum_of(size, 0, round, i))) return;
        }
        CHECK_OK(MPI_Request_free(&request));

        for (int exclusive = 0; exclusive < 2; exclusive++) {
            CHECK_OK(exclusive ? MPI_Exscan_init(input, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request)
                               : MPI_Scan_init(input, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            for (int round = 0; round < ROUNDS; round++) {
                fill(count, round);
                if (in_place) memcpy(all, mine, sizeof(int) * (size_t) count);
                run(&request, round);
                for (int i = 0; i < count && rank >= exclusive; i++)
                    if (!CHECK_EQ(all[i], sum_of(rank + 1 - exclusive, 0, round, i))) return;
            }
            CHECK_OK(MPI_Request_free(&request));
        }

        for (int block = 0; block < 2; block++) {
            CHECK_OK(block ? MPI_Reduce_scatter_block_init(input, all, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request)
                           : MPI_Reduce_scatter_init(input, all, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            for (int round = 0; round < ROUNDS; round++) {
                fill(count, round);
                if (in_place) memcpy(all, mine, sizeof(int) * (size_t) (count * size));
                run(&request, round);
                for (int i = 0; i < count; i++)
                    if (!CHECK_EQ(all[i], sum_of(size, rank, round, i))) return;
            }
            CHECK_OK(MPI_Request_free(&request));
        }
    }

    /* Operation and type are freed at once: the request has its own references. */
    MPI_Op op;
    MPI_Datatype map;
    unsigned own[2], made[2];
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    CHECK_OK(MPI_Type_contiguous(2, MPI_UNSIGNED, &map));
    CHECK_OK(MPI_Type_commit(&map));
    CHECK_OK(MPI_Allreduce_init(own, made, 1, map, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Type_free(&map));
    for (int round = 0; round < ROUNDS; round++) {
        unsigned wanted[2] = {1, 0}, one = 1;
        for (int r = 0; r < size; r++) {
            unsigned next[2] = {drawn((unsigned) r, (unsigned) round, 1), drawn((unsigned) r, (unsigned) round, 2)};
            if (r == rank) memcpy(own, next, sizeof own);
            compose(wanted, next, (int *) &one, &map);
            memcpy(wanted, next, sizeof wanted);
        }
        run(&request, round);
        CHECK_EQ(made[0], wanted[0]);
        CHECK_EQ(made[1], wanted[1]);
    }
    CHECK_OK(MPI_Request_free(&request));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    static const int counts[] = {0, 1, 100, LONGEST};
    for (int n = 0; n < 4; n++) {
        movements(counts[n]);
        reductions(counts[n]);
    }
    return check_end();
}
