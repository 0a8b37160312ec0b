/* Checks that messages took the transport under test. CHECK_MOVED names performance variables,
 * with commas between them. A job of several ranks fails if all of them are still 0 on all ranks
 * at the end. For programs with check.h or must.h, whose CHECK it uses. */
#ifndef MOVED_H
#define MOVED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOVED_MOST = 4 };
static MPI_T_pvar_session moved_session;
static MPI_T_pvar_handle moved_counter[MOVED_MOST];
static int moved_counters = 0;

/* Starts the performance variables, after MPI_Init. */
static inline void moved_begin(void)
{
    const char *names = getenv("CHECK_MOVED");
    int provided, handles;
    if (!names) return;
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_session_create(&moved_session) == MPI_SUCCESS);
    while (*names && moved_counters < MOVED_MOST) {
        char name[64];
        int index = -1, length = (int) strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", length, names);
        names += length + (names[length] == ',');
        MPI_T_pvar_handle *counter = &moved_counter[moved_counters++];
        if (MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS)
            CHECK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_AGGREGATE, &index) == MPI_SUCCESS);
        CHECK(MPI_T_pvar_handle_alloc(moved_session, index, NULL, counter, &handles) == MPI_SUCCESS);
        CHECK(MPI_T_pvar_start(moved_session, *counter) == MPI_SUCCESS);
    }
}

static inline void moved_end(void)
{
    unsigned long long moved = 0, all = 0;
    int ranks;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (moved_counters == 0 || ranks < 2) return;
    for (int i = 0; i < moved_counters; i++) {
        unsigned long long value = 0;
        CHECK(MPI_T_pvar_read(moved_session, moved_counter[i], &value) == MPI_SUCCESS);
        moved += value;
    }
    MPI_T_pvar_session_free(&moved_session);
    MPI_T_finalize();
    moved_counters = 0;
    MPI_Allreduce(&moved, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (all == 0) fprintf(stderr, "no message is counted by %s\n", getenv("CHECK_MOVED"));
    CHECK(all > 0);
}

#endif
