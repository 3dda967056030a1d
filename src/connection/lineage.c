/*
 * lineage.c - telling a process from its fork's and vfork's children. See lineage.h.
 */
#define _GNU_SOURCE
#include "connection/lineage.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hot.h"
#include "connection/engine.h"
#include "connection/pool.h"
#include "connection/system.h"

/* Ordinary memory, which a child inherits, until we have started; and before Linux 4.14, which can't wipe. */
static struct lineage_page fallback;
struct lineage_page *lineage_page = &fallback;
static _Atomic uint32_t forks;
static _Atomic uint64_t last_child_ns;
/* A program that waits for anything after its fork takes longer. */
#define HANDED_OVER_WITHIN_NS (30 * NS_PER_MS)
static _Atomic uint32_t last_epoch; /* inherited by children, so that theirs differ */

/*
 * Since when this thread may have a child in its memory (real clock; 0: it has none). Such a child has its maker's
 * thread-local data, and its maker waits until it is gone: so who finds the mark and the process's own pid is the
 * maker, and goes on alone. But a signal's handler may come between the mark and the child: the mark stands for a
 * second.
 */
static __thread _Atomic uint64_t lent_ns;
#define LENT_FOR_NS NS_PER_S
/* Some child may run beside its maker, or with thread-local data of its own; or the page could not be had. */
static _Atomic bool is_shared;

/* Threads may race; one of them wins, all see its epoch. */
uint32_t lineage_new_epoch(void)
{
    struct lineage_page *page = lineage_page;
    uint32_t epoch = atomic_load_explicit(&last_epoch, memory_order_relaxed) + 1;
    uint32_t none = 0;
    if (epoch == 0)
        epoch = 1;
    /* The pid first: whoever sees the epoch (acquire) sees it. */
    atomic_store_explicit(&page->pid, (uint32_t)sys.getpid(), memory_order_relaxed);
    if (!atomic_compare_exchange_strong_explicit(&page->epoch, &none, epoch, memory_order_acq_rel,
                                                 memory_order_acquire))
        return none;
    atomic_store_explicit(&last_epoch, epoch, memory_order_relaxed);
    /* A child that waits for what an ancestor's connection says is to be seen waiting. */
    if (epoch > 1 && pool_high() > 0)
        atomic_store_explicit(&engine.tends_waits, true, memory_order_relaxed);
    return epoch;
}

/*
 * What children do with connections: real time in ms:32 | a part of the connection's entry:31 | whether one waits on it
 * at this moment:1, each at its place. Shared with all descendants; NULL: nothing was connected yet, or there was no
 * memory. Of two connections that
 * have the same place one is forgotten.
 */
#define WAITS_NOW UINT64_C(1)
static _Atomic(_Atomic uint64_t *) taken_over;
#define TAKEN_OVER_PLACES (4096u / sizeof(uint64_t)) /* a page, or a part of one */

static uint32_t part_of(uint64_t entry)
{
    return ((uint32_t)(entry >> 8) ^ (uint32_t)(entry >> 40)) & (UINT32_MAX >> 1);
}

static _Atomic uint64_t *place_of(uint64_t entry)
{
    _Atomic uint64_t *places = atomic_load_explicit(&taken_over, memory_order_acquire);
    return places ? &places[part_of(entry) % TAKEN_OVER_PLACES] : NULL;
}

void lineage_connects(void)
{
    _Atomic uint64_t *none = NULL;
    if (__builtin_expect(atomic_load_explicit(&taken_over, memory_order_relaxed) != NULL, 1))
        return;
    const size_t size = TAKEN_OVER_PLACES * sizeof *none;
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared != MAP_FAILED && !atomic_compare_exchange_strong_explicit(&taken_over, &none, shared,
                                                                         memory_order_acq_rel, memory_order_relaxed))
        munmap(shared, size); /* another thread's is the one */
}

static void mark(uint64_t entry, uint64_t waits)
{
    _Atomic uint64_t *place = place_of(entry);
    uint64_t now_ms = clock_real_ns() / NS_PER_MS;
    if (place)
        atomic_store_explicit(place, now_ms << 32 | (uint64_t)part_of(entry) << 1 | waits, memory_order_relaxed);
}

