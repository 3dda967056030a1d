/*
 * memory.c - memory through the kernel's eyes. See memory.h.
 *
 * The question is a system call that reads its argument and then does nothing: rt_sigprocmask copies the set before it
 * finds that there is nothing to do so with it. Unlike process_vm_readv it is allowed wherever the C library works.
 */
#define _GNU_SOURCE
#include "connection/memory.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hot.h"
#include "connection/system.h"

#define PAGE 4096u         /* or a part of one */
#define LOWEST PAGE        /* nothing is ever mapped below (vm.mmap_min_addr); to ask for 0 is to ask for nothing */
#define WORD (_NSIG / 8)   /* what the kernel reads: its sigset_t */
#define HOW_NOTHING 0x5fL  /* none of SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK */
#define WINDOW_PAGES 16u   /* of the stack, at the most */
#define VECTOR_PARTS 1024u /* UIO_MAXIOV: of more the kernel takes none */

/*
 * What is known to be readable above this thread's frames: number of its first page << WINDOW_BITS | pages. It is the
 * thread's own stack, so it stays readable for as long as it is of use: the callers' frames lie in it. What lies above
 * any other stack (a signal's, a coroutine's) may be anything, and go. One word, for a handler may come in between.
 */
#define WINDOW_BITS 8u
static __thread _Atomic uint64_t stack_window;
/* Below the top of the first thread's stack the kernel leaves so much free for it, whatever its limit. */
#define FIRST_STACK_REACH ((uintptr_t)128 << 20)
static uintptr_t first_stack_top, first_thread;

/*
 * The program's own data and the heap behind it: what is found readable there stays so until the program itself takes
 * it away, by mprotect. Numbers of pages that were asked for, each at its place. Memory that is mapped elsewhere may go
 * unseen (free gives large pieces back), so it is asked for again each time.
 */
#define DATA_PAGES 16u
#define HEAP_REACH ((uintptr_t)INT32_MAX) /* the kernel begins the heap no farther behind the program than that */
#define HEAP_MOST                                                                                                      \
    (sizeof(uintptr_t) > 4 ? (uintptr_t)((UINT64_C(1) << 40) - 1) : UINTPTR_MAX) /* behind it, what is mapped */
static _Atomic uint64_t data_pages[DATA_PAGES];
static uintptr_t data_begin, data_end; /* of the executable's segments that can be written */
static bool data_has_heap;

/* Whether the word at an aligned address can be read. */
HOT static bool can_read_word(uintptr_t at)
{
    const int keep = errno;
    const bool can = sys.syscall(SYS_rt_sigprocmask, HOW_NOTHING, (long)at, 0, WORD, 0, 0) == 0 || errno != EFAULT;
    errno = keep; /* sends ask outside of what keeps it */
    return can;
}

static bool can_read_pages(uint64_t first, uint64_t end)
{
    for (uint64_t page = first; page < end; page++)
        if (!can_read_word((uintptr_t)(page * PAGE)))
            return false;
    return true;
}

/*
 * Makes the window reach from the frame's page to `last`; false if it can't. What lies between them is looked at once;
 * a frame on another stack, or far away on this one, begins a new window.
 */
static bool widen_window(uint64_t frame, uint64_t last)
{
    uint64_t window = atomic_load_explicit(&stack_window, memory_order_relaxed);
    uint64_t first = window >> WINDOW_BITS, end = first + (window & ((1u << WINDOW_BITS) - 1));
    if (frame >= first && last < end)
        return true;
    if (last - frame >= WINDOW_PAGES)
        return false;
    bool goes_on = frame < end && end <= frame + WINDOW_PAGES && first <= last + 1;
    if (!goes_on)
        first = end = frame + 1;
    if (frame < first) {
        if (!can_read_pages(frame + 1, first))
            return false;
        first = frame;
    }
    if (last >= end) {
        if (!can_read_pages(end, last + 1))
            return false;
        end = last + 1;
    }
    if (end - first > WINDOW_PAGES)
        first = frame;
    atomic_store_explicit(&stack_window, first << WINDOW_BITS | (end - first), memory_order_relaxed);
    return true;
}

/* Where the thread's own stack ends, if the frame is on it. Another thread's control block lies at its top. */
static uintptr_t own_stack_end(uintptr_t frame)
{
    uintptr_t self = (uintptr_t)pthread_self();
    if (frame < first_stack_top && first_stack_top - frame < FIRST_STACK_REACH)
        return first_stack_top;
    return self != first_thread && frame < self ? self : 0;
}

/* --- the program's data --- */

