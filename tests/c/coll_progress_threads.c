// ranks: 2 4
// transports: all
/* As coll_progress, with MPI_THREAD_MULTIPLE. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "coll_progress.c"
