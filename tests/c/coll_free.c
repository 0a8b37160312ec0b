// ranks: 1 2 4 7
// transports: all
/* A communicator freed during collectives on it: they complete as before (MPI-5.0 section
 * 7.4.3). */
#include "check.h"

enum { ROUNDS = 200, LENGTH = 100000, KINDS = 5 };

static void add(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *n; i++) ((int *) inout)[i] += ((int *) in)[i];
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int *words = allocate(LENGTH * sizeof *words), rounds = scaled(ROUNDS);
    MPI_Op user;
    CHECK_OK(MPI_Op_create(add, 1, &user));
    for (int round = 0; round < rounds; round++) {
        MPI_Comm copy;
        MPI_Request requests[KINDS - 1];
        int root = round % size, mine = rank + round, sum = -1, user_sum = -1, count = 0;
        /* Each on its own communicator, and for the last kind all together. */
        int kind = round % KINDS, together = kind == KINDS - 1;
        check_where("round %d, kind %d", round, kind);
        for (int i = 0; i < LENGTH; i++) words[i] = rank == root ? round + i : -1;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
        if (together || kind == 0)
            CHECK_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, copy, &requests[count++]));
        if (together || kind == 1)
            CHECK_OK(MPI_Iallreduce(&mine, &user_sum, 1, MPI_INT, user, copy, &requests[count++]));
        if (together || kind == 2) CHECK_OK(MPI_Ibarrier(copy, &requests[count++]));
        if (together || kind == 3) CHECK_OK(MPI_Ibcast(words, LENGTH, MPI_INT, root, copy, &requests[count++]));
        CHECK_OK(MPI_Comm_free(&copy));
        CHECK(copy == MPI_COMM_NULL);
        CHECK_OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        int want = size * (size - 1) / 2 + size * round;
        if (together || kind == 0) CHECK_EQ(sum, want);
        if (together || kind == 1) CHECK_EQ(user_sum, want);
        for (int i = 0; i < LENGTH && (together || kind == 3); i++)
            if (!CHECK_EQ(words[i], round + i)) break;
    }
    CHECK_OK(MPI_Op_free(&user));
    free(words);
    return check_end();
}
