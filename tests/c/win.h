/* Common parts of the tests of windows: the three kinds of memory of windows, and errors as
 * codes. */
#ifndef WIN_H
#define WIN_H

#include "check.h"

enum memory { ALLOCATED, FROM_HEAP, ORDINARY, KINDS };

static const char *const memory_names[] = {"MPI_Win_allocate", "MPI_Alloc_mem", "malloc"};

struct window {
    MPI_Win win;
    void *base;
    enum memory kind;
};

/* The info for windows. With CHECK_SHORT_ACCUMULATES set it has the hint that accumulates change
 * few bytes each, so that an adapter may change words of eight bytes (--mca rpi ib). The caller
 * frees it. */
static inline MPI_Info window_info(void)
{
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    if (getenv("CHECK_SHORT_ACCUMULATES")) CHECK_OK(MPI_Info_set(info, "mpi_accumulate_granularity", "8"));
    return info;
}

static inline struct window make_window(enum memory kind, MPI_Aint bytes, int disp_unit, MPI_Comm comm)
{
    struct window w = {MPI_WIN_NULL, NULL, kind};
    MPI_Info info = window_info();
    if (kind == ALLOCATED) {
        CHECK_OK(MPI_Win_allocate(bytes, disp_unit, info, comm, &w.base, &w.win));
    } else {
        if (kind == FROM_HEAP)
            CHECK_OK(MPI_Alloc_mem(bytes, MPI_INFO_NULL, &w.base));
        else
            w.base = allocate((size_t) bytes);
        CHECK_OK(MPI_Win_create(w.base, bytes, disp_unit, info, comm, &w.win));
    }
    CHECK_OK(MPI_Info_free(&info));
    memset(w.base, 0, (size_t) bytes);
    CHECK_OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
    MPI_Barrier(comm);
    return w;
}

static inline void free_window(struct window *w)
{
    CHECK_OK(MPI_Win_free(&w->win));
    CHECK(w->win == MPI_WIN_NULL);
    if (w->kind == FROM_HEAP) CHECK_OK(MPI_Free_mem(w->base));
    if (w->kind == ORDINARY) free(w->base);
}

#endif