void memory_start(void)
{
    const ElfW(Phdr) *segments = (const void *)(uintptr_t)getauxval(AT_PHDR);
    const size_t count = (size_t)getauxval(AT_PHNUM);
    const uintptr_t heap_end = (uintptr_t)sbrk(0);
    uintptr_t bias = 0;
    first_stack_top = (uintptr_t)getauxval(AT_EXECFN); /* the last that the kernel puts there */
    first_thread = (uintptr_t)pthread_self();
    if (!segments || getauxval(AT_PHENT) != sizeof *segments)
        return;
    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_PHDR)
            bias = (uintptr_t)segments - (uintptr_t)segments[i].p_vaddr;
    for (size_t i = 0; i < count; i++) {
        if (segments[i].p_type != PT_LOAD || !(segments[i].p_flags & PF_W))
            continue;
        const uintptr_t begin = bias + (uintptr_t)segments[i].p_vaddr, end = begin + (uintptr_t)segments[i].p_memsz;
        data_begin = data_begin == 0 || begin < data_begin ? begin : data_begin;
        data_end = end > data_end ? end : data_end;
    }
    data_has_heap = heap_end >= data_end && heap_end - data_end < HEAP_REACH;
}

void memory_protected(void)
{
    for (size_t i = 0; i < DATA_PAGES; i++)
        atomic_store_explicit(&data_pages[i], 0, memory_order_relaxed);
}

/* Whether it lies in one page of the program's data or heap that was found readable, or is now. */
static bool is_readable_data(uintptr_t first, uintptr_t last)
{
    const uint64_t page = first / PAGE;
    _Atomic uint64_t *place = &data_pages[page % DATA_PAGES];
    if (first < data_begin || page != last / PAGE ||
        (last >= data_end && (!data_has_heap || last - data_end > HEAP_MOST ||
                              last >= (uintptr_t)sbrk(0)))) /* no system call: libc knows */
        return false;
    if (atomic_load_explicit(place, memory_order_relaxed) == page)
        return true;
    if (!can_read_word(first - first % WORD))
        return false;
    atomic_store_explicit(place, page, memory_order_relaxed);
    return true;
}

/* On the thread's stack, or in the program's data: known to be readable, or asked for once. */
HOT static bool is_at_hand(uintptr_t first, uintptr_t last)
{
    const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    return (first >= frame && last < own_stack_end(frame) && widen_window(frame / PAGE, last / PAGE)) ||
           is_readable_data(first, last);
}

static bool is_range(uintptr_t first, size_t count, uintptr_t *last)
{
    return first >= LOWEST && !__builtin_add_overflow(first, count - 1, last);
}

bool memory_is_at_hand(const void *at, size_t count)
{
    uintptr_t first = (uintptr_t)at, last;
    return count == 0 || (is_range(first, count, &last) && is_at_hand(first, last));
}

HOT bool memory_is_readable(const void *at, size_t count)
{
    const uintptr_t first = (uintptr_t)at;
    uintptr_t last;
    if (count == 0)
        return true;
    if (!is_range(first, count, &last))
        return false;
    if (is_at_hand(first, last))
        return true;
    for (uintptr_t word = first - first % WORD;; word = (word / PAGE + 1) * PAGE) {
        if (!can_read_word(word))
            return false;
        if (word / PAGE == last / PAGE)
            return true;
    }
}

bool memory_vector_is_readable(const struct iovec *vector, size_t count)
{
    if (count > VECTOR_PARTS || !memory_is_readable(vector, count * sizeof *vector))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!memory_is_readable(vector[i].iov_base, vector[i].iov_len))
            return false;
    return true;
}

/* How much of a message's name the kernel reads; of a negative length it reads nothing, and refuses it. */
static bool name_length(const struct msghdr *message, socklen_t *length)
{
    const socklen_t most = sizeof(struct sockaddr_storage);
    *length = message->msg_namelen < most ? message->msg_namelen : most;
    return message->msg_namelen <= INT32_MAX;
}

bool memory_message_connects(const struct msghdr *message, int flags, struct message_address *address)
{
    if (!(flags & MSG_FASTOPEN) || !memory_is_readable(message, sizeof *message) || !message->msg_name)
        return false;
    address->at = message->msg_name;
    return name_length(message, &address->length);
}

static bool message_is_good(const struct msghdr *message)
{
    socklen_t length;
    return memory_is_readable(message, sizeof *message) && message->msg_iov && name_length(message, &length) &&
           (!message->msg_name || memory_is_readable(message->msg_name, length)) &&
           memory_is_readable(message->msg_control, message->msg_controllen);
}

const struct iovec *memory_message_vector(const struct msghdr *message)
{
    static const struct iovec none = {NULL, 0};
    return message_is_good(message) ? message->msg_iov : &none;
}

size_t memory_message_count(const struct msghdr *message)
{
    return message_is_good(message) ? message->msg_iovlen : 0;
}
