/* Common parts of the tests of the tool interface: variables by name, and their values. */
#ifndef MPIT_H
#define MPIT_H

#include "check.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

typedef unsigned long long number;

/* The index of a performance variable, or -1. Stores its class if class_of is not null. */
static inline int pvar_index(const char *name, int *class_of)
{
    int count = 0, level, var_class;
    MPI_T_pvar_get_num(&count);
    for (int i = 0; i < count; i++) {
        char found[128];
        int length = sizeof found;
        if (MPI_T_pvar_get_info(i, found, &length, &level, &var_class, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL))
            return -1;
        if (strcmp(found, name) != 0) continue;
        if (class_of) *class_of = var_class;
        return i;
    }
    return -1;
}

/* A handle of a performance variable, bound to `object` if the variable has a binding; not
 * started. */
static inline MPI_T_pvar_handle pvar(MPI_T_pvar_session session, const char *name, void *object)
{
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int count = 0, index = pvar_index(name, NULL);
    check_where("%s", name);
    CHECK(index >= 0);
    CHECK_OK(MPI_T_pvar_handle_alloc(session, index, object, &handle, &count));
    CHECK_EQ(count, 1);
    check_where("%s", "");
    return handle;
}

/* The same, started. */
static inline MPI_T_pvar_handle started(MPI_T_pvar_session session, const char *name, void *object)
{
    MPI_T_pvar_handle handle = pvar(session, name, object);
    check_where("%s", name);
    CHECK_OK(MPI_T_pvar_start(session, handle));
    check_where("%s", "");
    return handle;
}

static inline number value(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    number read = 0;
    CHECK_OK(MPI_T_pvar_read(session, handle, &read));
    return read;
}

static inline MPI_T_cvar_handle cvar(const char *name)
{
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    int index = -1, count = 0;
    check_where("%s", name);
    CHECK_OK(MPI_T_cvar_get_index(name, &index));
    CHECK_OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    check_where("%s", "");
    return handle;
}

/* Sets a control variable of type int and returns its previous value. */
static inline int set_cvar(const char *name, int to)
{
    MPI_T_cvar_handle handle = cvar(name);
    int before = -1, now = -1;
    CHECK_OK(MPI_T_cvar_read(handle, &before));
    CHECK_OK(MPI_T_cvar_write(handle, &to));
    CHECK_OK(MPI_T_cvar_read(handle, &now));
    CHECK_EQ(now, to);
    CHECK_OK(MPI_T_cvar_handle_free(&handle));
    return before;
}

static inline int int_cvar(const char *name)
{
    MPI_T_cvar_handle handle = cvar(name);
    int read = -1;
    CHECK_OK(MPI_T_cvar_read(handle, &read));
    CHECK_OK(MPI_T_cvar_handle_free(&handle));
    return read;
}

static inline void word_cvar(const char *name, char *word, int room)
{
    int index = -1, count = 0, is = int_cvar(name), item = 0;
    MPI_T_enum words = MPI_T_ENUM_NULL;
    CHECK_OK(MPI_T_cvar_get_index(name, &index));
    CHECK_OK(MPI_T_cvar_get_info(index, NULL, NULL, NULL, NULL, &words, NULL, NULL, NULL, NULL));
    CHECK(words != MPI_T_ENUM_NULL);
    if (words != MPI_T_ENUM_NULL) CHECK_OK(MPI_T_enum_get_info(words, &count, NULL, NULL));
    *word = 0;
    for (int i = 0; i < count; i++) {
        int length = room;
        CHECK_OK(MPI_T_enum_get_item(words, i, &item, word, &length));
        if (item == is) return;
    }
    CHECK(count > 0 && item == is);
}

static inline int is_over_tcp(MPI_T_pvar_session session)
{
    MPI_T_pvar_handle handle = pvar(session, "transport", NULL);
    int way = -1;
    CHECK_OK(MPI_T_pvar_read(session, handle, &way));
    CHECK(way == 0 || way == 1);
    CHECK_OK(MPI_T_pvar_handle_free(session, &handle));
    return way == 1;
}

/* Memory by which all ranks of this host meet without a message, as messages would change the
 * counters under test. */
static struct { atomic_int arrived, rounds; } *meeting;

/* Collective. No file remains. */
static inline void meeting_open(void)
{
    char name[64] = "";
    if (rank == 0) {
        strcpy(name, "/tmp/oxmpi-meeting-XXXXXX");
        int file = mkstemp(name);
        if (file < 0 || ftruncate(file, sizeof *meeting) != 0) name[0] = 0;
        if (file >= 0) close(file);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    int file = open(name, O_RDWR);
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) unlink(name);
    if (meeting == MAP_FAILED) {
        perror("meeting_open");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
}

static inline void meet(void)
{
    int round = atomic_load(&meeting->rounds);
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 == size) {
        atomic_store(&meeting->arrived, 0);
        atomic_fetch_add(&meeting->rounds, 1);
    }
    while (atomic_load(&meeting->rounds) == round) sched_yield();
}

#endif
