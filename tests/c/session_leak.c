// ranks: 1 2 4
// transports: one
/* Two thousand sessions, one after another, each with all its possible objects, leave nothing
 * behind: no memory, no descriptor, no mapping, no thread. Some programs begin with sessions,
 * others with MPI_Init; this one does both. */
#include "sessions.h"

#include <dirent.h>
#include <malloc.h>

static char room[4096];

static void note(MPI_Session *session, int *code, ...)
{
    (void) session, (void) code;
}

static void full(int round)
{
    MPI_Session session;
    MPI_Errhandler handler;
    MPI_Group all, own, copy;
    MPI_Comm comm, duplicate;
    MPI_Info info;
    void *address;
    int me, n, bytes, got = -1;
    MPI_Session_create_errhandler(note, &handler);
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    CHECK_OK(MPI_Session_init(info, handler, &session));
    MPI_Info_free(&info);
    MPI_Errhandler_free(&handler);
    CHECK_OK(MPI_Session_get_info(session, &info));
    MPI_Info_free(&info);
    CHECK_OK(MPI_Session_get_pset_info(session, "mpi://WORLD", &info));
    MPI_Info_free(&info);
    all = group_of(session, "mpi://WORLD");
    own = group_of(session, "mpi://SELF");
    CHECK_OK(MPI_Group_union(own, all, &copy));
    CHECK_OK(MPI_Comm_create_from_group(all, "leak", MPI_INFO_NULL, RETURN, &comm));
    CHECK_OK(MPI_Comm_dup(comm, &duplicate));
    CHECK_OK(MPI_Session_attach_buffer(session, room, sizeof room));
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    CHECK_OK(MPI_Bsend(&round, 1, MPI_INT, (me + 1) % n, 0, duplicate));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, (me + n - 1) % n, 0, duplicate, MPI_STATUS_IGNORE));
    CHECK_EQ(got, round);
    if (round % 2) {
        /* By the program, or by the end of the session. */
        CHECK_OK(MPI_Session_detach_buffer(session, &address, &bytes));
        MPI_Group_free(&all);
        MPI_Group_free(&own);
        MPI_Group_free(&copy);
        MPI_Comm_free(&duplicate);
        MPI_Comm_free(&comm);
    }
    close_session(&session);
}

static long entries(const char *path)
{
    long count = 0;
    DIR *directory = opendir(path);
    if (!directory) return -1;
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

static long lines(const char *path)
{
    long count = 0;
    int c;
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    while ((c = getc(file)) != EOF) count += c == '\n';
    fclose(file);
    return count;
}

static struct {
    long memory, descriptors, mappings, threads;
} now, before;

static void measure(void)
{
    struct mallinfo2 info = mallinfo2();
    now.memory = (long) (info.uordblks + info.hblkhd);
    now.descriptors = entries("/proc/self/fd");
    now.mappings = lines("/proc/self/maps");
    now.threads = entries("/proc/self/task");
}

static void rounds(const char *when)
{
    /* First to the final size of the tables: the number of a context is used again after a
     * thousand others. */
    for (int i = 0; i < scaled(2000); i++) full(i);
    measure();
    before = now;
    for (int i = 0; i < scaled(2000); i++) full(i);
    measure();
    check_where("%s: memory %ld and %ld, mappings %ld and %ld", when, before.memory, now.memory, before.mappings,
                now.mappings);
    CHECK(now.memory - before.memory < 16384);
    CHECK_EQ(now.descriptors, before.descriptors);
    CHECK(now.mappings <= before.mappings + 2);
    CHECK_EQ(now.threads, before.threads);
    check_where("%s", "");
}

int main(int argc, char **argv)
{
    check_watch();
    rounds("before MPI_Init");
    MPI_Init(&argc, &argv);
    check_ranks();
    rounds("beside the World Model");
    MPI_Finalize();
    return sessions_end();
}
