/*
 * log.c - appends one line to the log.
 *
 * A pipe without a reader answers a write with SIGPIPE, and a file at its size limit with SIGXFSZ: both would kill a
 * host that never asked for a log. All signals are blocked around the write; one that came of it is taken away again.
 */
#include "segment/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "segment/event.h"
#include "segment/undisturbed.h"

#define INTERRUPTIONS_MAX 16

static void write_once(int descriptor, const char *line, size_t length)
{
    for (int i = 0; i < INTERRUPTIONS_MAX && write(descriptor, line, length) < 0 && errno == EINTR; i++) {
    }
}

/* Takes away `number` if it is pending now and was not before. Both are thread-directed, so it is this thread's own. */
static void forget_signal(int number, const sigset_t *before)
{
    static const struct timespec at_once;
    sigset_t now, one;

    if (sigismember(before, number) || sigpending(&now) != 0 || !sigismember(&now, number))
        return;
    sigemptyset(&one);
    sigaddset(&one, number);
    for (int i = 0; i < INTERRUPTIONS_MAX && sigtimedwait(&one, NULL, &at_once) < 0 && errno == EINTR; i++) {
    }
}

/* Both signals are blocked here. */
static void write_without_signal(int descriptor, const char *line, size_t length)
{
    sigset_t before;

    sigpending(&before);
    write_once(descriptor, line, length);
    forget_signal(SIGPIPE, &before);
    forget_signal(SIGXFSZ, &before);
}

/* A pipe or a terminal that nobody reads would hold up the host, and with it all its signals. */
static bool takes_a_line(int descriptor)
{
    struct pollfd place = {.fd = descriptor, .events = POLLOUT};

    return poll(&place, 1, 0) == 1 && (place.revents & POLLOUT) != 0;
}

void log_append(const char *file, const char *line, size_t length)
{
    struct undisturbed before;

    if (file[0] == '\0' || length == 0)
        return;
    undisturbed_begin(&before);
    if (strcmp(file, "stderr") == 0) {
        if (takes_a_line(STDERR_FILENO))
            write_without_signal(STDERR_FILENO, line, length);
    } else {
        /* O_NONBLOCK: a FIFO that nobody reads must not hold up the host; regular files do not mind. */
        int descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
        if (descriptor >= 0) {
            write_without_signal(descriptor, line, length);
            close(descriptor);
        }
    }
    undisturbed_end(&before);
}

/* A handler of the host's that jumps out while the line is made would leave the page behind. */
void log_event(const char *file, const struct event *event)
{
    struct undisturbed before;

    undisturbed_begin(&before);
    char *line = mmap(NULL, EVENT_JSON_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (line != MAP_FAILED) {
        log_append(file, line, event_json(event, line, EVENT_JSON_MAX));
        munmap(line, EVENT_JSON_MAX);
    }
    undisturbed_end(&before);
}
