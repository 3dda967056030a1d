/*
 * names.c - the table of names and addresses. See names.h.
 */
#define _GNU_SOURCE
#include "preload/names.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "preload/pages.h"

#define WORDS(type) ((sizeof(type) + 7) / 8)

/* What one pair holds; copied in and out by atomic words, since it may be rewritten while it is read. */
struct pair {
    struct endpoint address;
    char name[HOST_NAME_SIZE];
};

struct entry {
    _Atomic uint64_t host;    /* hash of the address; what a search looks at first */
    _Atomic uint32_t version; /* odd while it is written */
    _Atomic uint32_t answer;
    _Atomic uint64_t words[WORDS(struct pair)];
};

/* Of NAMES_MAX entries; roots of this file alone. */
static pages_root table;
static _Atomic uint32_t answers;
static _Atomic uint32_t next_place;
static _Atomic uint32_t used;

/* Copies a pair out; false if it was written meanwhile. */
static bool entry_read(struct entry *entry, struct pair *pair, uint32_t *answer)
{
    uint64_t copy[WORDS(struct pair)];
    uint32_t before = atomic_load_explicit(&entry->version, memory_order_acquire);
    if (before & 1)
        return false;
    for (size_t i = 0; i < WORDS(struct pair); i++)
        copy[i] = atomic_load_explicit(&entry->words[i], memory_order_relaxed);
    *answer = atomic_load_explicit(&entry->answer, memory_order_relaxed);
    /* The words were read before the version is read again. */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&entry->version, memory_order_relaxed) != before)
        return false;
    memcpy(pair, copy, sizeof *pair);
    pair->name[HOST_NAME_SIZE - 1] = '\0';
    return true;
}

static void entry_write(struct entry *entry, const struct pair *pair, uint64_t host, uint32_t answer)
{
    uint64_t copy[WORDS(struct pair)] = {0};
    uint32_t version = atomic_load_explicit(&entry->version, memory_order_relaxed);
    /* Whoever finds another writer inside leaves the entry to it: one forgotten name is no harm, waiting would be. */
    if ((version & 1) || !atomic_compare_exchange_strong_explicit(&entry->version, &version, version + 1,
                                                                  memory_order_acquire, memory_order_relaxed))
        return;
    memcpy(copy, pair, sizeof *pair);
    atomic_thread_fence(memory_order_release); /* the odd version is visible before the words change */
    for (size_t i = 0; i < WORDS(struct pair); i++)
        atomic_store_explicit(&entry->words[i], copy[i], memory_order_relaxed);
    atomic_store_explicit(&entry->answer, answer, memory_order_relaxed);
    atomic_store_explicit(&entry->host, host, memory_order_relaxed);
    atomic_store_explicit(&entry->version, version + 2, memory_order_release);
}

/* How many there are to be looked at. */
static uint32_t entries_used(struct entry **entries)
{
    *entries = pages_present(&table);
    if (!*entries)
        return 0;
    uint32_t count = atomic_load_explicit(&used, memory_order_relaxed);
    return count < NAMES_MAX ? count : NAMES_MAX;
}

uint32_t names_new_answer(void)
{
    return atomic_fetch_add_explicit(&answers, 1, memory_order_relaxed) + 1;
}

void names_note(uint32_t answer, const char *name, const struct endpoint *address)
{
    struct pair pair, present;
    size_t length = strlen(name);
    if (length && name[length - 1] == '.')
        length--;
    if (length == 0 || length >= HOST_NAME_SIZE)
        return;
    memset(&pair, 0, sizeof pair);
    pair.address = *address;
    pair.address.port = 0;
    memcpy(pair.name, name, length);
    uint64_t host = endpoint_host_hash(&pair.address);
    struct entry *entries = pages_needed(&table, NAMES_MAX * sizeof *entries);
    const uint32_t count = entries_used(&entries);
    if (!entries)
        return;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t old;
        if (atomic_load_explicit(&entries[i].host, memory_order_relaxed) == host &&
            entry_read(&entries[i], &present, &old) && !strcasecmp(present.name, pair.name)) {
            atomic_store_explicit(&entries[i].answer, answer, memory_order_relaxed);
            return;
        }
    }
    uint32_t place = atomic_fetch_add_explicit(&next_place, 1, memory_order_relaxed) % NAMES_MAX;
    entry_write(&entries[place], &pair, host, answer);
    if (atomic_load_explicit(&used, memory_order_relaxed) < NAMES_MAX)
        atomic_fetch_add_explicit(&used, 1, memory_order_relaxed);
}

size_t names_of(const struct endpoint *address, char (*names)[HOST_NAME_SIZE], size_t limit)
{
    uint64_t host = endpoint_host_hash(address);
    uint32_t answer_of[16];
    struct entry *entries;
    const uint32_t known = entries_used(&entries);
    size_t count = 0;
    if (limit > 16)
        limit = 16;
    for (uint32_t i = 0; i < known; i++) {
        struct pair pair;
        uint32_t answer;
        if (atomic_load_explicit(&entries[i].host, memory_order_relaxed) != host ||
            !entry_read(&entries[i], &pair, &answer))
            continue;
        /* Insertion by recency; the oldest falls off the end. */
        size_t place = count;
        while (place > 0 && answer_of[place - 1] < answer)
            place--;
        if (place >= limit)
            continue;
        if (count < limit)
            count++;
        for (size_t j = count - 1; j > place; j--) {
            answer_of[j] = answer_of[j - 1];
            memcpy(names[j], names[j - 1], HOST_NAME_SIZE);
        }
        answer_of[place] = answer;
        memcpy(names[place], pair.name, HOST_NAME_SIZE);
    }
    return count;
}

size_t names_siblings(const char *name, uint16_t port, uint64_t *hashes, size_t limit)
{
    struct entry *entries;
    const uint32_t known = entries_used(&entries);
    uint32_t latest = 0;
    size_t count = 0;
    for (uint32_t i = 0; i < known; i++) {
        struct pair pair;
        uint32_t answer;
        if (!entry_read(&entries[i], &pair, &answer) || strcasecmp(pair.name, name))
            continue;
        if (answer > latest) {
            latest = answer;
            count = 0;
        }
        if (answer == latest && count < limit) {
            pair.address.port = port;
            hashes[count++] = endpoint_hash(&pair.address);
        }
    }
    return count;
}
