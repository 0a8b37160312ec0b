/* A program that saves its state by its own functions ('cr self'). Each round adds a sum over
 * all ranks, which rank 0 prints at intervals. The sums after all rounds are saved, because
 * ranks may be some rounds apart; they go on after the last round that all have. own_checkpoint
 * returns 7 if the file "refuse" exists, and calls MPI if "call" exists. Arguments: rounds,
 * microseconds of a round. */
#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long last, sums[10000];
static int rank = -1;

static const char *name(char *into, const char *end)
{
    sprintf(into, "own.%d%s", rank, end);
    return into;
}

int own_checkpoint(void)
{
    char path[64];
    if (access("refuse", F_OK) == 0 && rank == 1) return 7;
    if (access("call", F_OK) == 0) {
        char text[MPI_MAX_ERROR_STRING];
        int length, size, code = MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (code == MPI_SUCCESS) return 8;
        MPI_Error_string(code, text, &length);
        printf("refused: %s\n", text);
        fflush(stdout);
        return 9;
    }
    FILE *file = fopen(name(path, ".new"), "w");
    if (!file) return 1;
    pthread_mutex_lock(&lock);
    fprintf(file, "%ld\n", last);
    for (long at = 0; at <= last; at++) fprintf(file, "%ld\n", sums[at]);
    pthread_mutex_unlock(&lock);
    return fclose(file) == 0 ? 0 : 2;
}

int own_continue(void)
{
    char from[64], to[64];
    return rename(name(from, ".new"), name(to, ""));
}

int own_restart(void)
{
    char path[64];
    int number = atoi(getenv("OXMPI_COMM_WORLD_RANK"));
    rank = number;
    /* After --kill own_continue was not called. */
    FILE *file = fopen(name(path, ".new"), "r");
    if (!file) file = fopen(name(path, ""), "r");
    if (!file) return 3;
    long read = fscanf(file, "%ld", &last) - 1;
    for (long at = 0; at <= last; at++) read += fscanf(file, "%ld", &sums[at]);
    fclose(file);
    return read == last + 1 ? 0 : 4;
}

int main(int argc, char **argv)
{
    int size, level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long rounds = atol(argv[1]), common;
    MPI_Allreduce(&last, &common, 1, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
    last = common;
    if (rank == 0) printf("begins after round %ld, level %d\n", common, level >= MPI_THREAD_SERIALIZED);
    fflush(stdout);
    for (long round = common + 1; round <= rounds; round++) {
        long mine = round * (rank + 1), all;
        MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        usleep(atoi(argv[2]));
        pthread_mutex_lock(&lock);
        sums[round] = sums[last] + all;
        last = round;
        pthread_mutex_unlock(&lock);
        if (rank == 0 && round % 100 == 0) {
            printf("round %ld\n", round);
            fflush(stdout);
        }
    }
    if (rank == 0) printf("sum %ld\n", sums[last]);
    MPI_Finalize();
    return 0;
}

/* The name of OWN_SAVE from a Fortran compiler. */
int own_save_(void)
{
    return own_checkpoint();
}
