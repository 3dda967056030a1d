/*
 * array.h - arrays that grow. For who may allocate: the command, and the reading of a policy.
 */
#ifndef SOCKFUSE_BASE_ARRAY_H
#define SOCKFUSE_BASE_ARRAY_H

#include <stdlib.h>

/*
 * Room for one more element behind `count`: the array as it is or moved, or NULL without memory (then the old one
 * stands). It doubles whenever `count` is a power of two, so that no capacity has to be kept.
 */
static inline void *array_grow(void *array, size_t count, size_t element_bytes)
{
    if (count != 0 && (count & (count - 1)) != 0)
        return array;
    return reallocarray(array, count == 0 ? 1 : 2 * count, element_bytes);
}

#endif
