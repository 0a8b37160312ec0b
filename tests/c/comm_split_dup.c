// ranks: 1 2 4 7
// transports: all
// every day: nodes
/* Communicators: split, dup, free; their messages and collectives never mix. */
#include "check.h"

static void ranks_of(MPI_Comm comm, int *me, int *members)
{
    CHECK_OK(MPI_Comm_rank(comm, me));
    CHECK_OK(MPI_Comm_size(comm, members));
}

static void members_of(MPI_Comm comm, int *world_ranks)
{
    CHECK_OK(MPI_Allgather(&rank, 1, MPI_INT, world_ranks, 1, MPI_INT, comm));
}

static void use(MPI_Comm comm)
{
    int me, n, got = -1, sum = -1;
    ranks_of(comm, &me, &n);
    MPI_Status status;
    CHECK_OK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 1, &got, 1, MPI_INT, (me + n - 1) % n, 1, comm, &status));
    CHECK_EQ(got, (me + n - 1) % n);
    CHECK_STATUS(&status, (me + n - 1) % n, 1, 4);
    CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, n * (n - 1) / 2);
}

static void predefined(void)
{
    int me, n;
    check_where("MPI_COMM_SELF");
    ranks_of(MPI_COMM_SELF, &me, &n);
    CHECK_EQ(me, 0);
    CHECK_EQ(n, 1);
    use(MPI_COMM_SELF);
}

static void split_by_colour(int colours)
{
    check_where("%d colours", colours);
    MPI_Comm part;
    int me, n, *members = allocate(size * sizeof *members);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % colours, 0, &part));
    ranks_of(part, &me, &n);
    CHECK_EQ(me, rank / colours);
    CHECK_EQ(n, (size - rank % colours + colours - 1) / colours);
    members_of(part, members);
    for (int i = 0; i < n; i++) CHECK_EQ(members[i], rank % colours + i * colours);
    use(part);
    CHECK_OK(MPI_Comm_free(&part));
    CHECK(part == MPI_COMM_NULL);
    free(members);
}

/* The key orders, ties are in the old order; keys may be negative; colours may be any number >=
 * 0. */
static void split_by_key(void)
{
    MPI_Comm part;
    int me, n, *members = allocate(size * sizeof *members);
    check_where("reversed keys");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 2147483647, -rank, &part));
    ranks_of(part, &me, &n);
    CHECK_EQ(n, size);
    CHECK_EQ(me, size - 1 - rank);
    members_of(part, members);
    for (int i = 0; i < n; i++) CHECK_EQ(members[i], size - 1 - i);
    use(part);

    check_where("split of the reversed one");
    MPI_Comm again;
    CHECK_OK(MPI_Comm_split(part, 0, 5, &again)); /* equal keys: the order in `part` */
    int me_again;
    ranks_of(again, &me_again, &n);
    CHECK_EQ(me_again, me);
    use(again);
    CHECK_OK(MPI_Comm_free(&again));

    check_where("half before half");
    CHECK_OK(MPI_Comm_split(part, 3, rank % 2, &again)); /* even world ranks first, each half in the order of `part` */
    members_of(again, members);
    for (int i = 1; i < n; i++)
        CHECK(members[i - 1] % 2 < members[i] % 2 || (members[i - 1] % 2 == members[i] % 2 && members[i - 1] > members[i]));
    use(again);
    CHECK_OK(MPI_Comm_free(&part)); /* before its children */
    use(again);
    CHECK_OK(MPI_Comm_free(&again));
    free(members);
}

static void split_undefined(void)
{
    MPI_Comm part;
    int me, n;
    check_where("MPI_UNDEFINED");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &part));
    if (rank == 0) {
        CHECK(part == MPI_COMM_NULL);
    } else {
        ranks_of(part, &me, &n);
        CHECK_EQ(me, rank - 1);
        CHECK_EQ(n, size - 1);
        use(part);
        CHECK_OK(MPI_Comm_free(&part));
    }
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, MPI_UNDEFINED, 0, &part));
    CHECK(part == MPI_COMM_NULL);
    use(MPI_COMM_WORLD);
}

static void nested(void)
{
    MPI_Comm levels[8];
    int depth = 0, me, n = size;
    check_where("nested");
    levels[0] = MPI_COMM_WORLD;
    /* A fixed depth: all ranks of a communicator must call the split. */
    for (depth = 1; depth < 5; depth++) {
        ranks_of(levels[depth - 1], &me, &n);
        CHECK_OK(MPI_Comm_split(levels[depth - 1], me < (n + 1) / 2 ? 0 : 1, me, &levels[depth]));
        use(levels[depth]);
    }
    ranks_of(levels[4], &me, &n);
    CHECK_EQ(n, 1);
    for (int i = depth - 1; i >= 0; i--) use(levels[i]);
    for (int i = 1; i < depth; i++) CHECK_OK(MPI_Comm_free(&levels[i]));
}

