// ranks: 2 4
/* As coll_lengths, where several threads may call. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "coll_lengths.c"
