/*
 * flat.c - a policy in one piece: a header with the policy itself, all targets, all patterns in the targets' order,
 * room for the index, which who reads makes, and all texts.
 *
 * The parts follow each other without a choice, so reading needs no trust: each array must begin where the one before
 * it ended, and each text lies behind them all, in front of a zero byte at the very end. Pointers are written as
 * offsets from the beginning; a text's offset is never 0.
 */
#include "policy/flat.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "policy/index.h"
#include "policy/sane.h"
#include "policy/target.h"

#ifndef SOCKFUSE_VERSION
#define SOCKFUSE_VERSION "unknown"
#endif

#define FLAT_MAGIC UINT64_C(0x3174616c6b636f73) /* "socklat1", little endian */

struct flat {
    uint64_t magic;
    uint64_t layout; /* of which version and word size */
    uint64_t size;   /* of the whole */
    uint64_t checksum;
    struct policy policy;
};
_Static_assert(alignof(struct flat) <= 16 && alignof(struct target) <= 16 && alignof(struct pattern) <= 16, "see pad");

static uint64_t mix(uint64_t sum, uint64_t word)
{
    sum = (sum ^ word) * HASH_STEP;
    return sum ^ sum >> 29;
}

/* A policy of another layout is not for us, even if all of its numbers look right. */
static uint64_t layout_here(void)
{
    static const char version[] = SOCKFUSE_VERSION;
    uint64_t sum = mix(FLAT_MAGIC, sizeof(void *));
    sum = mix(sum, (uint64_t)sizeof(struct flat) << 32 | sizeof(struct target));
    sum = mix(sum, (uint64_t)sizeof(struct pattern) << 32 | KEYS);
    for (size_t i = 0; i < sizeof version; i++)
        sum = mix(sum, (unsigned char)version[i]);
    return sum;
}

/* Over everything but the sum's own place. The size is a multiple of a word's. */
static uint64_t checksum_of(const void *bytes, size_t size)
{
    uint64_t sum = FLAT_MAGIC;
    for (size_t at = 0; at < size; at += sizeof sum) {
        uint64_t word;
        memcpy(&word, (const char *)bytes + at, sizeof word);
        sum = mix(sum, at == offsetof(struct flat, checksum) ? 0 : word);
    }
    return sum;
}

/* Each part begins on 16 bytes' boundary. */
static size_t pad(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static size_t targets_at(void)
{
    return pad(sizeof(struct flat));
}

/* --- writing --- */

struct writer {
    char *bytes;
    size_t texts; /* where the next text goes */
};

static size_t text_size(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

/* Instead of the pointer its offset; 0 for none. */
static char *offset(size_t at)
{
    return (char *)(uintptr_t)at;
}

static char *write_text(struct writer *writer, const char *text)
{
    const size_t at = writer->texts, size = text_size(text);
    if (size == 0)
        return NULL;
    memcpy(writer->bytes + at, text, size);
    writer->texts += size;
    return offset(at);
}

/* Where the texts begin, and the size of the whole. */
static size_t measure(const struct policy *policy, size_t *texts)
{
    size_t patterns = 0, bytes = text_size(policy->path) + text_size(policy->identity) + text_size(policy->text);
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        patterns += target->pattern_count;
        for (size_t j = 0; j < target->pattern_count; j++)
            bytes += text_size(target->patterns[j].text) + text_size(target->patterns[j].host);
    }
    *texts = pad(targets_at() + policy->target_count * sizeof(struct target)) + pad(patterns * sizeof(struct pattern)) +
             pad(index_size(policy));
    return pad(*texts + bytes + 1);
}

static void write_all(struct writer *writer, const struct policy *policy)
{
    size_t patterns_at = pad(targets_at() + policy->target_count * sizeof(struct target));
    struct flat *flat = (struct flat *)(void *)writer->bytes;
    struct target *targets = (struct target *)(void *)(writer->bytes + targets_at());
    flat->policy = *policy;
    flat->policy.index = (struct policy_index){0};
    flat->policy.path = write_text(writer, policy->path);
    flat->policy.identity = write_text(writer, policy->identity);
    flat->policy.text = write_text(writer, policy->text);
    flat->policy.targets = (struct target *)(void *)offset(targets_at());
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        struct pattern *patterns = (struct pattern *)(void *)(writer->bytes + patterns_at);
        targets[i] = *target;
        targets[i].patterns = (struct pattern *)(void *)offset(patterns_at);
        for (size_t j = 0; j < target->pattern_count; j++) {
            patterns[j] = target->patterns[j];
            patterns[j].text = write_text(writer, target->patterns[j].text);
            patterns[j].host = write_text(writer, target->patterns[j].host);
        }
        patterns_at += target->pattern_count * sizeof(struct pattern);
    }
}

void *policy_flatten(const struct policy *policy, size_t *size)
{
    struct writer writer;
    *size = measure(policy, &writer.texts);
    if (*size > POLICY_FLAT_MAX || (writer.bytes = calloc(1, *size)) == NULL)
        return NULL;
    write_all(&writer, policy);
    struct flat *flat = (struct flat *)(void *)writer.bytes;
    flat->magic = FLAT_MAGIC;
    flat->layout = layout_here();
    flat->size = *size;
    flat->checksum = checksum_of(writer.bytes, *size);
    return writer.bytes;
}

