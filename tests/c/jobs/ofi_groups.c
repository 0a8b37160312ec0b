/* Each thread exchanges messages with a peer on its own communicator, which has another index at
 * each of the two: prints the number of open pairs of transmit and receive contexts. */
#include "../check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 200, OWN = 5 };

static MPI_Comm comms[THREADS], own[OWN];

static void *talk(void *argument)
{
    long at = (long) argument, peer = rank ^ 1;
    for (long round = 0; round < ROUNDS; round++) {
        long out[2] = {at, round}, in[2] = {-1, -1};
        if (rank % 2 == 0) CHECK_OK((round % 2 ? MPI_Send : MPI_Ssend)(out, 2, MPI_LONG, peer, 3, comms[at]));
        CHECK_OK(MPI_Recv(in, 2, MPI_LONG, peer, 3, comms[at], MPI_STATUS_IGNORE));
        if (rank % 2 == 1) CHECK_OK((round % 2 ? MPI_Ssend : MPI_Send)(out, 2, MPI_LONG, peer, 3, comms[at]));
        CHECK_EQ(in[0], at);
        CHECK_EQ(in[1], round);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, which, count;
    unsigned long long pairs = 0;
    pthread_t threads[THREADS];
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK_OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    int many = rank == 0 ? OWN : 0;
    for (int i = 0; i < many; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &own[i]));
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (long i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, talk, (void *) i), 0);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_OK(MPI_T_pvar_session_create(&session));
    CHECK_OK(MPI_T_pvar_get_index("tagged_context_pairs", MPI_T_PVAR_CLASS_LEVEL, &which));
    CHECK_OK(MPI_T_pvar_handle_alloc(session, which, NULL, &handle, &count));
    CHECK_OK(MPI_T_pvar_read(session, handle, &pairs));
    if (rank == 0) printf("%llu pairs\n", pairs);
    CHECK_OK(MPI_T_pvar_session_free(&session));
    CHECK_OK(MPI_T_finalize());
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    for (int i = 0; i < many; i++) CHECK_OK(MPI_Comm_free(&own[i]));
    return check_end();
}