static void never_mix(void)
{
    enum { COMMS = 5 };
    MPI_Comm comms[COMMS];
    MPI_Request sends[COMMS], wild;
    int to = (rank + 1) % size, from = (rank + size - 1) % size, values[COMMS], got = -1, flag = -1;
    check_where("messages never mix");
    comms[0] = MPI_COMM_WORLD;
    for (int i = 1; i < COMMS; i++) CHECK_OK(MPI_Comm_dup(comms[i / 2], &comms[i]));
    for (int i = 0; i < COMMS; i++) {
        values[i] = 100 * rank + i;
        CHECK_OK(MPI_Isend(&values[i], 1, MPI_INT, to, 0, comms[i], &sends[i]));
    }
    for (int i = COMMS - 1; i >= 0; i--) {
        MPI_Status status;
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], &status));
        CHECK_EQ(got, 100 * from + i);
        CHECK_STATUS(&status, from, 0, 4);
    }
    CHECK_OK(MPI_Waitall(COMMS, sends, MPI_STATUSES_IGNORE));

    /* A wildcard receive in one matches no message of the others, nor of collectives. */
    int late = -1, value = 7;
    CHECK_OK(MPI_Irecv(&late, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[2], &wild));
    for (int i = 0; i < COMMS; i++) {
        use(comms[i == 2 ? 0 : i]);
        CHECK_OK(MPI_Barrier(comms[i]));
    }
    CHECK_OK(MPI_Test(&wild, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, to, 3, comms[2]));
    CHECK_OK(MPI_Wait(&wild, MPI_STATUS_IGNORE));
    CHECK_EQ(late, 7);
    for (int i = 1; i < COMMS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
}

/* Far more communicators over time than identifiers at once. */
static void many_cycles(int cycles)
{
    check_where("dup and free");
    for (int i = 0; i < cycles; i++) {
        MPI_Comm copy;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        if (i % 50 == 0) use(copy);
        CHECK_OK(MPI_Comm_free(&copy));
        if (!CHECK(copy == MPI_COMM_NULL)) return;
    }
}

static void many_alive(int alive)
{
    check_where("many alive");
    MPI_Comm *comms = allocate(alive * sizeof *comms);
    for (int i = 0; i < alive; i++) {
        if (i % 3 == 0) CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[i]));
        else CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    for (int i = 0; i < alive; i++) {
        int k = i * 37 % alive;
        if (i % 5 == 0) use(comms[k]);
    }
    for (int i = 0; i < alive; i++) CHECK_OK(MPI_Comm_free(&comms[i * 37 % alive]));
    free(comms);
}

static void free_with_pending(int bytes)
{
    check_where("free with pending traffic of %d bytes", bytes);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *out = allocate(bytes), *in = allocate(bytes);
    for (int i = 0; i < 10; i++) {
        MPI_Comm copy;
        MPI_Request requests[2];
        pattern_fill(out, bytes, rank + i);
        memset(in, 0, bytes);
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        CHECK_OK(MPI_Irecv(in, bytes, MPI_BYTE, from, 0, copy, &requests[0]));
        if (rank % 2 == 0) CHECK_OK(MPI_Isend(out, bytes, MPI_BYTE, to, 0, copy, &requests[1]));
        if (rank % 2 == 1) CHECK_OK(MPI_Issend(out, bytes, MPI_BYTE, to, 0, copy, &requests[1]));
        CHECK_OK(MPI_Comm_free(&copy));
        MPI_Comm other; /* must not take over the pending messages */
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
        int flag = -1;
        CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, other, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK_EQ(pattern_differs(in, bytes, from + i), -1);
        CHECK_OK(MPI_Comm_free(&other));
    }
    free(out);
    free(in);
}

static void free_with_pending_collective(void)
{
    MPI_Comm copy;
    MPI_Request request;
    int sum = -1;
    check_where("free with a pending collective");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    CHECK_OK(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy, &request));
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(sum, size * (size - 1) / 2);
}

static void parts_on_their_own(void)
{
    MPI_Comm part, copy, pair;
    check_where("parts on their own");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part));
    for (int i = 0; i < (rank % 2 ? 3 : 20); i++) {
        CHECK_OK(MPI_Comm_dup(part, &copy));
        use(copy);
        CHECK_OK(MPI_Comm_free(&copy));
    }
    CHECK_OK(MPI_Comm_dup(part, &copy));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &pair));
    use(pair);
    use(copy);
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Comm_free(&pair));
    CHECK_OK(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    predefined();
    for (int colours = 1; colours <= 4; colours++) split_by_colour(colours);
    split_by_key();
    split_undefined();
    nested();
    never_mix();
    many_cycles(scaled(3000));
    many_alive(scaled(100) < 7 ? 7 : 100);
    free_with_pending(40);
    free_with_pending(100000);
    free_with_pending_collective();
    parts_on_their_own();
    use(MPI_COMM_WORLD);
    return check_end();
}
