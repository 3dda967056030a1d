/*
 * log.c - appends one line to the log.
 *
 * A pipe without a reader answers a write with SIGPIPE, and a file at its size limit with SIGXFSZ: both would kill a
 * host that never asked for a log. All signals are blocked around the write; one that came of it is taken away again.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/file_status.h"
#include "base/frame.h"
#include "base/undisturbed.h"

#define INTERRUPTIONS_MAX 16

/* What standard error was at the start: a root of this file alone. */
static struct {
    bool is_known;
    dev_t device, special;
    ino_t inode;
    mode_t type;
} standard_error;

static bool write_once(int descriptor, const char *line, size_t length)
{
    ssize_t written = -1;
    for (int i = 0; i < INTERRUPTIONS_MAX; i++) {
        written = bare_write(descriptor, line, length);
        if (written >= 0 || errno != EINTR)
            break;
    }
    return written == (ssize_t)length;
}

OWN_FRAME static bool is_pending(int number)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
}

/* Both are thread-directed, so it is this thread's own. */
OWN_FRAME static void take_away(int number)
{
    static const struct timespec at_once;
    sigset_t one;

    sigemptyset(&one);
    sigaddset(&one, number);
    for (int i = 0; i < INTERRUPTIONS_MAX && bare_sigtimedwait(&one, NULL, &at_once) < 0 && errno == EINTR; i++) {
    }
}

/* Both signals are blocked here. */
OWN_FRAME static bool write_without_signal(int descriptor, const char *line, size_t length)
{
    const bool pipe = is_pending(SIGPIPE), size = is_pending(SIGXFSZ);
    bool written = write_once(descriptor, line, length);

    if (!pipe && is_pending(SIGPIPE))
        take_away(SIGPIPE);
    if (!size && is_pending(SIGXFSZ))
        take_away(SIGXFSZ);
    return written;
}

/* A pipe or a terminal that nobody reads would hold up the host, and with it all its signals. */
static bool takes_a_line(int descriptor)
{
    struct pollfd place = {.fd = descriptor, .events = POLLOUT};

    return bare_poll(&place, 1, 0) == 1 && (place.revents & POLLOUT) != 0;
}

/* Whether a socket at number 2 is made for messages: a pair from the parent, or the journal's. */
static bool is_for_messages(const struct stat *two)
{
    struct stat zero;
    int family = 0;
    socklen_t length = sizeof family;

    return bare_getsockopt(STDERR_FILENO, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_UNIX &&
           !(file_status(STDIN_FILENO, &zero) == 0 && zero.st_dev == two->st_dev && zero.st_ino == two->st_ino);
}

void log_begin(void)
{
    struct stat two;
    int keep = errno;

    if (file_status(STDERR_FILENO, &two) == 0 && (!S_ISSOCK(two.st_mode) || is_for_messages(&two))) {
        standard_error.device = two.st_dev;
        standard_error.special = two.st_rdev;
        standard_error.inode = two.st_ino;
        standard_error.type = two.st_mode & S_IFMT;
        standard_error.is_known = true;
    }
    errno = keep;
}

/* Programs close number 2, and the next file that they open gets it. */
OWN_FRAME static bool is_still_standard_error(void)
{
    struct stat now;

    return standard_error.is_known && file_status(STDERR_FILENO, &now) == 0 && now.st_dev == standard_error.device &&
           now.st_ino == standard_error.inode && now.st_rdev == standard_error.special &&
           (now.st_mode & S_IFMT) == standard_error.type;
}

static bool append_to_file(const char *file, const char *line, size_t length)
{
    /* O_NONBLOCK: a FIFO that nobody reads must not hold up the host; regular files do not mind. */
    int descriptor = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    bool written = descriptor >= 0 && write_without_signal(descriptor, line, length);

    if (descriptor >= 0)
        bare_close(descriptor);
    return written;
}

/* Within undisturbed_begin and undisturbed_end. */
static bool append(const char *file, const char *line, size_t length)
{
    if (file[0] == '\0' || length == 0)
        return true;
    if (strcmp(file, LOG_STDERR) == 0)
        return is_still_standard_error() && takes_a_line(STDERR_FILENO) &&
               write_without_signal(STDERR_FILENO, line, length);
    return append_to_file(file, line, length);
}

OWN_FRAME bool log_append(const char *file, const char *line, size_t length)
{
    struct undisturbed before;

    undisturbed_begin(&before);
    bool written = append(file, line, length);
    undisturbed_end(&before);
    return written;
}

/* A handler of the host's that jumps out while the line is made would leave the page behind. */
OWN_FRAME bool log_append_made(const char *file, log_maker *make, const void *what, size_t most)
{
    struct undisturbed before;
    bool written = false;

    undisturbed_begin(&before);
    char *line = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (line != MAP_FAILED) {
        written = append(file, line, make(what, line, most));
        munmap(line, most);
    }
    undisturbed_end(&before);
    return written;
}
