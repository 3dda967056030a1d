/*
 * names.c - the table of names and addresses. See names.h.
 */
#define _GNU_SOURCE
#include "connection/names.h"

#include <stdatomic.h>
#include <string.h>

#include "base/ascii.h"
#include "base/seqlock.h"
#include "base/shared.h"
#include "connection/pages.h"

/* What there is of an endpoint without its port. */
struct host {
    uint32_t family, scope_id;
    uint8_t address[16];
};

/* A pair; read and written by atomic words, since it may be rewritten while it is read. */
struct entry {
    _Atomic uint64_t hash; /* of the address; what a search looks at first */
    struct seqlock lock;   /* of all the rest but `seen` */
    _Atomic uint32_t seen; /* the odd version that the last round found */
    _Atomic uint32_t answer;
    _Atomic uint64_t host[WORDS(struct host)];
    _Atomic uint64_t name[WORDS(struct host_name)];
};

/* Of NAMES_MAX entries; roots of this file alone. */
static pages_root table;
static _Atomic uint32_t answers;
static _Atomic uint32_t next_place;
static _Atomic uint32_t used;
static _Atomic uint32_t changes;

/* --- entries --- */

static bool has_name(const struct entry *entry, const struct host_name *name)
{
    for (size_t i = 0; i < WORDS(struct host_name); i++) {
        uint64_t word;
        memcpy(&word, name->text + i * sizeof word, sizeof word);
        if (atomic_load_explicit(&entry->name[i], memory_order_acquire) != word)
            return false;
        if (!name->text[(i + 1) * sizeof word - 1])
            return true; /* nothing but zeros behind it */
    }
    return true;
}

static void entry_write(struct entry *entry, const struct endpoint *address, const struct host_name *name,
                        uint64_t hash, uint32_t answer)
{
    struct host host = {(uint32_t)address->family, address->scope_id, {0}};
    uint32_t version;
    memcpy(host.address, address->address, sizeof host.address);
    /*
     * Whoever finds another writer inside leaves the entry to it: one forgotten name is no harm, waiting would be. If
     * it is there after a whole round of the table too, it was jumped out of, or is the parent's.
     */
    if (!seqlock_look(&entry->lock, &version) &&
        atomic_exchange_explicit(&entry->seen, version, memory_order_relaxed) != version)
        return;
    const uint32_t mine = seqlock_begin(&entry->lock, version);
    if (mine == 0)
        return;
    words_store(entry->host, &host, WORDS(struct host));
    words_store(entry->name, name, WORDS(struct host_name));
    /* Release: see seqlock.h. */
    atomic_store_explicit(&entry->answer, answer, memory_order_release);
    atomic_store_explicit(&entry->hash, hash, memory_order_release);
    seqlock_end(&entry->lock, mine);
}

/* How many there are to be looked at. */
static uint32_t entries_used(struct entry **entries)
{
    *entries = pages_present(&table);
    uint32_t count = *entries ? atomic_load_explicit(&used, memory_order_relaxed) : 0;
    return count < NAMES_MAX ? count : NAMES_MAX;
}

/* --- noting --- */

uint32_t names_new_answer(void)
{
    return atomic_fetch_add_explicit(&answers, 1, memory_order_relaxed) + 1;
}

/* False: it is no name, or too long for one. */
static bool make_name(struct host_name *name, const char *text)
{
    size_t length = strnlen(text, HOST_NAME_SIZE + 1);
    if (length && text[length - 1] == '.')
        length--;
    if (length == 0 || length >= HOST_NAME_SIZE)
        return false;
    memset(name, 0, sizeof *name);
    for (size_t i = 0; i < length; i++)
        name->text[i] = ascii_lower(text[i]);
    return true;
}

