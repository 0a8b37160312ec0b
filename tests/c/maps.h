/* A reduction that is associative and not commutative, for tests of rank order. */
#ifndef MAPS_H
#define MAPS_H

#include "check.h"

/* An affine map x -> a x + b: composing two is associative and not commutative. */
struct map { uint32_t a, b; };

static struct map then(struct map first, struct map second)
{
    return (struct map){first.a * second.a, first.b * second.a + second.b};
}

static void compose(void *in, void *inout, int *length, MPI_Datatype *type)
{
    struct map *x = in, *y = inout;
    (void) type;
    for (int i = 0; i < *length; i++) y[i] = then(x[i], y[i]);
}

static struct map map_of(int whose, int i) { return (struct map){(uint32_t) (2 * whose + 3), (uint32_t) (i + 7 * whose)}; }

#endif
