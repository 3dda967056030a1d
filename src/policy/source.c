/*
 * source.c - reads the bytes of a policy file. See source.h.
 */
#define _GNU_SOURCE
#include "policy/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bare.h"
#include "base/file_status.h"
#include "base/hash.h"
#include "policy/problem.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* Reads to the end, which `size` knows as a rule. False with errno; EFBIG if it is longer than any policy. */
static bool read_all(int fd, off_t size, struct source *source)
{
    size_t room = 0;
    for (;;) {
        if (source->length == room) {
            if (room > 0)
                room *= 2;
            else
                room = size > 0 && size < (off_t)SOURCE_BYTES_MAX ? (size_t)size + 1 : 8192;
            char *text = realloc(source->text, room);
            if (text == NULL)
                return false;
            source->text = text;
        }
        const ssize_t got = bare_read(fd, source->text + source->length, room - source->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        source->length += (size_t)got;
        if (source->length > SOURCE_BYTES_MAX) {
            errno = EFBIG;
            return false;
        }
    }
}

/* O_NONBLOCK: opening a FIFO or a terminal must not wait. */
static bool open_and_read(const char *path, struct source *source, const char **reason)
{
    struct stat status;
    int fd;
    do
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        *reason = strerror(errno); /* NOLINT(concurrency-mt-unsafe): the text of a number that is known is constant */
        return false;
    }
    bool good = file_status(fd, &status) == 0;
    if (good && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))) {
        *reason = "it is a pipe, but every process under the policy reads it anew";
        good = false;
    } else if (!good || !read_all(fd, status.st_size, source)) {
        *reason = errno == EFBIG ? "it is longer than 16 MiB" : strerror(errno); /* NOLINT(concurrency-mt-unsafe) */
        good = false;
    }
    bare_close(fd);
    return good;
}

/* Takes the byte order mark and the \r of \r\n away, in place. */
static void normalize(struct source *source)
{
    const size_t mark = sizeof BYTE_ORDER_MARK - 1;
    size_t from = source->length >= mark && memcmp(source->text, BYTE_ORDER_MARK, mark) == 0 ? mark : 0, to = 0;
    for (; from < source->length; from++) {
        if (source->text[from] == '\r' && from + 1 < source->length && source->text[from + 1] == '\n')
            continue;
        source->text[to++] = source->text[from];
    }
    source->length = to;
}

bool source_read(struct source *source, const char *path, struct policy_problems *problems)
{
    const char *reason = "";
    *source = (struct source){0};
    if (!open_and_read(path, source, &reason)) {
        problem_error(problems, 0, "can't read `%.200s`: %s", path, reason);
        source_free(source);
        return false;
    }
    source->hash = hash_bytes(HASH_BEGIN, source->text, source->length);
    normalize(source);
    return true;
}

void source_free(struct source *source)
{
    free(source->text);
    source->text = NULL;
    source->length = 0;
}
