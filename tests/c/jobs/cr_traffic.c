/* Random checked traffic: messages of many lengths in two modes and two layouts on a duplicate
 * communicator, while nonblocking collectives are pending; puts into a window; blocks of a file,
 * and its shared file pointer. Rank 0 prints the checksum of the received data at intervals, and
 * "whole" at the end if nothing was lost, doubled or changed. Arguments: rounds, seed, file,
 * exit code. With "own:" before the file name each rank opens the file by itself; with
 * "private:" each has only its own blocks there. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RANKS = 16, LONGEST = 400000, BLOCK = 512, CELLS = 64, SAY = 10, KEY = 4711 };

static const int lengths[] = {0, 8, 300, 5000, 70000, LONGEST};
static unsigned char *outgoing[MAX_RANKS], *incoming[MAX_RANKS];
static int rank, size;
static unsigned long sum;

static void need(int is, const char *what, int round)
{
    if (is) return;
    printf("rank %d, round %d: wrong %s\n", rank, round, what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static unsigned next_random(unsigned long *state)
{
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned) (*state >> 33);
}

static unsigned char content(int from, int to, int round, int at)
{
    return (unsigned char) (from * 31 + to * 17 + round * 7 + at * 3 + at / 251);
}

static void messages(MPI_Comm comm, int round, unsigned long *state, MPI_Datatype gaps)
{
    MPI_Request requests[2 * MAX_RANKS + 2];
    int count = 0, lens[MAX_RANKS], with_gaps[MAX_RANKS];
    long ones = rank + round, total = 0, word = rank == round % size ? round * 3 : 0;
    MPI_Iallreduce(&ones, &total, 1, MPI_LONG, MPI_SUM, comm, &requests[count++]);
    MPI_Ibcast(&word, 1, MPI_LONG, round % size, comm, &requests[count++]);
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++) {
            int len = lengths[next_random(state) % 6], mode = next_random(state) % 2;
            int in_gaps = next_random(state) % 4 == 0 && len >= 16;
            if (from == to) continue;
            if (to == rank) {
                lens[from] = len;
                with_gaps[from] = in_gaps;
                memset(incoming[from], 0, LONGEST);
                if (in_gaps) MPI_Irecv(incoming[from], len / 16, gaps, from, round, comm, &requests[count++]);
                else MPI_Irecv(incoming[from], len, MPI_BYTE, from, round, comm, &requests[count++]);
            }
            if (from == rank) {
                for (int at = 0; at < len; at++) outgoing[to][at] = content(from, to, round, at);
                MPI_Datatype type = in_gaps ? gaps : MPI_BYTE;
                int n = in_gaps ? len / 16 : len;
                if (mode == 0) MPI_Isend(outgoing[to], n, type, to, round, comm, &requests[count++]);
                else MPI_Issend(outgoing[to], n, type, to, round, comm, &requests[count++]);
            }
        }
    usleep(next_random(state) % 3000);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    need(total == (long) size * (size - 1) / 2 + (long) round * size, "sum of a nonblocking collective", round);
    need(word == round * 3, "word of a nonblocking broadcast", round);
    for (int from = 0; from < size; from++) {
        if (from == rank) continue;
        for (int at = 0; at < lens[from]; at++) {
            int is_gap = with_gaps[from] && (at % 16 >= 8 || at / 16 >= lens[from] / 16);
            need(incoming[from][at] == (is_gap ? 0 : content(from, rank, round, at)), "message", round);
            sum = sum * 31 + incoming[from][at];
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rounds = argc > 1 ? atoi(argv[1]) : 100, key, found, *value = NULL, mark = KEY;
    unsigned long state = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    for (int peer = 0; peer < size; peer++) {
        outgoing[peer] = malloc(LONGEST);
        incoming[peer] = malloc(LONGEST);
    }
    MPI_Datatype gaps, eight;
    MPI_Type_contiguous(8, MPI_BYTE, &eight);
    MPI_Type_create_resized(eight, 0, 16, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(comm, key, &mark);
    long *cells;
    MPI_Win window;
    MPI_Win_allocate(CELLS * sizeof(long), sizeof(long), MPI_INFO_NULL, comm, &cells, &window);
    MPI_File file;
    const char *name = argc > 3 ? argv[3] : "cr_traffic.data";
    int private = strncmp(name, "private:", 8) == 0, alone = private || strncmp(name, "own:", 4) == 0;
    MPI_File_open(alone ? MPI_COMM_SELF : comm, alone ? strchr(name, ':') + 1 : name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    printf("rank %d %d\n", rank, (int) getpid());
    fflush(stdout);
    MPI_Barrier(comm);
    for (int round = 1; round <= rounds; round++) {
        messages(comm, round, &state, gaps);
        long puts[CELLS];
        for (int at = 0; at < CELLS; at++) puts[at] = round * 100000l + rank * 100 + at;
        MPI_Win_fence(0, window);
        MPI_Put(puts, CELLS, MPI_LONG, (rank + 1) % size, 0, CELLS, MPI_LONG, window);
        MPI_Win_fence(0, window);
        int left = (rank + size - 1) % size;
        for (int at = 0; at < CELLS; at++)
            need(cells[at] == round * 100000l + left * 100 + at, "put", round);
        unsigned char block[BLOCK];
        for (int at = 0; at < BLOCK; at++) block[at] = content(rank, 99, round, at);
        MPI_File_write_at(file, ((MPI_Offset) (round - 1) * size + rank) * BLOCK, block, BLOCK, MPI_BYTE,
                          MPI_STATUS_IGNORE);
        unsigned char first;
        MPI_File_read_shared(file, &first, 1, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_Comm_get_attr(comm, key, &value, &found);
        need(found && *value == KEY, "attribute", round);
        if (rank == 0 && round % SAY == 0) {
            printf("round %d sum %lx\n", round, sum);
            fflush(stdout);
        }
    }
    MPI_File_sync(file);
    MPI_Barrier(comm);
    MPI_Offset position;
    MPI_File_get_position_shared(file, &position);
    if (position != (MPI_Offset) rounds * (alone ? 1 : size))
        printf("rank %d: the shared file pointer is at %lld of %lld\n", rank, (long long) position, (long long) rounds * size);
    need(position == (MPI_Offset) rounds * (alone ? 1 : size), "shared file pointer", rounds);
    MPI_Barrier(comm);
    for (int round = 1; round <= rounds; round++)
        for (int from = 0; from < size; from++) {
            unsigned char block[BLOCK];
            if (private && from != rank) continue;
            MPI_File_read_at(file, ((MPI_Offset) (round - 1) * size + from) * BLOCK, block, BLOCK, MPI_BYTE,
                             MPI_STATUS_IGNORE);
            for (int at = 0; at < BLOCK; at++) need(block[at] == content(from, 99, round, at), "block of the file", round);
        }
    MPI_File_close(&file);
    MPI_Win_free(&window);
    MPI_Comm_free(&comm);
    if (rank == 0) printf("whole, sum %lx\n", sum);
    MPI_Finalize();
    return argc > 4 ? atoi(argv[4]) : 0;
}
