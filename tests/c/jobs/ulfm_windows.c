/* Windows, files and connections after the failure of a member: rank 1 kills itself in the state
 * HOW, and each call of the others that needs it returns MPIX_ERR_PROC_FAILED. ulfm_windows HOW. */
#include "../check.h"

#include <mpi-ext.h>
#include <sys/mman.h>

static int gone(int code)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    return class == MPIX_ERR_PROC_FAILED || class == MPIX_ERR_REVOKED;
}

#define CHECK_GONE(call) CHECK(gone(call))
#define CHECK_FAILED(call) CHECK_CLASS(call, MPIX_ERR_PROC_FAILED)

static void hear(MPI_Comm comm)
{
    CHECK_FAILED(MPI_Recv(NULL, 0, MPI_INT, 1, 99, comm, MPI_STATUS_IGNORE));
}

static void die(MPI_Comm comm)
{
    if (rank != 1) {
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 98, comm));
        return;
    }
    for (int i = 1; i < size; i++) CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 98, comm, MPI_STATUS_IGNORE));
    pause_ms(10);
    raise(SIGKILL);
}

static void meet(MPI_Comm comm)
{
    int flag = 1;
    MPIX_Comm_agree(comm, &flag);
}

static MPI_Win window(MPI_Comm comm, int **memory, int by_messages)
{
    MPI_Win win;
    static int own[4];
    if (by_messages) {
        *memory = own;
        CHECK_OK(MPI_Win_create(own, sizeof own, sizeof *own, MPI_INFO_NULL, comm, &win));
    } else {
        CHECK_OK(MPI_Win_allocate(4 * sizeof **memory, sizeof **memory, MPI_INFO_NULL, comm, memory, &win));
    }
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Barrier(comm));
    return win;
}

static void one_failed(MPI_Win win)
{
    MPI_Group failed, all;
    int many, first = 0, there;
    CHECK_OK(MPIX_Win_get_failed(win, &failed));
    CHECK_OK(MPI_Win_get_group(win, &all));
    MPI_Group_size(failed, &many);
    CHECK_EQ(many, 1);
    MPI_Group_translate_ranks(failed, 1, &first, all, &there);
    CHECK_EQ(there, 1);
    MPI_Group_free(&failed);
    MPI_Group_free(&all);
}

/* A rank that frees the window has revoked it, so all must have finished. */
static void end(MPI_Comm comm, MPI_Win win)
{
    meet(comm);
    CHECK_GONE(MPI_Win_free(&win));
    CHECK(win == MPI_WIN_NULL);
}

