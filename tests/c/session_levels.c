// ranks: 1 2 4 7
// transports: one
/* Sessions that another thread makes next to a World Model of one thread, whose thread is in the
 * library meanwhile: they have the level of the process, whatever they request, and the World
 * Model's thread uses them. After a session of that thread has requested more, sessions of other
 * threads have it, too. */
#include "sessions.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 20 };

static const char *const asked[] = {NULL, "MPI_THREAD_SINGLE", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
enum { ASKED = sizeof asked / sizeof asked[0] };

static MPI_Session sessions[ASKED];
static atomic_int is_made;

static MPI_Session ask(const char *level)
{
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info;
    MPI_Info_create(&info);
    if (level) MPI_Info_set(info, "thread_level", level);
    CHECK_OK(MPI_Session_init(info, RETURN, &session));
    MPI_Info_free(&info);
    return session;
}

static void check_level(MPI_Session session, const char *wanted)
{
    char text[32] = "";
    int flag = 0, length = sizeof text;
    MPI_Info info;
    CHECK_OK(MPI_Session_get_info(session, &info));
    MPI_Info_get_string(info, "thread_level", &length, text, &flag);
    CHECK(flag && !strcmp(text, wanted));
    MPI_Info_free(&info);
}

static void *make_all(void *nothing)
{
    for (int i = 0; i < ASKED; i++) {
        sessions[i] = ask(asked[i]);
        check_level(sessions[i], "MPI_THREAD_SINGLE");
    }
    atomic_store(&is_made, 1);
    return nothing;
}

static void *own_session(void *number)
{
    char tag[32];
    snprintf(tag, sizeof tag, "thread %d", (int) (intptr_t) number);
    MPI_Session session = ask("MPI_THREAD_MULTIPLE");
    check_level(session, "MPI_THREAD_MULTIPLE");
    MPI_Comm comm = comm_of(session, tag);
    for (int i = 0; i < scaled(ROUNDS); i++) exercise(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    close_session(&session);
    return NULL;
}

/* One call on the World Model; all ranks make the same number. Whether the thread of any rank
 * has not made its sessions yet. */
static int is_any_late(void)
{
    int mine = !atomic_load(&is_made), all = -1;
    CHECK_OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return all > 0;
}

int main(int argc, char **argv)
{
    enum { THREADS = 2 };
    pthread_t threads[THREADS];
    int level = -1;
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &level);
    CHECK_EQ(level, MPI_THREAD_SINGLE);
    check_ranks();
    check_where("beside a World Model of one thread");
    pthread_create(&threads[0], NULL, make_all, NULL);
    while (is_any_late()) continue;
    pthread_join(threads[0], NULL);
    for (int i = 0; i < ASKED; i++) {
        MPI_Comm comm = comm_of(sessions[i], "of the other thread");
        exercise(comm);
        CHECK_OK(MPI_Comm_free(&comm));
        close_session(&sessions[i]);
    }
    check_where("once the World Model's thread has asked for more");
    MPI_Session more = ask("MPI_THREAD_MULTIPLE");
    check_level(more, "MPI_THREAD_MULTIPLE");
    for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, own_session, (void *) i);
    for (int i = 0; i < scaled(ROUNDS); i++) exercise(MPI_COMM_WORLD);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    close_session(&more);
    MPI_Query_thread(&level);
    CHECK_EQ(level, MPI_THREAD_SINGLE);
    exercise(MPI_COMM_WORLD);
    return check_end();
}
