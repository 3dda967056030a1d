/*
 * cut.c - surviving a segment's file that is cut short while it is mapped. See cut.h.
 */
#define _GNU_SOURCE
#include "cli/cut.h"

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile sig_atomic_t happened;

/*
 * The fault is this process's own access: it returns to it. Any other SIGBUS (a kill(2), broken memory) ends the
 * program, as it would have: by the default action, at the next access or by the signal that is sent again.
 */
static void fill_page(int number, siginfo_t *info, void *context)
{
    const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)info->si_addr & ~(size - 1));
    (void)context;
    if (info->si_code != BUS_ADRERR || mmap(page, size, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
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

bool cut_happened(void)
{
    const bool was = happened != 0;
    happened = 0;
    return was;
}
