/*
 * hpack_huffman.h - the Huffman code of HPACK (RFC 7541, 5.2 and appendix B), symbol by symbol.
 *
 * Its codes are canonical: of one length they are consecutive numbers, in the order of their symbols. So how many there
 * are of each length, and the symbols in order, say all. Pure; async-signal-safe. For hpack.c and tests.
 */
#ifndef SOCKFUSE_BREAKER_HPACK_HUFFMAN_H
#define SOCKFUSE_BREAKER_HPACK_HUFFMAN_H

#include <stdint.h>

#define HUFFMAN_SHORTEST 5u
#define HUFFMAN_LONGEST 30u

/*
 * The symbol that these bits begin with, of which the `count` lower ones of `bits` are known, the first one highest.
 * Returns how many bits it has; 0: more are needed, or (with HUFFMAN_LONGEST) it is the code's end, which stands in no
 * string.
 */
unsigned int huffman_take(uint64_t bits, unsigned int count, unsigned char *symbol);

#endif
