/* Every rank exchanges messages of all lengths with every other one, some received a round late,
 * while another process ends all connections repeatedly. Rank 0 prints "remade N" each time that
 * all have been made anew, up to the number in the first argument; then "whole" if nothing was
 * lost, doubled or changed. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTHS = 6, LATE = 3 };

static const int lengths[LENGTHS] = {0, 8, 5000, 65536, 300000, 1500000};
static int rank, size;
static long wrong;

static unsigned char content(int from, int to, long turn, int at)
{
    return (unsigned char) (from * 31 + to * 17 + turn * 7 + at * 3 + at / 251);
}

static void fill(unsigned char *data, int len, int from, int to, long turn)
{
    for (int i = 0; i < len; i++) data[i] = content(from, to, turn, i);
}

static void check(const unsigned char *data, int len, int from, long turn)
{
    for (int i = 0; i < len; i++)
        if (data[i] != content(from, rank, turn, i)) {
            wrong++;
            return;
        }
}

static long long remade(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;
    if (MPI_T_pvar_read(session, handle, &value) != MPI_SUCCESS) wrong++;
    return (long long) value;
}

int main(int argc, char **argv)
{
    int provided, index, count;
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long times = argc > 1 ? atol(argv[1]) : 1, each = (long) size * (size - 1), said = 0;

    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    MPI_T_pvar_session_create(&session);
    if (MPI_T_pvar_get_index("tcp_connections_remade", MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS
        || MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) != MPI_SUCCESS || count != 1) {
        printf("there is no counter of connections\n");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    /* A continuous variable need not be started. */
    MPI_T_pvar_start(session, handle);
    long long before = remade(session, handle);

    int longest = lengths[LENGTHS - 1];
    unsigned char *out = malloc((size_t) longest * size), *in = malloc((size_t) longest * size);
    unsigned char *late = malloc((size_t) lengths[LATE] * size), *got = malloc((size_t) lengths[LATE]);
    MPI_Request *requests = malloc(sizeof(MPI_Request) * 3 * size);
    for (long turn = 0;; turn++) {
        int len = lengths[turn % LENGTHS], n = 0;
        for (int peer = 0; peer < size; peer++) {
            if (peer == rank) continue;
            unsigned char *to = out + (size_t) peer * longest, *hidden = late + (size_t) peer * lengths[LATE];
            fill(to, len, rank, peer, turn);
            fill(hidden, lengths[LATE], rank, peer, turn);
            MPI_Irecv(in + (size_t) peer * longest, longest, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[n++]);
            MPI_Isend(to, len, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[n++]);
            /* There is no receive for this message. */
            MPI_Isend(hidden, lengths[LATE], MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[n++]);
        }
        long long mine = remade(session, handle) - before, all;
        MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        for (int peer = 0; peer < size; peer++) {
            if (peer == rank) continue;
            MPI_Recv(got, lengths[LATE], MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(got, lengths[LATE], peer, turn);
        }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int peer = 0; peer < size; peer++)
            if (peer != rank) check(in + (size_t) peer * longest, len, peer, turn);
        if (turn == 0) {
            printf("rank %d %d\n", rank, (int) getpid());
            fflush(stdout);
        }
        if (rank == 0 && all >= (said + 1) * each) {
            printf("remade %ld\n", ++said);
            fflush(stdout);
        }
        if (all >= times * each) break;
    }
    long all_wrong = 0;
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf(all_wrong ? "%ld messages are wrong\n" : "whole\n", all_wrong);
    free(requests);
    free(got);
    free(late);
    free(in);
    free(out);
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