void lineage_take_over(uint64_t entry)
{
    mark(entry, 0);
}

void lineage_wait_on(uint64_t entry)
{
    mark(entry, WAITS_NOW);
}

/* The mark of that connection, or 0. */
static uint64_t mark_of(uint64_t entry)
{
    _Atomic uint64_t *place = place_of(entry);
    uint64_t found = place ? atomic_load_explicit(place, memory_order_relaxed) : 0;
    return (uint32_t)found >> 1 == part_of(entry) ? found : 0;
}

bool lineage_is_taken_over(uint64_t entry, uint64_t since_ns)
{
    uint64_t found = mark_of(entry);
    return found != 0 &&
           ((found & WAITS_NOW) != 0 || (int32_t)((uint32_t)(found >> 32) - (uint32_t)(since_ns / NS_PER_MS)) >= 0);
}

bool lineage_is_waited_on(uint64_t entry)
{
    return (mark_of(entry) & WAITS_NOW) != 0;
}

void lineage_note_child(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
    atomic_store_explicit(&last_child_ns, clock_real_ns(), memory_order_relaxed);
}

bool lineage_has_just_made_child(uint64_t since_ns, uint64_t now_ns)
{
    uint64_t last_ns = atomic_load_explicit(&last_child_ns, memory_order_relaxed);
    return last_ns >= since_ns && now_ns - last_ns < HANDED_OVER_WITHIN_NS;
}

/*
 * In a fork's child, before the program's own code runs there: the child knows itself. Otherwise a vfork of the child's
 * could be the first to look, and take its own pid for the child's. A vfork does not run this, which is what we want; a
 * raw clone neither: then the wiped page tells.
 */
static void begin_child(void)
{
    lineage_note_child();
    atomic_store_explicit(&lineage_page->epoch, 0, memory_order_relaxed);
    lineage_new_epoch();
}

void lineage_start(void)
{
    const unsigned long size = getauxval(AT_PAGESZ);
    bool is_wiped = false;
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
        is_wiped = madvise(page, size, MADV_WIPEONFORK) == 0;
        if (is_wiped)
            lineage_page = page;
        else
            munmap(page, size);
    }
    if (!is_wiped) /* a child by a raw clone is known by its pid alone */
        atomic_store_explicit(&is_shared, true, memory_order_relaxed);
    pthread_atfork(NULL, lineage_note_child, begin_child);
    lineage_new_epoch(); /* it writes first: to read the page first would be two faults */
}

bool lineage_is_borrowed(void)
{
    lineage_epoch();
    bool is_borrowed = lineage_pid() != (uint32_t)sys.getpid();
    if (is_borrowed)
        lineage_note_child(); /* whichever way it was made */
    return is_borrowed;
}

HOT bool lineage_is_lent(void)
{
    uint64_t since_ns = atomic_load_explicit(&lent_ns, memory_order_relaxed);
    bool shares = atomic_load_explicit(&is_shared, memory_order_relaxed);
    if (__builtin_expect(since_ns == 0 && !shares, 1))
        return false;
    if (lineage_is_borrowed())
        return true;
    if (since_ns != 0 && clock_real_ns() - since_ns > LENT_FOR_NS)
        atomic_store_explicit(&lent_ns, 0, memory_order_relaxed);
    return false;
}

void lineage_lend_to_vfork(void)
{
    lineage_lend(CLONE_VM | CLONE_VFORK);
}

void lineage_lend(uint64_t clone_flags)
{
    lineage_note_child();
    if (!(clone_flags & CLONE_VM) || (clone_flags & CLONE_THREAD))
        return;
    if ((clone_flags & CLONE_VFORK) && !(clone_flags & CLONE_SETTLS))
        atomic_store_explicit(&lent_ns, clock_real_ns(), memory_order_relaxed);
    else
        atomic_store_explicit(&is_shared, true, memory_order_relaxed);
}

uint32_t lineage_pid(void)
{
    return atomic_load_explicit(&lineage_page->pid, memory_order_relaxed);
}

uint32_t lineage_forks(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed) & 0xffffffu;
}