/* A pair that is known has a new answer. */
static bool renew(struct entry *entry, uint64_t hash, const struct host_name *name, uint32_t answer)
{
    uint32_t version;
    if (atomic_load_explicit(&entry->hash, memory_order_relaxed) != hash || !seqlock_look(&entry->lock, &version) ||
        !has_name(entry, name) || !seqlock_stands(&entry->lock, version))
        return false;
    atomic_store_explicit(&entry->answer, answer, memory_order_relaxed);
    return true;
}

/* Release: who knows the number finds the pair. */
static void has_changed(void)
{
    atomic_fetch_add_explicit(&changes, 1, memory_order_release);
}

void names_note(uint32_t answer, const char *text, const struct endpoint *address)
{
    struct host_name name;
    struct entry *entries = pages_needed(&table, NAMES_MAX * sizeof *entries);
    if (!entries || !make_name(&name, text))
        return;
    const uint64_t hash = endpoint_host_hash(address);
    const uint32_t count = entries_used(&entries);
    for (uint32_t i = 0; i < count; i++)
        if (renew(&entries[i], hash, &name, answer)) {
            has_changed();
            return;
        }
    uint32_t place = atomic_fetch_add_explicit(&next_place, 1, memory_order_relaxed) % NAMES_MAX;
    entry_write(&entries[place], address, &name, hash, answer);
    if (atomic_load_explicit(&used, memory_order_relaxed) < NAMES_MAX)
        atomic_fetch_add_explicit(&used, 1, memory_order_relaxed);
    has_changed();
}

uint32_t names_changes(void)
{
    return atomic_load_explicit(&changes, memory_order_acquire);
}

/* --- asking --- */

/* The entry of that address with the latest answer before this one; NULL: none. */
static struct entry *latest_before(uint64_t hash, uint32_t *answer)
{
    struct entry *entries, *latest = NULL;
    const uint32_t count = entries_used(&entries);
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t one = atomic_load_explicit(&entries[i].answer, memory_order_relaxed);
        if (one < *answer && one > found && atomic_load_explicit(&entries[i].hash, memory_order_relaxed) == hash) {
            latest = &entries[i];
            found = one;
        }
    }
    *answer = found;
    return latest;
}

bool names_next(const struct endpoint *address, uint32_t *answer, struct host_name *name)
{
    const uint64_t hash = endpoint_host_hash(address);
    struct entry *entry;
    while ((entry = latest_before(hash, answer)) != NULL) {
        uint32_t version;
        if (!seqlock_look(&entry->lock, &version))
            continue; /* it is given to another pair */
        words_load(name, entry->name, WORDS(struct host_name));
        if (atomic_load_explicit(&entry->hash, memory_order_relaxed) == hash && seqlock_stands(&entry->lock, version)) {
            name->text[HOST_NAME_SIZE - 1] = '\0';
            return true;
        }
    }
    return false;
}

/* What the endpoint with that port is known by. */
static uint64_t key_of(const struct host *host, uint16_t port)
{
    struct endpoint endpoint = {.family = (enum endpoint_family)host->family, .scope_id = host->scope_id, .port = port};
    memcpy(endpoint.address, host->address, sizeof endpoint.address);
    return endpoint_hash(&endpoint);
}

size_t names_siblings(const struct host_name *name, uint16_t port, uint64_t *hashes, size_t limit)
{
    struct entry *entries;
    const uint32_t known = entries_used(&entries);
    uint32_t latest = 0;
    size_t count = 0;
    for (uint32_t i = 0; i < known; i++) {
        struct host host;
        uint32_t version;
        if (!seqlock_look(&entries[i].lock, &version) || !has_name(&entries[i], name))
            continue;
        const uint32_t answer = atomic_load_explicit(&entries[i].answer, memory_order_relaxed);
        words_load(&host, entries[i].host, WORDS(struct host));
        if (!seqlock_stands(&entries[i].lock, version))
            continue;
        if (answer > latest) {
            latest = answer;
            count = 0;
        }
        if (answer == latest && count < limit)
            hashes[count++] = key_of(&host, port);
    }
    return count;
}
