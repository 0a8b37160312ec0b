/* The parts of the fuzzer around the generated functions. */
#ifndef FUZZ_RUN_H
#define FUZZ_RUN_H

static volatile unsigned long step;
static volatile int function_now = -1;
static int rank, size;

/* The bytes of an element of a buffer. */
enum { MOST_BYTES = 16 << 20 };

static void say_where(int signal_number)
{
    char line[200];
    int length = snprintf(line, sizeof line, "FUZZ rank %d: signal %d (%s) in step %lu, %s\n", rank, signal_number,
                          signal_number == SIGALRM ? "it hangs" : "it crashes", step,
                          function_now < 0 ? "between calls" : function_names[function_now]);
    if (write(STDERR_FILENO, line, (size_t) length) < 0) _exit(5);
    _exit(3);
}

static void watch(void)
{
    static char stack[65536];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = say_where, .sa_flags = SA_ONSTACK};
    sigaltstack(&alternative, NULL);
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}

/* Only small types become parts of others: nested parts would soon exceed all memory. */
static MPI_Datatype pick_old(void)
{
    MPI_Datatype type = pick_MPI_Datatype();
    MPI_Count lb = 0, extent = 0;
    for (unsigned i = 0; i < lives_MPI_Datatype; i++)
        if (live_MPI_Datatype[i] == type)
            if (PMPI_Type_get_true_extent_c(type, &lb, &extent) != MPI_SUCCESS || lb < -4096 || lb + extent > 4096
                || PMPI_Type_get_extent_c(type, &lb, &extent) != MPI_SUCCESS || lb < -4096 || lb > 4096
                || extent < -4096 || extent > 4096)
                return MPI_BYTE;
    return type;
}

static MPI_Datatype *old_array(void)
{
    static MPI_Datatype all[SLOTS][64];
    static unsigned next;
    MPI_Datatype *slot = all[next++ % SLOTS];
    for (int i = 0; i < 64; i++) slot[i] = pick_old();
    return slot;
}

/* For null memory a datatype without bytes there; for a call that must not wait a short one.
 * Overlapping elements make gigabytes of a few pages, which take long to copy while another rank
 * waits. */
static MPI_Datatype pick_type(void)
{
    if (null_buffers || plain_types) return predefined_MPI_Datatype[below(8)];
    MPI_Datatype type = pick_MPI_Datatype();
    MPI_Count bytes = 0;
    for (unsigned i = 0; i < lives_MPI_Datatype; i++)
        if (live_MPI_Datatype[i] == type
            && (PMPI_Type_size_c(type, &bytes) != MPI_SUCCESS || bytes < 0 || bytes > MOST_BYTES))
            return MPI_BYTE;
    return type;
}

static MPI_Datatype *type_array(void)
{
    static MPI_Datatype all[SLOTS][64];
    static unsigned next;
    MPI_Datatype *slot = all[next++ % SLOTS];
    for (int i = 0; i < 64; i++) slot[i] = pick_type();
    return is_null() ? NULL : slot;
}

static MPI_Comm pick_local(void)
{
    MPI_Comm comm = pick_MPI_Comm();
    return size > 1 && comm == MPI_COMM_WORLD ? MPI_COMM_SELF : comm;
}

static MPI_Group pick_own_group(void) { return size > 1 ? MPI_GROUP_EMPTY : pick_MPI_Group(); }

/* A handler after which the job goes on: even a senseless number may be a fatal one. */
static MPI_Errhandler pick_handler(void)
{
    MPI_Errhandler handler = pick_MPI_Errhandler();
    return handler == MPI_ERRORS_ARE_FATAL || handler == MPI_ERRORS_ABORT ? MPI_ERRORS_RETURN : handler;
}

static MPI_Comm pick_bad_comm(void) { return once_in(2) ? MPI_COMM_NULL : (MPI_Comm) (intptr_t) (0x1000000 + draw() % 4096); }
static MPI_Win pick_bad_win(void) { return once_in(2) ? MPI_WIN_NULL : (MPI_Win) (intptr_t) (0x1000000 + draw() % 4096); }
static MPI_Session pick_bad_session(void) { return MPI_SESSION_NULL; }

static MPI_Request done(MPI_Request request)
{
    int flag = 0;
    for (unsigned i = 0; i < lives_MPI_Request; i++)
        if (live_MPI_Request[i] == request
            && (PMPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || !flag))
            return MPI_REQUEST_NULL;
    return request;
}

static MPI_Request *done_array(void)
{
    MPI_Request *all = array_MPI_Request();
    for (int i = 0; all && i < 64; i++) all[i] = done(all[i]);
    return all;
}

