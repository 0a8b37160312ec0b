// ranks: 2 4
// not over: gm, because ranks on nodes of their own have no memory in which their lengths are compared
/* As coll_lengths, where several threads may call. */
#define LEVEL MPI_THREAD_MULTIPLE
#include "coll_lengths.c"
