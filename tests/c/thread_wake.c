// ranks: 1 2 4 7
// transports: all
/* MPI_THREAD_MULTIPLE: an operation that one thread completes wakes the thread of the same rank
 * that sleeps for it. */
#include "check.h"

#include <pthread.h>
#include <unistd.h>

enum { ASLEEP_US = 50000 }; /* long enough for a waiting thread to have gone to sleep */

static MPI_Comm twin;

static void *send_to_self(void *unused)
{
    int x = 5;
    CHECK_OK(MPI_Ssend(&x, 1, MPI_INT, 0, 3, MPI_COMM_SELF));
    return unused;
}

static void *probe_self(void *unused)
{
    MPI_Status found;
    CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, 4, MPI_COMM_SELF, &found));
    CHECK_EQ(found.MPI_TAG, 4);
    return unused;
}

static void to_oneself(void)
{
    pthread_t thread;
    int got = 0, x = 7;
    check_where("send to self");
    CHECK_EQ(pthread_create(&thread, NULL, send_to_self, NULL), 0);
    usleep(ASLEEP_US);
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_EQ(got, 5);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    check_where("probe of self");
    CHECK_EQ(pthread_create(&thread, NULL, probe_self, NULL), 0);
    usleep(ASLEEP_US);
    CHECK_OK(MPI_Send(&x, 1, MPI_INT, 0, 4, MPI_COMM_SELF));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 4, MPI_COMM_SELF, MPI_STATUS_IGNORE));
}

static void slow_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void) type;
    for (int i = 0; i < *count; i++) ((int *) inout)[i] += ((int *) in)[i];
    usleep(ASLEEP_US / 5);
}

static void *receive_all(void *rounds)
{
    int x;
    for (int i = 0; i < *(int *) rounds; i++)
        CHECK_OK(MPI_Recv(&x, 1, MPI_INT, size - 1, 9, twin, MPI_STATUS_IGNORE));
    return NULL;
}

/* While one thread runs the user's function of a reduction the other waits for messages, and
 * vice versa. */
static void beside_a_user_function(void)
{
    int rounds = 8, x = 0;
    pthread_t thread;
    MPI_Op op;
    check_where("beside a user function");
    CHECK_OK(MPI_Op_create(slow_sum, 1, &op));
    if (rank == 0) CHECK_EQ(pthread_create(&thread, NULL, receive_all, &rounds), 0);
    for (int i = 0; i < rounds; i++) {
        int mine = rank + 1, sum = 0;
        MPI_Request request;
        if (rank == size - 1) usleep(ASLEEP_US / 2);
        CHECK_OK(MPI_Iallreduce(&mine, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(sum, size * (size + 1) / 2);
        if (rank == size - 1) CHECK_OK(MPI_Send(&x, 1, MPI_INT, 0, 9, twin));
    }
    if (rank == 0) CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_OK(MPI_Op_free(&op));
}

int main(int argc, char **argv)
{
    int provided = -1;
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    if (CHECK_EQ(provided, MPI_THREAD_MULTIPLE)) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
        to_oneself();
        beside_a_user_function();
        CHECK_OK(MPI_Comm_free(&twin));
    }
    return check_end();
}