static void fence(MPI_Comm comm, int by_messages)
{
    int *memory, one = 1;
    MPI_Win win = window(comm, &memory, by_messages);
    CHECK_OK(MPI_Win_fence(0, win));
    die(comm);
    if (!by_messages) CHECK_OK(MPI_Put(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, win));
    CHECK_FAILED(MPI_Win_fence(0, win));
    CHECK_FAILED(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    one_failed(win);
    end(comm, win);
}

static void target(MPI_Comm comm, int by_messages)
{
    int *memory, one = 1, other = 0;
    MPI_Win win = window(comm, &memory, by_messages);
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Barrier(comm));
    die(comm);
    hear(comm);
    MPI_Accumulate(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, MPI_SUM, win);
    CHECK_FAILED(MPI_Win_flush(1, win));
    CHECK_FAILED(MPI_Win_flush_local(1, win));
    CHECK_FAILED(MPI_Win_flush_all(win));
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Rget(&one, 1, MPI_INT, 1, 0, 1, MPI_INT, win, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(code == MPI_SUCCESS || gone(code));
    CHECK_OK(MPI_Fetch_and_op(&one, &other, MPI_INT, 0, 0, MPI_REPLACE, win));
    CHECK_OK(MPI_Win_flush(0, win));
    CHECK_FAILED(MPI_Win_unlock_all(win));
    CHECK_FAILED(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
    CHECK_FAILED(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    CHECK_OK(MPI_Win_unlock(rank, win));
    end(comm, win);
}

/* The failed rank held the lock of rank 0: all ranks that wait for the lock get the error. */
static void holder(MPI_Comm comm, int by_messages, int type)
{
    int *memory;
    MPI_Win win = window(comm, &memory, by_messages);
    if (rank == 1) CHECK_OK(MPI_Win_lock(type, 0, 0, win));
    CHECK_OK(MPI_Barrier(comm));
    die(comm);
    CHECK_FAILED(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    if (type == MPI_LOCK_SHARED) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        CHECK_OK(MPI_Win_unlock(0, win));
    } else {
        CHECK_FAILED(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    }
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, size - 1, 0, win));
    CHECK_OK(MPI_Win_unlock(size - 1, win));
    end(comm, win);
}

static void killed(int signal_number)
{
    (void) signal_number;
    raise(SIGKILL);
}

/* The failed rank was within an accumulate to rank 0, whose second half is at unreadable memory.
 * The next accumulate there, direct or by a message, waits for it only until its failure is
 * known. */
static void within(MPI_Comm comm)
{
    int *memory;
    unsigned char mine[16], seen[16];
    MPI_Win win = window(comm, &memory, 0);
    CHECK_OK(MPI_Win_lock_all(0, win));
    if (rank == 1) {
        long page = sysconf(_SC_PAGESIZE);
        char *both = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(both != MAP_FAILED && mprotect(both + page, page, PROT_NONE) == 0);
        signal(SIGSEGV, killed);
        for (int i = 1; i < size; i++) CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 98, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Accumulate(both + page - 8, 16, MPI_BYTE, 0, 0, 16, MPI_BYTE, MPI_REPLACE, win));
        CHECK(!"that what cannot be read was read");
    }
    CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 98, comm));
    for (int when = 0; when < 2; when++) {
        /* Before and after this rank knows of the failure. */
        for (int turn = 0; turn < 1000; turn++) {
            memset(mine, rank + turn, sizeof mine);
            CHECK_OK(MPI_Accumulate(mine, 16, MPI_BYTE, 0, 0, 16, MPI_BYTE, MPI_REPLACE, win));
        }
        if (when == 0) hear(comm);
    }
    CHECK_OK(MPI_Win_flush(0, win));
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, seen, 16, MPI_BYTE, 0, 0, 16, MPI_BYTE, MPI_NO_OP, win));
    CHECK_OK(MPI_Win_flush(0, win));
    memset(mine, seen[0], sizeof mine);
    CHECK(memcmp(seen, mine, sizeof seen) == 0);
    CHECK_FAILED(MPI_Win_unlock_all(win));
    end(comm, win);
}

/* An epoch of all: the failed rank has opened and completed nothing. The living ranks end the
 * epoch with each other. */
static void epochs(MPI_Comm comm, int by_messages)
{
    int *memory;
    MPI_Win win = window(comm, &memory, by_messages);
    MPI_Group all;
    MPI_Win_get_group(win, &all);
    memory[0] = 0;
    die(comm);
    for (int round = 1; round <= 3; round++) {
        int one = 1, over = 0, code;
        CHECK_OK(MPI_Win_post(all, 0, win));
        CHECK_OK(MPI_Win_start(all, 0, win));
        for (int to = 0; to < size; to++)
            if (to != 1) CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, to, 0, 1, MPI_INT, MPI_SUM, win));
        CHECK_FAILED(MPI_Win_complete(win));
        if (round == 2) {
            do code = MPI_Win_test(win, &over);
            while (code == MPI_SUCCESS && !over);
            CHECK_FAILED(code);
        } else {
            CHECK_FAILED(MPI_Win_wait(win));
        }
        CHECK(memory[0] >= round * (size - 1));
    }
    MPI_Group_free(&all);
    end(comm, win);
}

/* Rank 0 waits for a living rank that never comes; another rank revokes the window. */
static void revoked(MPI_Comm comm, int by_messages)
{
    int *memory;
    MPI_Win win = window(comm, &memory, by_messages);
    MPI_Group all, last;
    int other = size - 1;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &other, &last);
    if (rank == 0) {
        CHECK_CLASS(MPI_Win_start(last, 0, win), MPIX_ERR_REVOKED);
    } else if (rank == 1) {
        pause_ms(10);
        CHECK_OK(MPIX_Win_revoke(win));
    } else if (rank < other) {
        CHECK_OK(MPI_Win_post(all, 0, win));
        CHECK_CLASS(MPI_Win_wait(win), MPIX_ERR_REVOKED);
    } else {
        CHECK_CLASS(MPI_Win_fence(0, win), MPIX_ERR_REVOKED);
    }
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPIX_ERR_REVOKED);
    CHECK_CLASS(MPI_Win_fence(0, win), MPIX_ERR_REVOKED);
    MPI_Group_free(&all);
    MPI_Group_free(&last);
    CHECK_CLASS(MPI_Win_free(&win), MPIX_ERR_REVOKED);
    CHECK(win == MPI_WIN_NULL);
    die(comm);
}

