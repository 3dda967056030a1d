#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "segment/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/clock.h"
#include "segment/layout.h"
#include "segment/shared.h"
#include "segment/text.h"

/* Up to here a new process takes an unused place rather than ask whether somebody in a used one is dead. */
#define PLACES_BEFORE_ASKING 64u
/* How many processes a new one asks for at most while there are unused places: each costs some microseconds. */
#define ASKED_AT_ONCE 8u

#define EPOCH_BITS 20u
#define EPOCH_MASK ((UINT32_C(1) << EPOCH_BITS) - 1)
#define TAGGED_BITS 44u
#define TAGGED_MASK ((UINT64_C(1) << TAGGED_BITS) - 1)

/* What this process knows of itself, and whether /proc speaks of its own pid name space. */
struct self {
    uint32_t pid;
    uint64_t start; /* 0: unknown */
    uint64_t space; /* 0: unknown */
    bool proc_usable;
};

/*
 * The pid name space and the use of /proc, kept for process_alive: it may be asked inside a wrapper. Both words are written by
 * every process_join, so also in a fork's child (which may be in another space). Relaxed: each stands alone.
 */
static _Atomic uint64_t own_space;
static _Atomic uint32_t own_proc; /* enum */
enum { PROC_UNKNOWN = 0, PROC_USABLE, PROC_UNUSABLE };

static uint64_t make_claim(uint32_t pid, uint32_t epoch)
{
    return (uint64_t)epoch << 32 | pid;
}

static uint32_t claim_pid(uint64_t claim)
{
    return (uint32_t)claim;
}

static uint32_t claim_epoch(uint64_t claim)
{
    return (uint32_t)(claim >> 32);
}

static uint64_t make_tagged(uint64_t value, uint32_t epoch)
{
    return (uint64_t)(epoch & EPOCH_MASK) << TAGGED_BITS | (value & TAGGED_MASK);
}

/* The value of a tagged word if it belongs to the claim; else 0, unknown. */
static uint64_t tagged_value(uint64_t tagged, uint64_t claim)
{
    return tagged >> TAGGED_BITS == (claim_epoch(claim) & EPOCH_MASK) ? tagged & TAGGED_MASK : 0;
}

static uint32_t holder_of(uint32_t index, uint64_t claim)
{
    return (index + 1) << EPOCH_BITS | (claim_epoch(claim) & EPOCH_MASK);
}

static struct process_slot *slot_of(const struct segment *segment, uint32_t holder)
{
    uint32_t index = (holder >> EPOCH_BITS) - 1;
    return index < SEGMENT_PROCESSES ? &segment->map->processes[index] : NULL;
}

/* The claim of a holder's place if it is still the holder's; else 0. */
static uint64_t claim_of(const struct process_slot *slot, uint32_t holder)
{
    /* Acquire: what was written before the claim was last changed is read behind it. */
    uint64_t claim = atomic_load_explicit(&slot->claim, memory_order_acquire);
    bool same = claim_pid(claim) != 0 && (claim_epoch(claim) & EPOCH_MASK) == (holder & EPOCH_MASK);
    return same ? claim : 0;
}

/* --- /proc --------------------------------------------------------------------------------------------------------- */

struct stat_fields {
    uint32_t pid;
    char state;
    uint64_t threads, start;
};

static bool parse_number(const char **at, uint64_t *number)
{
    const char *digit = *at;
    *number = 0;
    while (*digit >= '0' && *digit <= '9')
        *number = *number * 10 + (uint64_t)(*digit++ - '0');
    bool found = digit > *at;
    *at = digit;
    return found;
}

/* Reads "PID (NAME) STATE ..." of proc(5). The name may hold anything, also ") R 1", so what counts stands behind the last ")". */
static bool parse_stat(const char *text, struct stat_fields *fields)
{
    uint64_t pid;
    const char *at = text, *end = strrchr(text, ')');
    if (!parse_number(&at, &pid) || !end || end[1] != ' ' || end[2] == '\0')
        return false;
    fields->pid = (uint32_t)pid;
    fields->state = end[2];
    at = end + 3;
    /* State was field 3. Some fields may be negative; of those that count none is. */
    for (unsigned int field = 4; field <= 22; field++) {
        uint64_t number;
        if (*at++ != ' ')
            return false;
        if (*at == '-')
            at++;
        if (!parse_number(&at, &number))
            return false;
        if (field == 20)
            fields->threads = number;
        else if (field == 22)
            fields->start = number;
    }
    return true;
}

