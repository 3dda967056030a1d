/*
 * handover.c - the edited policies behind a segment's tables, and the number of the last. See handover.h.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/handover.h"

#include <errno.h>

#include "base/bare.h"
#include "base/clock.h"
#include "base/frame.h"
#include "base/undisturbed.h"
#include "policy/flat.h"
#include "segment/behind.h"
#include "segment/folder.h"
#include "segment/layout.h"

/* Another command that is stopped in the middle must not stop all others for ever. */
#define LOCK_TRIES 1000u
#define LOCK_TRIES_SOON 20u
#define READ_TRIES 4u

/* --- writing --- */

/* A hand-over's time; by its last bit it is known for that of the next one, whose command was killed before its end. */
static uint64_t time_of(uint32_t number, uint64_t real_ns)
{
    return (real_ns & ~UINT64_C(1)) | (number & 1);
}

/* Returns 0 or an errno. */
static int write_next(int fd, struct segment *segment, const void *bytes, size_t size)
{
    uint32_t number = atomic_load_explicit(&segment->map->reloads, memory_order_relaxed) + 1;
    uint64_t at;
    number = number != 0 ? number : 2; /* 0 is none; the place of an even one */
    int code = behind_write(fd, segment, number, bytes, size, &at);
    if (code != 0)
        return code;
    atomic_store_explicit(&segment->map->handover_at[number & 1], at, memory_order_relaxed);
    atomic_store_explicit(&segment->map->reloaded_ns, time_of(number, clock_real_ns()), memory_order_relaxed);
    /* Release: who sees the number finds the time, the place, and what was written there before. */
    atomic_store_explicit(&segment->map->reloads, number, memory_order_release);
    return 0;
}

static bool write_within(struct segment *segment, const void *bytes, size_t size, unsigned int tries,
                         struct segment_error *error)
{
    const char *path = segment->path;
    if (path[0] == '\0' || size == 0 || size > POLICY_FLAT_MAX)
        return segment_fail(error, path, "a policy can't be handed over here", EINVAL);
    int fd = behind_open(segment, tries);
    if (fd < 0 && errno == ESTALE)
        return segment_fail(error, path, "the segment was replaced meanwhile; try again", 0);
    if (fd < 0 && errno == EBUSY)
        return segment_fail(error, path, "another command hands a policy over, and does not come to an end", EBUSY);
    int code = fd >= 0 ? write_next(fd, segment, bytes, size) : errno;
    if (fd >= 0)
        bare_close(fd);
    return code == 0 || segment_fail(error, path, "the policy can't be handed over", code);
}

bool handover_write(struct segment *segment, const void *bytes, size_t size, struct segment_error *error)
{
    return write_within(segment, bytes, size, LOCK_TRIES, error);
}

bool handover_write_soon(struct segment *segment, const void *bytes, size_t size, struct segment_error *error)
{
    return write_within(segment, bytes, size, LOCK_TRIES_SOON, error);
}

/* --- the number --- */

const _Atomic uint32_t *handover_number(const struct segment *segment)
{
    return &segment->map->reloads;
}

bool handover_was_since(const struct segment *segment, uint64_t real_ns)
{
    /* Acquire: see write_next. */
    uint32_t number = atomic_load_explicit(&segment->map->reloads, memory_order_acquire);
    uint64_t reloaded_ns = atomic_load_explicit(&segment->map->reloaded_ns, memory_order_relaxed);
    return number != 0 && ((reloaded_ns ^ number) & 1) == 0 && (reloaded_ns | 1) >= real_ns;
}

/* --- reading --- */

static void *read_last(const struct segment *segment, size_t most, size_t *size, bool *again)
{
    for (unsigned int tries = 0; tries < READ_TRIES; tries++) {
        /* Acquire: see write_next. */
        uint32_t number = atomic_load_explicit(&segment->map->reloads, memory_order_acquire);
        uint64_t at = atomic_load_explicit(&segment->map->handover_at[number & 1], memory_order_relaxed);
        void *bytes = number != 0 ? behind_read(segment, at, number, most, size, again) : NULL;
        if (bytes != NULL || *again || atomic_load_explicit(&segment->map->reloads, memory_order_relaxed) == number)
            return bytes;
    }
    *again = true; /* it is written faster than it can be read */
    return NULL;
}

OWN_FRAME void *handover_read(const struct segment *segment, size_t most, size_t *size, bool *again)
{
    struct undisturbed before;
    *again = false;
    if (segment->inode == 0) /* a private one */
        return NULL;
    undisturbed_begin(&before);
    void *bytes = read_last(segment, most, size, again);
    undisturbed_end(&before);
    return bytes;
}

void handover_free(void *bytes, size_t size)
{
    behind_free(bytes, size);
}
