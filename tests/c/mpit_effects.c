// ranks: 2
// transports: all
// not over: gm, because it knows the variables of shared memory and sockets alone
// not over: lamd, because it knows the variables of shared memory and sockets alone
// not over: nodes, because it knows the variables of shared memory and sockets alone
// not over: ofi, because it knows the variables of shared memory and sockets alone
// not over: sysv, because it knows the variables of shared memory and sockets alone
// not over: usysv, because it knows the variables of shared memory and sockets alone
// not over: shm-single-copy, because it counts protocols that the parameters of this way change
/* The effect of writes to control variables while the program runs. */
#include "mpit.h"

static MPI_T_pvar_session session;

static number announced(int messages, int bytes)
{
    MPI_T_pvar_handle handle = started(session, "rendezvous_messages_sent", NULL);
    char *buffer = calloc(1, (size_t) bytes);
    for (int i = 0; i < messages; i++) {
        if (rank == 0) MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    free(buffer);
    number count = value(session, handle);
    CHECK_OK(MPI_T_pvar_handle_free(session, &handle));
    return count;
}

/* The longest eager message; below it the end of the fast path. */
static void eager_limit(const char *name)
{
    int sends = rank == 0, before = set_cvar(name, 1000);
    CHECK_EQ(announced(3, 1000), 0);
    CHECK_EQ(announced(3, 1001), sends ? 3 : 0);
    set_cvar(name, 20);
    CHECK_EQ(announced(3, 20), 0);
    CHECK_EQ(announced(3, 21), sends ? 3 : 0);
    set_cvar(name, 0);
    CHECK_EQ(announced(3, 0), 0);
    CHECK_EQ(announced(3, 1), sends ? 3 : 0);
    set_cvar(name, before);
    CHECK_EQ(announced(3, 1001), 0);
}

static number copied(void)
{
    enum { BYTES = 2000000 };
    MPI_T_pvar_handle handle = started(session, "shm_single_copy_bytes", NULL);
    static char buffer[BYTES];
    for (int i = 0; i < 10; i++) {
        if (rank == 0) MPI_Send(buffer, BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        if (rank == 1) MPI_Recv(buffer, BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    number count = value(session, handle);
    CHECK(count <= 10 * (number) BYTES);
    CHECK_OK(MPI_T_pvar_handle_free(session, &handle));
    return count;
}

static void single_copy(void)
{
    int before = set_cvar("single_copy", 1);
    CHECK_EQ(copied(), 0);
    set_cvar("single_copy", before);
    copied();
}

static void ring_after(void)
{
    MPI_T_pvar_handle rings = pvar(session, "shm_rings_granted", NULL);
    MPI_T_pvar_handle frames = started(session, "shm_inbox_frames", NULL);
    announced(20, 8);
    CHECK_EQ(value(session, rings), 0);
    CHECK(value(session, frames) >= (rank == 1 ? 20 : 0));
    set_cvar("shm_ring_after", 1);
    announced(20, 8);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) CHECK_EQ(value(session, rings), 1);
    announced(20, 8);
}

static number pooled(int bytes)
{
    static char buffer[8192];
    MPI_T_pvar_handle used = pvar(session, "shm_pool_used", NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    number before = value(session, used), after = 0;
    meet();
    if (rank == 0) MPI_Send(buffer, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank == 0) after = value(session, used) - before;
    meet();
    if (rank == 1) MPI_Recv(buffer, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_OK(MPI_T_pvar_handle_free(session, &used));
    MPI_Barrier(MPI_COMM_WORLD);
    return after;
}

static void pool_from(void)
{
    int sends = rank == 0, before = set_cvar("shm_pool_from_bytes", 8000);
    CHECK_EQ(pooled(4000), 0);
    set_cvar("shm_pool_from_bytes", 100);
    CHECK(sends ? pooled(4000) >= 4000 : pooled(4000) == 0);
    set_cvar("shm_pool_from_bytes", before);
}

static number sleeps(void)
{
    MPI_T_pvar_handle handle = started(session, "sleeps", NULL), timer = started(session, "time_asleep", NULL);
    int word = 0;
    meet();
    if (rank == 0) {
        pause_ms(30);
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    number count = value(session, handle);
    double seconds = -1;
    CHECK_OK(MPI_T_pvar_read(session, timer, &seconds));
    CHECK((seconds > 0) == (count > 0));
    CHECK_OK(MPI_T_pvar_handle_free(session, &handle));
    CHECK_OK(MPI_T_pvar_handle_free(session, &timer));
    meet();
    return count;
}

/* Whether rank 1 sleeps, or does not, in one of many waits: on a busy machine a single wait may
 * be too long or too short. */
static int comes_to(int asleep)
{
    for (int i = 0; i < 50; i++) {
        int slept = sleeps() > 0;
        MPI_Bcast(&slept, 1, MPI_INT, 1, MPI_COMM_WORLD);
        if (slept == asleep) return 1;
    }
    return 0;
}

static void waiting(void)
{
    /* A slow yield puts no wait to sleep. */
    int strangers = set_cvar("wait_sleeping", 0), slow = set_cvar("wait_slow_yield_us", 1000000);
    int yields = set_cvar("wait_yields", 1000000), spin = set_cvar("wait_spin_us", 1000000);
    int yield = set_cvar("wait_yield_us", 1000000);
    CHECK(comes_to(0));
    set_cvar("wait_yields", 0);
    set_cvar("wait_spin_us", 0);
    set_cvar("wait_yield_us", 0);
    CHECK(comes_to(1));
    set_cvar("wait_sleeping", strangers);
    set_cvar("wait_slow_yield_us", slow);
    set_cvar("wait_yields", yields);
    set_cvar("wait_spin_us", spin);
    set_cvar("wait_yield_us", yield);
}

int main(int argc, char **argv)
{
    int provided;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    set_cvar("shm_ring_after", 1000000);
    check_begin(&argc, &argv);
    CHECK_OK(MPI_T_pvar_session_create(&session));
    meeting_open();
    if (is_over_tcp(session)) {
        eager_limit("rpi_tcp_short");
    } else {
        ring_after();
        eager_limit("shm_eager_limit_bytes");
        single_copy();
        pool_from();
    }
    waiting();
    int result = check_end();
    MPI_T_finalize();
    return result;
}
