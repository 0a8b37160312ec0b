// ranks: 1 2 4 7
// transports: all
// every day: lamd
/* A forked child of a rank is not the rank: MPI refuses it, and the rank and its job go on. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

/* A call of the child before exit code 0: MPI must end it with an error. */
static void child_does(void (*what)(void), const char *name)
{
    int status = 0;
    check_where("%s in a child", name);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        freopen("/dev/null", "w", stderr); /* the refusal is expected */
        what();
        _exit(0);
    }
    CHECK(child > 0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0);
}

static void sends(void)
{
    int x = 99;
    MPI_Send(&x, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD);
}

static void finalizes(void)
{
    MPI_Finalize();
}

static void aborts(void)
{
    MPI_Abort(MPI_COMM_WORLD, 9);
}

static void round_the_ring(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < 10; i++) {
        int out = 100 * rank + i, in = -1;
        MPI_Status status;
        CHECK_OK(MPI_Sendrecv(&out, 1, MPI_INT, to, 5, &in, 1, MPI_INT, from, 5, MPI_COMM_WORLD, &status));
        CHECK_EQ(in, 100 * from + i);
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int flag = -1;
    round_the_ring();
    child_does(sends, "MPI_Send");
    round_the_ring();
    child_does(finalizes, "MPI_Finalize");
    child_does(aborts, "MPI_Abort");
    CHECK_OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 1);
    round_the_ring();
    return check_end();
}
