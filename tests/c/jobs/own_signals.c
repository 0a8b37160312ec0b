/* A program with its own handlers (`keep`), or one that crashes (`crash`). A library that
 * MPI_Init loads must not replace the handlers. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void own(int signal)
{
    _exit(40 + signal);
}

int main(int argc, char **argv)
{
    const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGINT, SIGTERM, SIGILL, SIGFPE, SIGUSR1};
    const int keeps = argc > 1 && strcmp(argv[1], "keep") == 0;
    const char *variables[] = {"IPATH_NO_BACKTRACE", "HFI_NO_BACKTRACE", "UCX_ERROR_SIGNALS"};
    int rank;
    unsigned at;
    sigset_t mask, now;

    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    if (keeps) {
        for (at = 0; at < sizeof signals / sizeof *signals; at++)
            signal(signals[at], own);
        sigprocmask(SIG_BLOCK, &mask, NULL);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (at = 0; at < sizeof signals / sizeof *signals; at++) {
        struct sigaction action;
        sigaction(signals[at], NULL, &action);
        if (action.sa_handler != (keeps ? own : SIG_DFL))
            printf("rank %d: signal %d has another handler\n", rank, signals[at]);
    }
    for (at = 0; at < sizeof variables / sizeof *variables; at++)
        if (getenv(variables[at]))
            printf("rank %d: %s is set\n", rank, variables[at]);
    sigprocmask(SIG_BLOCK, NULL, &now);
    if (keeps && !sigismember(&now, SIGUSR2))
        printf("rank %d: SIGUSR2 is not blocked any more\n", rank);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!keeps && rank == 1)
        *(volatile int *)8 = 1;
    MPI_Finalize();
    printf("rank %d is done\n", rank);
    return 0;
}
