// ranks: 2
/* gm MODE, over Myrinet's GM or its emulation:
 *   protocol   prints the longest standard send that returns without a receive
 *   compute    rank 1 computes for 3 s while rank 0 sends it many messages; all arrive in order
 *   flood      all ranks send to rank 0 in this way
 *   silent     a port is cut off while rank 1 receives; rank 0 sends and prints the error
 *   moved      rank 0 sends rank 1 long messages, and prints the MiB that were put, got and copied;
 *              in memory of MPI_Alloc_mem with 'allocated'
 *   spawn      spawns a process */
#include "../mpit.h"

#include <mpi-ext.h>

#include <time.h>
#include <unistd.h>

enum { MANY = 400 };

static void compute(double seconds)
{
    struct timespec from, now;
    clock_gettime(CLOCK_MONOTONIC, &from);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double) (now.tv_sec - from.tv_sec) + 1e-9 * (double) (now.tv_nsec - from.tv_nsec) < seconds);
}

static int leaves(int length)
{
    static char data[1 << 17];
    MPI_Request request;
    int is_done = 0;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        CHECK_OK(MPI_Isend(data, length, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request));
        for (int i = 0; i < 200 && !is_done; i++) {
            CHECK_OK(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
            usleep(1000);
        }
        CHECK_OK(MPI_Ssend(data, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else if (rank == 1) {
        CHECK_OK(MPI_Recv(data, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Recv(data, length, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Bcast(&is_done, 1, MPI_INT, 0, MPI_COMM_WORLD));
    return is_done;
}

static void protocol(void)
{
    int low = 0, high = 1 << 17;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (leaves(middle)) low = middle;
        else high = middle;
    }
    if (rank == 0) printf("%d bytes leave\n", low);
}

/* Rank 0 sends to rank 1, which receives after a while; or all send to rank 0. */
static void stream(int to, int from_all, double seconds)
{
    int word[2], is_sender = from_all ? rank != to : rank == 0;
    if (is_sender) {
        for (int i = 0; i < MANY; i++) {
            word[0] = rank;
            word[1] = i;
            CHECK_OK(MPI_Send(word, 2, MPI_INT, to, 3, MPI_COMM_WORLD));
        }
    } else if (rank == to) {
        compute(seconds);
        for (int source = 0; source < size; source++) {
            for (int i = 0; i < MANY && source != to && (from_all || source == 0); i++) {
                CHECK_OK(MPI_Recv(word, 2, MPI_INT, source, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_EQ(word[0], source);
                CHECK_EQ(word[1], i);
            }
        }
    }
}

enum { PUT, GOT, COPIED, VARIABLES };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handles[VARIABLES];

static void start_counting(void)
{
    const char *names[VARIABLES] = {"rdma_bytes_written", "rdma_bytes_read", "rdma_bytes_copied"};
    int provided;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    for (int i = 0; i < VARIABLES; i++) handles[i] = started(session, names[i], NULL);
}

static void end_counting(unsigned long long all[VARIABLES])
{
    unsigned long long own[VARIABLES];
    for (int i = 0; i < VARIABLES; i++) own[i] = value(session, handles[i]);
    for (int i = 0; i < VARIABLES; i++) CHECK_OK(MPI_T_pvar_handle_free(session, &handles[i]));
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_finalize());
    CHECK_OK(MPI_Allreduce(own, all, VARIABLES, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < VARIABLES; i++) all[i] >>= 20;
}

static void moved(int is_allocated)
{
    enum { LENGTH = 1 << 20, ROUNDS = 4 };
    unsigned char *data;
    unsigned long long moved[VARIABLES];
    start_counting();
    if (is_allocated) CHECK_OK(MPI_Alloc_mem(LENGTH, MPI_INFO_NULL, &data));
    else data = malloc(LENGTH);
    for (int i = 0; i < ROUNDS; i++) {
        for (int at = 0; at < LENGTH; at++) data[at] = rank == 0 ? (unsigned char) (at * 7 + i + (at >> 9)) : 0;
        if (rank == 0) CHECK_OK(MPI_Send(data, LENGTH, MPI_BYTE, 1, 5, MPI_COMM_WORLD));
        if (rank == 1) CHECK_OK(MPI_Recv(data, LENGTH, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int at = 0; at < LENGTH && rank == 1; at++) if (data[at] != (unsigned char) (at * 7 + i + (at >> 9))) { CHECK_EQ(at, -1); break; }
    }
    if (is_allocated) CHECK_OK(MPI_Free_mem(data));
    else free(data);
    end_counting(moved);
    if (rank == 0) printf("%llu MiB put, %llu got, %llu copied\n", moved[PUT], moved[GOT], moved[COPIED]);
}

static void silent(void)
{
    char data[100] = {0};
    int class, error = MPI_SUCCESS;
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (rank == 0) {
        for (int i = 0; i < 100000 && error == MPI_SUCCESS; i++) error = MPI_Send(data, 100, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
        CHECK_OK(MPI_Error_class(error, &class));
        printf(class == MPIX_ERR_PROC_FAILED ? "proc failed\n" : "class %d\n", class);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    for (int i = 0;; i++) {
        error = MPI_Recv(data, 100, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (error != MPI_SUCCESS) for (;;) pause();
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    check_begin(&argc, &argv);
    CHECK_OK(MPI_Comm_get_parent(&parent));
    const char *mode = argc > 1 ? argv[1] : "";
    double seconds = argc > 2 && atof(argv[2]) > 0 ? atof(argv[2]) : 3;
    if (!strcmp(mode, "protocol")) protocol();
    else if (!strcmp(mode, "compute")) stream(1, 0, seconds);
    else if (!strcmp(mode, "flood")) stream(0, 1, seconds);
    else if (!strcmp(mode, "silent")) silent();
    else if (!strcmp(mode, "moved")) moved(argc > 2 && !strcmp(argv[2], "allocated"));
    else if (!strcmp(mode, "spawn") && parent == MPI_COMM_NULL) {
        CHECK_OK(MPI_Comm_spawn(argv[0], argv + 1, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        /* Otherwise this process could end before the other one starts. */
        CHECK_OK(MPI_Barrier(children));
    } else if (parent != MPI_COMM_NULL) {
        CHECK_OK(MPI_Barrier(parent));
    }
    return check_end();
}
