/*
 * truncation.c - surviving a segment's file that is cut short while it is mapped. See truncation.h.
 */
#define _GNU_SOURCE
#include "view/truncation.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile sig_atomic_t happened;

/* The mappings that are known. The handler reads them: it only ever interrupts accesses to such a mapping. */
static struct watched {
    char *from, *to;
} * watched;
static size_t watched_count, watched_room;

/* The end of what becomes zeros if that page is gone. */
static char *end_of(char *page, size_t size)
{
    for (size_t i = watched_count; i > 0; i--)
        if (page >= watched[i - 1].from && page < watched[i - 1].to)
            return watched[i - 1].to;
    return page + size;
}

/*
 * The fault is this process's own access: it returns to it. Any other SIGBUS (a kill(2), broken memory) ends the
 * program, as it would have: by the default action, at the next access or by the signal that is sent again.
 */
static void fill_page(int number, siginfo_t *info, void *context)
{
    const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    char *page = (char *)((uintptr_t)info->si_addr & ~(size - 1));
    (void)context;
    if (info->si_code != BUS_ADRERR ||
        mmap(page, (size_t)(end_of(page, size) - page), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    happened = 1;
}

void cut_survive(void)
{
    const struct sigaction action = {.sa_sigaction = fill_page, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
}

void cut_watch(void *map, size_t size)
{
    if (watched_count == watched_room) {
        const size_t room = watched_room == 0 ? 16 : watched_room * 2;
        struct watched *more = reallocarray(watched, room, sizeof *watched);
        if (more == NULL) /* then its pages become zeros one by one */
            return;
        watched = more;
        watched_room = room;
    }
    watched[watched_count++] = (struct watched){map, (char *)map + size};
}

void cut_unwatch(const void *map)
{
    for (size_t i = watched_count; i > 0; i--) {
        if (watched[i - 1].from == map) {
            watched[i - 1] = watched[--watched_count];
            return;
        }
    }
}

bool cut_happened(void)
{
    const bool was = happened != 0;
    happened = 0;
    return was;
}