static int keyvals[16] = {MPI_TAG_UB, MPI_WTIME_IS_GLOBAL, MPI_KEYVAL_INVALID, MPI_WIN_BASE, MPI_UNIVERSE_SIZE};
static unsigned keyvals_known = 5;
static int pick_keyval(void) { return once_in(10) ? any() : keyvals[below(keyvals_known < 16 ? keyvals_known : 16)]; }
static void note_keyval(const int *keyval)
{
    if (keyval) keyvals[keyvals_known++ % 16] = *keyval;
}

static void tame_window(MPI_Win win) { PMPI_Win_set_errhandler(win, MPI_ERRORS_RETURN); }

static void drain(MPI_Comm comm)
{
    int flag = 1;
    MPI_Message message;
    for (int i = 0; i < 1000 && flag; i++) {
        flag = 0;
        if (PMPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
        if (flag) PMPI_Mrecv(middle, 1 << 24, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    }
}

static void drain_all(void)
{
    drain(MPI_COMM_WORLD);
    drain(MPI_COMM_SELF);
    for (unsigned i = 0; i < lives_MPI_Comm; i++) drain(live_MPI_Comm[i]);
}

static void together(uint64_t number, uint64_t seed)
{
    uint64_t own = state;
    state = seed ^ (number * 0x2545f4914f6cdd1du);
    MPI_Comm comm = once_in(8) ? pick_bad_comm() : MPI_COMM_WORLD;
    MPI_Op op = (MPI_Op[]){MPI_SUM, MPI_MAX, MPI_BXOR, MPI_REPLACE, MPI_OP_NULL}[below(5)];
    int counts[8], places[8], root = (int) below((unsigned) size);
    int count = (int) below(5) * (once_in(8) ? 3000 : 1);
    char *in = middle, *out = middle + (8 << 20);
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < 8; i++) {
        counts[i] = count;
        places[i] = i * count;
    }
    int code = MPI_SUCCESS;
    switch (below(12)) {
    case 0: code = MPI_Barrier(comm); break;
    case 1: code = MPI_Bcast(in, count, MPI_INT, root, comm); break;
    case 2: code = MPI_Allreduce(in, out, count, MPI_INT, op, comm); break;
    case 3: code = MPI_Reduce(in, out, count, MPI_INT, op, root, comm); break;
    case 4: code = MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm); break;
    case 5: code = MPI_Allgatherv(in, count, MPI_INT, out, counts, places, MPI_INT, comm); break;
    case 6: code = MPI_Iallreduce(in, out, count, MPI_INT, op, comm, &request); break;
    case 7: code = MPI_Ibarrier(comm, &request); break;
    case 8: code = MPI_Gatherv(in, count, MPI_INT, out, counts, places, MPI_INT, root, comm); break;
    case 9: code = MPI_Scan(in, out, count, MPI_INT, op, comm); break;
    case 10: code = MPI_Alltoallv(in, counts, places, MPI_INT, out, counts, places, MPI_INT, comm); break;
    default: code = MPI_Reduce_scatter_block(in, out, count, MPI_INT, op, comm); break;
    }
    if (code == MPI_SUCCESS) PMPI_Wait(&request, MPI_STATUS_IGNORE);
    state = own;
}

/* fuzz SEED STEPS [checks off] */
int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned long steps = argc > 2 ? strtoul(argv[2], NULL, 10) : 10000;
    /* Without checks a null buffer may crash. */
    int trusting = argc > 3;
    middle = (char *) mapped(2 * HALF) + HALF;
    attachable = mapped(65536 * 256);
    watch();
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return 6;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    state = seed * 1000003u + (uint64_t) rank;
    for (step = 0; step < steps; step++) {
        alarm(20);
        null_buffers = !trusting && once_in(16);
        if (size > 1 && step % 16 == 0) together(step, seed);
        function_now = chosen[below(sizeof chosen / sizeof *chosen)];
        if (getenv("FUZZ_TRACE")) fprintf(stderr, "rank %d step %lu %s\n", rank, step, function_names[function_now]);
        calls[function_now]();
        function_now = -1;
        plain_types = 0;
        if (step % 128 == 0) drain_all();
    }
    alarm(20);
    PMPI_Barrier(MPI_COMM_WORLD);
    /* Some operations can never be completed, so the program ends by MPI_Abort. */
    if (rank == 0) {
        signal(SIGALRM, SIG_DFL);
        MPI_Abort(MPI_COMM_WORLD, 77);
    }
    for (;;) pause();
}
#endif
