// ranks: 1 2 3 4 5 7
// transports: all
// every day: nodes
/* Scan: rank r gets the reduction over ranks 0 to r, in rank order, also in place. */
#define PREFIX_REDUCTION MPI_Scan
#define INCLUSIVE 1
#include "prefix_reduction.h"
