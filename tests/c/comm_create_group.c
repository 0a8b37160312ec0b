// ranks: 1 2 4 7
// transports: all
// every day: nodes lamd ofi
/* MPI_Comm_create_group: only the members call; two threads at a time, with different tags. */
#include "comms.h"

#include <pthread.h>

static MPI_Group world;

static void halves(void)
{
    int ranks[64], n = parity(rank % 2, ranks);
    MPI_Group group;
    MPI_Comm comm;
    check_where("halves");
    CHECK_OK(MPI_Group_incl(world, n, ranks, &group));
    if (rank % 2 == 1) { /* the even ranks do not take part */
        CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &comm));
        CHECK_MEMBERS(comm, ranks, n);
        use(comm);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 2147483647, &comm));
    CHECK_MEMBERS(comm, ranks, n);
    use(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Group_free(&group));
}

/* One after another with the same tag, in overlapping groups, while wildcard receives and a
 * collective are open. */
static void overlapping(void)
{
    int got = -1, sum = -1, one = 1, flag = -1;
    MPI_Request wild, all;
    check_where("overlapping");
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &wild));
    CHECK_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &all));
    for (int from = 0; from < size; from++) {
        int range[1][3] = {{size - 1, from, -1}}, want[64];
        MPI_Group group;
        MPI_Comm comm = MPI_COMM_WORLD;
        if (rank < from) break;
        CHECK_OK(MPI_Group_range_incl(world, 1, range, &group));
        CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm));
        for (int i = 0; i < size - from; i++) want[i] = size - 1 - i;
        CHECK_MEMBERS(comm, want, size - from);
        use(comm);
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Group_free(&group));
    }
    CHECK_OK(MPI_Test(&wild, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Wait(&all, MPI_STATUS_IGNORE));
    CHECK_EQ(sum, size);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&wild, MPI_STATUS_IGNORE));
    CHECK_EQ(got, (rank + size - 1) % size);
}

enum { ROUNDS = 40, THREADS = 3 };

static void *of_a_thread(void *argument)
{
    int number = *(int *) argument;
    int range[1][3] = {{0, size - 1, 1}}, turned[1][3] = {{size - 1, 0, -1}};
    for (int i = 0; i < scaled(ROUNDS); i++) {
        MPI_Group group;
        MPI_Comm comm;
        int n = -1, me = -1, sum = -1;
        CHECK_OK(MPI_Group_range_incl(world, 1, (i + number) % 2 ? range : turned, &group));
        CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, number, &comm));
        CHECK_OK(MPI_Comm_size(comm, &n));
        CHECK_OK(MPI_Comm_rank(comm, &me));
        CHECK_EQ(n, size);
        CHECK_EQ(me, (i + number) % 2 ? rank : size - 1 - rank);
        int value = 100 * number + i;
        CHECK_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, size * value); /* no member of another thread's group */
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Group_free(&group));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t running[THREADS];
    int numbers[THREADS];
    check_where("threads");
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        CHECK(pthread_create(&running[t], NULL, of_a_thread, &numbers[t]) == 0);
    }
    for (int t = 0; t < THREADS; t++) CHECK(pthread_join(running[t], NULL) == 0);
}

static void arguments(void)
{
    MPI_Comm comm = MPI_COMM_SELF, self;
    MPI_Group others;
    check_where("arguments");
    CHECK_CLASS(MPI_Comm_create_group(MPI_COMM_WORLD, world, -1, &comm), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Comm_create_group(MPI_COMM_WORLD, world, MPI_ANY_TAG, &comm), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Comm_create_group(MPI_COMM_NULL, world, 0, &comm), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_NULL, 0, &comm), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create_group(MPI_COMM_WORLD, world, 0, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &self));
    if (size > 1) CHECK_CLASS(MPI_Comm_create_group(self, world, 0, &comm), MPI_ERR_GROUP);
    CHECK_OK(MPI_Comm_free(&self));
    CHECK(comm == MPI_COMM_SELF);
    CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_EMPTY, 0, &comm));
    CHECK(comm == MPI_COMM_NULL);
    CHECK_OK(MPI_Group_excl(world, 1, &rank, &others)); /* without the caller */
    comm = MPI_COMM_SELF;
    CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, others, 0, &comm));
    CHECK(comm == MPI_COMM_NULL);
    if (others != MPI_GROUP_EMPTY) CHECK_OK(MPI_Group_free(&others));
}

int main(int argc, char **argv)
{
    int provided = -1;
    check_watch();
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    check_ranks();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    return_all_errors();
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    halves();
    overlapping();
    threads();
    arguments();
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
