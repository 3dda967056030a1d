/*
 * shared.h - copying in and out of memory that others change at the same time.
 *
 * Copies go by atomic words, so that a torn copy is a wrong value and never undefined behaviour. Each load acquires and
 * each store releases: the words stay between whatever stamps the caller reads or writes before and after them, without
 * a fence (on x86 both are plain moves). Async-signal-safe. What goes into a segment, which programs of both word sizes
 * map, goes by words of 32 bits; what is a process's own by longer ones.
 */
#ifndef SOCKFUSE_BASE_SHARED_H
#define SOCKFUSE_BASE_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef _Atomic uint32_t __attribute__((may_alias)) shared_word;

/* `to` lies on a word's boundary in shared memory; `bytes` is a multiple of 4. */
static inline void shared_store(void *to, const void *from, size_t bytes)
{
    shared_word *words = to;
    for (size_t at = 0; at < bytes / sizeof *words; at++) {
        uint32_t word;
        memcpy(&word, (const char *)from + at * sizeof word, sizeof word);
        atomic_store_explicit(&words[at], word, memory_order_release);
    }
}

/* `from` lies on a word's boundary in shared memory; `bytes` is a multiple of 4. */
static inline void shared_load(void *to, const void *from, size_t bytes)
{
    const shared_word *words = from;
    for (size_t at = 0; at < bytes / sizeof *words; at++) {
        uint32_t word = atomic_load_explicit(&words[at], memory_order_acquire);
        memcpy((char *)to + at * sizeof word, &word, sizeof word);
    }
}

/*
 * A text that others may be writing, byte by byte: up to its end, which is written in any case. What keeps the whole
 * together is the caller's. Returns the length, or `size` for one that does not end within it.
 */
static inline size_t shared_load_text(char *text, const char *shared, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if ((text[i] = __atomic_load_n(&shared[i], __ATOMIC_ACQUIRE)) == '\0')
            return i;
    text[size - 1] = '\0';
    return size;
}

static inline void shared_store_text(char *shared, const char *text, size_t size)
{
    char byte = '\1';
    for (size_t i = 0; i < size && byte != '\0'; i++) {
        byte = i + 1 < size ? text[i] : '\0';
        __atomic_store_n(&shared[i], byte, __ATOMIC_RELEASE);
    }
}

/* How many words hold a type; its size is to be a whole number of them. */
#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

static inline void words_store(_Atomic uint64_t *words, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)from + i * sizeof word, sizeof word);
        atomic_store_explicit(&words[i], word, memory_order_release);
    }
}

/* Whether they hold these. */
static inline bool words_are(const _Atomic uint64_t *words, const void *what, size_t count)
{
    uint64_t other = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)what + i * sizeof word, sizeof word);
        other |= word ^ atomic_load_explicit(&words[i], memory_order_acquire);
    }
    return other == 0;
}

static inline void words_load(void *to, const _Atomic uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_acquire);
        memcpy((char *)to + i * sizeof word, &word, sizeof word);
    }
}

#endif
