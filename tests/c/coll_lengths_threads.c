// ranks: 2 4
// transports: near
/* As coll_lengths, with MPI_THREAD_MULTIPLE. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "coll_lengths.c"
