// ranks: 1 2
// transports: one
/* Several threads make, use and free infos, error handlers, keys, error codes and attributes at
 * the same time. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4 };

static MPI_Info shared_info;
static int deletions = 0, shared_key;

static int delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void) comm;
    (void) keyval;
    (void) value;
    (void) extra;
    __atomic_fetch_add(&deletions, 1, __ATOMIC_SEQ_CST);
    return MPI_SUCCESS;
}

static void note(MPI_Comm *comm, int *code, ...)
{
    (void) comm;
    (void) code;
}

static void own_objects(int thread, int round)
{
    char key[32], value[32];
    int flag = 0, length = sizeof value, keyval, class, code, found;
    void *attribute = NULL;
    MPI_Info info;
    MPI_Errhandler handler;
    snprintf(key, sizeof key, "thread %d round %d", thread, round);
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "key", key));
    CHECK_OK(MPI_Info_get_string(info, "key", &length, value, &flag));
    CHECK(flag && strcmp(value, key) == 0);
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &keyval, NULL));
    CHECK_OK(MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, key));
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &attribute, &flag));
    CHECK(flag && attribute == key);
    CHECK_OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval));
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    CHECK_OK(MPI_Comm_create_errhandler(note, &handler));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler)); /* this thread's or another's */
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Add_error_class(&class));
    CHECK_OK(MPI_Add_error_code(class, &code));
    CHECK_OK(MPI_Error_class(code, &found));
    CHECK_EQ(found, class);
    CHECK_OK(MPI_Remove_error_code(code));
    CHECK_OK(MPI_Remove_error_class(class));
}

static void shared_objects(int thread)
{
    char value[32];
    int flag = 0, length = sizeof value;
    CHECK_OK(MPI_Info_set(shared_info, thread % 2 ? "odd" : "even", "here"));
    CHECK_OK(MPI_Info_get_string(shared_info, thread % 2 ? "odd" : "even", &length, value, &flag));
    CHECK(flag && strcmp(value, "here") == 0);
    CHECK_OK(MPI_Comm_set_attr(MPI_COMM_SELF, shared_key, &deletions));
}

static void *work(void *number)
{
    int thread = (int) (intptr_t) number, rounds = scaled(500);
    for (int round = 0; round < rounds; round++) {
        own_objects(thread, round);
        shared_objects(thread);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1, keys = -1, rounds = scaled(500);
    pthread_t threads[THREADS];
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Info_create(&shared_info));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, &shared_key, NULL));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *) (intptr_t) i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_OK(MPI_Info_get_nkeys(shared_info, &keys));
    CHECK_EQ(keys, 2);
    CHECK_OK(MPI_Info_free(&shared_info));
    /* Each value that was set is deleted once: one of the shared key is still there. */
    CHECK_EQ(deletions, 2 * THREADS * rounds - 1);
    CHECK_OK(MPI_Comm_delete_attr(MPI_COMM_SELF, shared_key));
    CHECK_EQ(deletions, 2 * THREADS * rounds);
    CHECK_OK(MPI_Comm_free_keyval(&shared_key));
    return check_end();
}
