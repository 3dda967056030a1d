/*
 * audit_streams.c - what the command of an audit reads and writes. See audit_streams.h.
 */
#define _GNU_SOURCE
#include "cli/audit_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

#define KEPT_BYTES ((size_t)2048)
#define TOLD_LINES ((size_t)6)

/* The last bytes that were written. */
static struct {
    char text[KEPT_BYTES + 1];
    size_t length;
} kept;

static int open_null(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        err(EXIT_RUN_FAILED, "/dev/null");
    return null;
}

void audit_streams_begin(void)
{
    for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++)
        /* What can't be read, or written, as the closed one. */
        if (fcntl(number, F_GETFD) < 0)
            open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int audit_streams_input(void)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode)) {
        const int file = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC);
        if (file >= 0 && lseek(file, lseek(STDIN_FILENO, 0, SEEK_CUR), SEEK_SET) >= 0)
            return file;
        warn("standard input can't be opened again; /dev/null serves");
        if (file >= 0)
            close(file);
    }
    return open_null();
}

bool audit_streams_lost_input(void)
{
    struct stat status;
    return isatty(STDIN_FILENO) == 1 ||
           (fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)));
}

int audit_streams_output(bool is_shown, int *heard)
{
    int ends[2];
    const int shown_at = is_shown ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    if (shown_at >= 0)
        return shown_at;
    if (is_shown || heard == NULL || pipe2(ends, O_CLOEXEC) != 0)
        return open_null();
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        err(EXIT_RUN_FAILED, "pipe");
    *heard = ends[0];
    return ends[1];
}

static void keep(const char *text, size_t length)
{
    if (length > KEPT_BYTES) {
        text += length - KEPT_BYTES;
        length = KEPT_BYTES;
    }
    const size_t stays = kept.length + length > KEPT_BYTES ? KEPT_BYTES - length : kept.length;
    memmove(kept.text, kept.text + kept.length - stays, stays);
    memcpy(kept.text + stays, text, length);
    kept.length = stays + length;
}

void audit_streams_hear(int heard)
{
    char text[16384];
    /* Who writes faster than is read here is not listened to for ever. */
    for (unsigned int i = 0; i < 256; i++) {
        const ssize_t got = read(heard, text, sizeof text);
        if (got <= 0)
            return;
        keep(text, (size_t)got);
    }
}

void audit_streams_tell(void)
{
    char *lines[TOLD_LINES] = {NULL};
    size_t count = 0;
    kept.text[kept.length] = '\0';
    for (char *place, *line = strtok_r(kept.text, "\r\n", &place); line != NULL; line = strtok_r(NULL, "\r\n", &place))
        lines[count++ % TOLD_LINES] = line;
    for (size_t i = count > TOLD_LINES ? count - TOLD_LINES : 0; i < count; i++)
        warnx("  %s", lines[i % TOLD_LINES]);
    kept.length = 0;
}