static void create(MPI_Comm comm)
{
    int *memory = NULL;
    MPI_Win win = MPI_WIN_NULL;
    MPI_File file = MPI_FILE_NULL;
    die(comm);
    CHECK_FAILED(MPI_Win_allocate(64, 1, MPI_INFO_NULL, comm, &memory, &win));
    CHECK_FAILED(MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, comm, &memory, &win));
    CHECK_FAILED(MPI_Win_create(&rank, sizeof rank, 1, MPI_INFO_NULL, comm, &win));
    CHECK_FAILED(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &win));
    int mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    CHECK_FAILED(MPI_File_open(comm, "ulfm-create", mode, MPI_INFO_NULL, &file));
    CHECK(win == MPI_WIN_NULL && file == MPI_FILE_NULL);
}

static void files(MPI_Comm comm)
{
    MPI_File file;
    MPI_Request request;
    MPI_Offset size_now;
    int number = rank, mode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    CHECK_OK(MPI_File_open(comm, "ulfm-files", mode, MPI_INFO_NULL, &file));
    CHECK_OK(MPI_File_write_ordered(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    die(comm);
    CHECK_FAILED(MPI_File_write_at_all(file, 0, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_iread_at_all(file, 0, &number, 1, MPI_INT, &request));
    CHECK_FAILED(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_FAILED(MPI_File_write_ordered(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_FAILED(MPI_File_sync(file));
    CHECK_FAILED(MPI_File_set_size(file, 100));
    int code = MPI_File_read_all_begin(file, &number, 1, MPI_INT);
    CHECK_FAILED(code == MPI_SUCCESS ? MPI_File_read_all_end(file, &number, MPI_STATUS_IGNORE) : code);
    CHECK_OK(MPI_File_write_at(file, 4 * rank, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_write_shared(file, &number, 1, MPI_INT, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_File_get_position_shared(file, &size_now));
    CHECK(size_now > size * (MPI_Offset) sizeof number);
    CHECK_FAILED(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);
    CHECK(access("ulfm-files", F_OK) != 0);
}

static void meetings(MPI_Comm comm, const char *program)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other = MPI_COMM_NULL;
    CHECK_OK(MPI_Open_port(MPI_INFO_NULL, port));
    /* The root waits for a rank that never comes when it learns of the failure. */
    die(comm);
    CHECK_FAILED(MPI_Comm_accept(port, MPI_INFO_NULL, 0, comm, &other));
    CHECK_FAILED(MPI_Comm_connect(port, MPI_INFO_NULL, 0, comm, &other));
    CHECK_FAILED(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 1, comm, &other, MPI_ERRCODES_IGNORE));
    CHECK_FAILED(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, comm, &other, MPI_ERRCODES_IGNORE));
    CHECK(other == MPI_COMM_NULL);
    CHECK_OK(MPI_Close_port(port));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm comm, parents;
    MPI_Comm_get_parent(&parents);
    if (parents != MPI_COMM_NULL) return MPI_Finalize();
    return_errors();
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const char *how = argv[1];
    int by_messages = argc > 2 && !strcmp(argv[2], "messages");
    if (!strcmp(how, "fence")) fence(comm, by_messages);
    if (!strcmp(how, "target")) target(comm, by_messages);
    if (!strcmp(how, "exclusive")) holder(comm, by_messages, MPI_LOCK_EXCLUSIVE);
    if (!strcmp(how, "shared")) holder(comm, by_messages, MPI_LOCK_SHARED);
    if (!strcmp(how, "within")) within(comm);
    if (!strcmp(how, "epochs")) epochs(comm, by_messages);
    if (!strcmp(how, "revoked")) revoked(comm, by_messages);
    if (!strcmp(how, "create")) create(comm);
    if (!strcmp(how, "files")) files(comm);
    if (!strcmp(how, "meetings")) meetings(comm, argv[0]);
    hear(comm);
    MPI_Comm left;
    int total = -1;
    CHECK_OK(MPIX_Comm_shrink(comm, &left));
    CHECK_OK(MPI_Allreduce(&check_failures, &total, 1, MPI_INT, MPI_SUM, left));
    if (rank == 0) printf(total == 0 ? "went on\n" : "%d failures\n", total);
    MPI_Comm_free(&left);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return total != 0;
}