/* --- reading --- */

struct reader {
    char *bytes;
    size_t size;
    size_t index; /* where its room begins */
    size_t texts; /* and they */
};

/* The text at an offset that stands in a pointer; it ends within the whole, whose last byte is 0. */
static bool read_text(const struct reader *reader, char **text, bool may_be_none)
{
    const uintptr_t at = (uintptr_t)*text;
    if (at == 0 && may_be_none)
        return true;
    if (at < reader->texts || at >= reader->size)
        return false;
    *text = reader->bytes + at;
    return true;
}

/* An array of `count` that must begin at `at`; its end, or 0 if it does not lie in the whole. */
static size_t array_end(const struct reader *reader, const void *stands, size_t at, size_t count, size_t element)
{
    if ((uintptr_t)stands != at || at > reader->size || count > (reader->size - at) / element)
        return 0;
    return at + count * element;
}

static bool read_pattern(const struct reader *reader, struct pattern *pattern)
{
    return pattern_is_sane(pattern) && read_text(reader, &pattern->text, false) &&
           read_text(reader, &pattern->host, !pattern_needs_host(pattern));
}

/* The patterns lie one target's behind the other's; the index and the texts behind them all. */
static bool place_patterns(struct reader *reader, struct policy *policy)
{
    struct target *targets = policy->targets;
    const size_t count = policy->target_count;
    size_t at = pad(targets_at() + count * sizeof *targets);
    const size_t first = at;
    for (size_t i = 0; i < count; i++) {
        at = array_end(reader, targets[i].patterns, at, targets[i].pattern_count, sizeof(struct pattern));
        if (at == 0)
            return false;
        targets[i].patterns = (struct pattern *)(void *)(reader->bytes + (uintptr_t)targets[i].patterns);
    }
    reader->index = first + pad(at - first);
    reader->texts = reader->index + pad(index_size(policy));
    return true;
}

static bool read_targets(struct reader *reader, struct policy *policy)
{
    if (array_end(reader, policy->targets, targets_at(), policy->target_count, sizeof(struct target)) == 0)
        return false;
    policy->targets = (struct target *)(void *)(reader->bytes + targets_at());
    if (!place_patterns(reader, policy))
        return false;
    for (size_t i = 0; i < policy->target_count; i++) {
        struct target *target = &policy->targets[i];
        if (!target_is_sane(target))
            return false;
        for (size_t j = 0; j < target->pattern_count; j++) {
            if (!read_pattern(reader, &target->patterns[j]))
                return false;
        }
    }
    return true;
}

static const char *const faults[FLAT_FAULTS] = {
    [FLAT_GOOD] = "it is good",           [FLAT_CUT] = "it is cut short",
    [FLAT_NO_POLICY] = "it is no policy", [FLAT_OTHER_BUILD] = "it is of another version or word size",
    [FLAT_DAMAGED] = "it is damaged",     [FLAT_OTHER_POLICY] = "it is another policy's",
};

const char *flat_fault_text(unsigned int fault)
{
    return fault < FLAT_FAULTS ? faults[fault] : "it is wrong";
}

enum flat_fault flat_fault_of(const char *why)
{
    unsigned int fault = FLAT_GOOD;
    while (why != NULL && fault < FLAT_FAULTS && faults[fault] != why)
        fault++;
    return why == NULL ? FLAT_GOOD : fault < FLAT_FAULTS ? (enum flat_fault)fault : FLAT_DAMAGED;
}

/* What is wrong with the piece as a whole; NULL: nothing. */
static const char *wrong_with(const struct reader *reader)
{
    const struct flat *flat = (const struct flat *)(const void *)reader->bytes;
    if (reader->size < sizeof *flat || reader->size % sizeof(uint64_t) != 0)
        return faults[FLAT_CUT];
    if (flat->magic != FLAT_MAGIC)
        return faults[FLAT_NO_POLICY];
    if (flat->layout != layout_here())
        return faults[FLAT_OTHER_BUILD];
    if (flat->size != reader->size)
        return faults[FLAT_CUT];
    if (reader->bytes[reader->size - 1] != '\0' || checksum_of(reader->bytes, reader->size) != flat->checksum)
        return faults[FLAT_DAMAGED];
    return NULL;
}

const struct policy *policy_unfold(void *bytes, size_t size, const char *identity, const char **why)
{
    struct reader reader = {.bytes = bytes, .size = size};
    if ((*why = wrong_with(&reader)) != NULL)
        return NULL;
    struct policy *policy = &((struct flat *)bytes)->policy;
    *why = faults[FLAT_DAMAGED];
    if (!capacity_is_sane(&policy->capacity) || !read_targets(&reader, policy) ||
        !read_text(&reader, &policy->path, true) || !read_text(&reader, &policy->identity, false) ||
        !read_text(&reader, &policy->text, true))
        return NULL;
    policy_note_kinds(policy);
    memset(reader.bytes + reader.index, 0, reader.texts - reader.index);
    index_build(policy, reader.bytes + reader.index);
    if (strcmp(policy->identity, identity) != 0) {
        *why = faults[FLAT_OTHER_POLICY];
        return NULL;
    }
    *why = NULL;
    return policy;
}
