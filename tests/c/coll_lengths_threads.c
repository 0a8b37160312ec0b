// ranks: 2 4
// transports: near
/* As coll_lengths, where several threads may call. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "coll_lengths.c"
