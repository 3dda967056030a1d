/*
 * fuzz_words.h - bytes that stand for words, and pieces of what they spell: for fuzzers of protocols, whose words chance
 * would never write by single bytes.
 */
#ifndef FUZZ_WORDS_H
#define FUZZ_WORDS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* From the first to the last of these, bytes are words, the list of them over and over. */
#define FIRST_WORD 0x80
#define LAST_WORD 0xef

struct words {
    const char *const *at;
    size_t count;
};
#define WORDS(list) ((struct words){list, sizeof(list) / sizeof *(list)})

/* Returns what the bytes stand for, to be freed, and its length. */
static inline char *spelled_out(const uint8_t *bytes, size_t size, struct words words, size_t *length)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, length);
    assert(stream != NULL);
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] >= FIRST_WORD && bytes[i] <= LAST_WORD)
            fputs(words.at[(size_t)(bytes[i] - FIRST_WORD) % words.count], stream);
        else
            fputc(bytes[i], stream);
    }
    fclose(stream);
    assert(text != NULL);
    return text;
}

/* The next bytes, in memory of just their size, to be freed: so the sanitizer sees who reads beyond them. */
static inline char *piece_of(const char *bytes, size_t count)
{
    char *piece = malloc(count == 0 ? 1 : count);
    assert(piece != NULL);
    memcpy(piece, bytes, count);
    return piece;
}

#endif
