// ranks: 1 2 3 4 5 7
// transports: all
/* Exscan: rank r gets the reduction over ranks 0 to r - 1, in rank order; the buffer of rank 0
 * stays unchanged. */
#define PREFIX_REDUCTION MPI_Exscan
#define INCLUSIVE 0
#include "prefix_reduction.h"