static bool read_stat(const char *path, struct stat_fields *fields)
{
    char text[1024]; /* 52 numbers of up to 20 digits would not fit, but field 22 always does */
    ssize_t length;
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return false;
    do
        length = read(fd, text, sizeof text - 1);
    while (length < 0 && errno == EINTR);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return parse_stat(text, fields);
}

/* Reads this process's own start time and name space: five system calls. */
static void know_self(struct self *self)
{
    struct stat_fields fields;
    struct stat space;
    self->pid = (uint32_t)getpid();
    /* A /proc that was mounted in another pid name space numbers processes otherwise: nothing in it is of use. */
    self->proc_usable = read_stat("/proc/self/stat", &fields) && fields.pid == self->pid;
    self->start = self->proc_usable ? fields.start & TAGGED_MASK : 0;
    self->space = stat("/proc/self/ns/pid", &space) == 0 ? (uint64_t)space.st_ino & TAGGED_MASK : 0;
    atomic_store_explicit(&own_space, self->space, memory_order_relaxed);
    atomic_store_explicit(&own_proc, self->proc_usable ? PROC_USABLE : PROC_UNUSABLE, memory_order_relaxed);
}

/* Whether this process can ask the kernel about a process of that name space. An unknown one is taken for its own. */
static bool can_ask(uint64_t space)
{
    uint64_t own = atomic_load_explicit(&own_space, memory_order_relaxed);
    return space == 0 || own == 0 || space == own;
}

