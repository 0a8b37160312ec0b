// ranks: 2 4
// transports: all
/* As coll_progress, where several threads may call. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "coll_progress.c"
