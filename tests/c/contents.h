/* Contents of long buffers: the bytes depend on the rank, the round and the index. */
#ifndef CONTENTS_H
#define CONTENTS_H

#include "check.h"

static inline unsigned char byte_of(int who, int round, size_t at)
{
    return (unsigned char) (who * 37 + round * 11 + at * 5 + (at >> 9));
}

static inline void fill(unsigned char *memory, int who, int round, size_t len)
{
    for (size_t at = 0; at < len; at++) memory[at] = byte_of(who, round, at);
}

static inline int holds(const unsigned char *memory, int who, int round, size_t len)
{
    for (size_t at = 0; at < len; at++)
        if (memory[at] != byte_of(who, round, at)) return CHECK_EQ(at, -1);
    return 1;
}

#endif