/* Whether a process with that pid that started then (0: whenever) lives. */
static bool pid_lives(uint32_t pid, uint64_t start)
{
    if (pid == 0 || pid > INT32_MAX)
        return false;
    struct stat_fields fields;
    char path[32];
    struct text text;
    text_start(&text, path, sizeof path);
    text_add(&text, "/proc/");
    text_add_unsigned(&text, pid);
    text_add(&text, "/stat");
    if (atomic_load_explicit(&own_proc, memory_order_relaxed) == PROC_USABLE && read_stat(path, &fields)) {
        /* A main thread that has ended is a zombie while other threads run on. */
        bool ended = (fields.state == 'Z' || fields.state == 'X') && fields.threads <= 1;
        return !ended && (start == 0 || fields.start == start);
    }
    /* No /proc, one that hides others' processes, or no descriptor left to read it: this takes a zombie for living. */
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

/* Whether the process that made the claim lives. One that was killed between its claim and its start time is known by pid alone. */
static bool claimer_lives(const struct process_slot *slot, uint64_t claim)
{
    uint64_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
    uint64_t space = atomic_load_explicit(&slot->space, memory_order_relaxed);
    space = tagged_value(space, claim);
    return !can_ask(space) || pid_lives(claim_pid(claim), tagged_value(start, claim));
}

/* --- joining ------------------------------------------------------------------------------------------------------- */

static uint32_t processes_high(const struct segment *segment)
{
    uint32_t high = atomic_load_explicit(&segment->map->processes_high, memory_order_acquire);
    return high < SEGMENT_PROCESSES ? high : SEGMENT_PROCESSES;
}

static void raise_high(struct segment *segment, uint32_t index)
{
    uint32_t high = atomic_load_explicit(&segment->map->processes_high, memory_order_relaxed);
    /* Release: whoever sees the place below the mark sees its claim. A failed exchange loads the present mark. */
    while (high <= index && !atomic_compare_exchange_weak_explicit(&segment->map->processes_high, &high, index + 1,
                                                                   memory_order_release, memory_order_relaxed))
        ;
}

struct newcomer {
    const struct self *self;
    const char *program;
    uint64_t revision;
};

/*
 * Takes the place from whoever `claim` names, if it is still so; 0 if another process was faster. The words behind the claim are
 * changed from what they were before it: whoever was overtaken meanwhile can't spoil those of the next owner.
 */
static uint32_t take_place(struct segment *segment, uint32_t index, uint64_t claim, const struct newcomer *newcomer)
{
    struct process_slot *slot = &segment->map->processes[index];
    uint64_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
    uint64_t space = atomic_load_explicit(&slot->space, memory_order_relaxed);
    uint32_t epoch = claim_epoch(claim) + 1;
    uint64_t mine = make_claim(newcomer->self->pid, epoch);
    /* Acquire and release: the former owner's words are behind us, ours are behind the claim. */
    if (!atomic_compare_exchange_strong_explicit(&slot->claim, &claim, mine, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return 0;
    atomic_compare_exchange_strong_explicit(&slot->start, &start, make_tagged(newcomer->self->start, epoch),
                                            memory_order_release, memory_order_relaxed);
    atomic_compare_exchange_strong_explicit(&slot->space, &space, make_tagged(newcomer->self->space, epoch),
                                            memory_order_release, memory_order_relaxed);
    atomic_store_explicit(&slot->attached_ns, clock_wall_ns(), memory_order_relaxed);
    atomic_store_explicit(&slot->revision, newcomer->revision, memory_order_relaxed);
    char program[PROGRAM_NAME_MAX] = {0};
    memcpy(program, newcomer->program, strnlen(newcomer->program, sizeof program - 1));
    shared_store(slot->program, program, sizeof program);
    raise_high(segment, index);
    return holder_of(index, mine);
}

/* Looks through the used places, without a system call, for this very process's own (it has called exec), else for a free one. */
static uint32_t take_own_or_free(struct segment *segment, uint32_t high, const struct newcomer *newcomer)
{
    const struct self *self = newcomer->self;
    uint32_t free_index = SEGMENT_PROCESSES;
    uint64_t free_claim = 0;
    for (uint32_t index = 0; index < high; index++) {
        struct process_slot *slot = &segment->map->processes[index];
        uint64_t claim = atomic_load_explicit(&slot->claim, memory_order_acquire);
        if (claim_pid(claim) == 0 && free_index == SEGMENT_PROCESSES) {
            free_index = index;
            free_claim = claim;
        } else if (claim_pid(claim) == self->pid && self->start != 0) {
            uint64_t start = atomic_load_explicit(&slot->start, memory_order_relaxed);
            uint64_t space = atomic_load_explicit(&slot->space, memory_order_relaxed);
            if (tagged_value(start, claim) != self->start || tagged_value(space, claim) != self->space)
                continue;
            uint32_t holder = take_place(segment, index, claim, newcomer);
            if (holder != 0)
                return holder;
        }
    }
    return free_index < SEGMENT_PROCESSES ? take_place(segment, free_index, free_claim, newcomer) : 0;
}

/* Asks up to `most` of the used places' processes whether they live, and takes the first dead one's. */
static uint32_t take_from_dead(struct segment *segment, uint32_t high, uint32_t most, const struct newcomer *newcomer)
{
    /* Many that start at once begin at different places. */
    uint32_t first = (newcomer->self->pid * UINT32_C(0x9e3779b1)) % high;
    for (uint32_t step = 0; step < high && step < most; step++) {
        uint32_t index = (first + step) % high;
        struct process_slot *slot = &segment->map->processes[index];
        uint64_t claim = atomic_load_explicit(&slot->claim, memory_order_acquire);
        if (claim_pid(claim) != 0 && claimer_lives(slot, claim))
            continue;
        uint32_t holder = take_place(segment, index, claim, newcomer);
        if (holder != 0)
            return holder;
    }
    return 0;
}

static uint32_t take_unused(struct segment *segment, const struct newcomer *newcomer)
{
    for (uint32_t index = processes_high(segment); index < SEGMENT_PROCESSES; index++) {
        uint64_t claim = atomic_load_explicit(&segment->map->processes[index].claim, memory_order_acquire);
        uint32_t holder = claim_pid(claim) == 0 ? take_place(segment, index, claim, newcomer) : 0;
        if (holder != 0)
            return holder;
        raise_high(segment, index);
    }
    return 0;
}

/* The table is full of living ones and of others that nobody here can ask: of the latter, the one attached longest ago goes. */
static uint32_t take_from_foreign(struct segment *segment, const struct newcomer *newcomer)
{
    uint32_t oldest = SEGMENT_PROCESSES;
    uint64_t oldest_claim = 0, oldest_ns = UINT64_MAX;
    for (uint32_t index = 0; index < SEGMENT_PROCESSES; index++) {
        struct process_slot *slot = &segment->map->processes[index];
        uint64_t claim = atomic_load_explicit(&slot->claim, memory_order_acquire);
        uint64_t space = atomic_load_explicit(&slot->space, memory_order_relaxed);
        uint64_t attached = atomic_load_explicit(&slot->attached_ns, memory_order_relaxed);
        if (can_ask(tagged_value(space, claim)) || attached >= oldest_ns)
            continue;
        oldest = index;
        oldest_claim = claim;
        oldest_ns = attached;
    }
    return oldest < SEGMENT_PROCESSES ? take_place(segment, oldest, oldest_claim, newcomer) : 0;
}

uint32_t process_join(struct segment *segment, const char *program, uint64_t revision)
{
    struct self self;
    know_self(&self);
    struct newcomer newcomer = {.self = &self, .program = program, .revision = revision};
    /* Others may be faster at any place; each round somebody got one. */
    for (unsigned int round = 0; round < 8; round++) {
        uint32_t high = processes_high(segment);
        uint32_t holder = take_own_or_free(segment, high, &newcomer);
        if (holder == 0 && high >= PLACES_BEFORE_ASKING)
            holder = take_from_dead(segment, high, ASKED_AT_ONCE, &newcomer);
        if (holder == 0)
            holder = take_unused(segment, &newcomer);
        if (holder == 0)
            holder = take_from_dead(segment, SEGMENT_PROCESSES, SEGMENT_PROCESSES, &newcomer);
        if (holder == 0)
            holder = take_from_foreign(segment, &newcomer);
        if (holder != 0)
            return holder;
    }
    return 0;
}

void process_leave(struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? claim_of(slot, holder) : 0;
    /* The epoch stays: the next owner counts on from it. Release: our last words are behind the free claim. */
    if (claim != 0)
        atomic_compare_exchange_strong_explicit(&slot->claim, &claim, make_claim(0, claim_epoch(claim)),
                                                memory_order_release, memory_order_relaxed);
}

/* --- asking -------------------------------------------------------------------------------------------------------- */

bool process_alive(const struct segment *segment, uint32_t holder)
{
    struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? claim_of(slot, holder) : 0;
    if (claim == 0)
        return false;
    if (atomic_load_explicit(&own_proc, memory_order_relaxed) == PROC_UNKNOWN) {
        /* An observer, which never joined. */
        struct self self;
        know_self(&self);
    }
    return claimer_lives(slot, claim);
}

bool process_describe(const struct segment *segment, uint32_t holder, struct process_view *view)
{
    struct process_slot *slot = slot_of(segment, holder);
    uint64_t claim = slot ? claim_of(slot, holder) : 0;
    if (claim == 0)
        return false;
    view->pid = claim_pid(claim);
    view->holder = holder;
    view->attached_ns = atomic_load_explicit(&slot->attached_ns, memory_order_acquire);
    view->revision = atomic_load_explicit(&slot->revision, memory_order_acquire);
    shared_load(view->program, slot->program, sizeof view->program);
    view->program[sizeof view->program - 1] = '\0';
    /* All of it was acquired: if the claim still stands behind it, it belongs together. */
    return atomic_load_explicit(&slot->claim, memory_order_relaxed) == claim;
}

bool process_next(const struct segment *segment, uint32_t *cursor, struct process_view *view)
{
    uint32_t high = processes_high(segment);
    while (*cursor < high) {
        uint32_t index = (*cursor)++;
        uint64_t claim = atomic_load_explicit(&segment->map->processes[index].claim, memory_order_acquire);
        uint32_t holder = holder_of(index, claim);
        if (claim_pid(claim) != 0 && process_alive(segment, holder) && process_describe(segment, holder, view))
            return true;
    }
    return false;
}
