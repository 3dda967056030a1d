/*
 * fleet_secret.c - the password of the fleet's Redis. See fleet_secret.h.
 */
#define _GNU_SOURCE
#include "agent/fleet_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/fleet_link.h"
#include "view/output.h"

static bool take(struct redis_url *url, const char *secret, size_t length, char *why, size_t why_size)
{
    if (length == 0 || length >= sizeof url->password || memchr(secret, '\0', length) != NULL) {
        snprintf(why, why_size, "the password has no bytes, or more than %zu", sizeof url->password - 1);
        return false;
    }
    memcpy(url->password, secret, length);
    url->password[length] = '\0';
    url->has_password = true;
    return true;
}

static size_t line_length(const char *bytes, size_t count)
{
    const char *const end = memchr(bytes, '\n', count);

    return end != NULL ? (size_t)(end - bytes) : count;
}

/* The first line of a plain file that nobody but its owner, and root, may read. Never waits: no FIFO is opened. */
static bool read_file(struct redis_url *url, const char *path, char *why, size_t why_size)
{
    char secret[sizeof url->password + 1];
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool good = false;

    if (fd < 0 || fstat(fd, &status) != 0) {
        snprintf(why, why_size, "the password's file %s: %s", path, strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        snprintf(why, why_size, "the password's file %s is no file", path);
    } else if ((status.st_mode & 07) != 0) {
        snprintf(why, why_size, "the password's file %s may be read by everybody: chmod o= %s", path, path);
    } else {
        const ssize_t got = read(fd, secret, sizeof secret);
        good = take(url, secret, got > 0 ? line_length(secret, (size_t)got) : 0, why, why_size);
    }
    if (fd >= 0)
        close(fd);
    explicit_bzero(secret, sizeof secret);
    return good;
}

static bool read_secret(struct redis_url *url, const char *from, char *why, size_t why_size)
{
    if (from[0] == '\0')
        return true;
    if (strncmp(from, "file ", 5) == 0)
        return read_file(url, from + 5, why, why_size);
    const bool is_variable = strncmp(from, "environment ", 12) == 0;
    const char *const secret = is_variable ? getenv(from + 12) : NULL;
    if (secret != NULL)
        return take(url, secret, strlen(secret), why, why_size);
    if (is_variable)
        snprintf(why, why_size, "the environment has no %s, where its password is to be", from + 12);
    else
        snprintf(why, why_size, "fleet_password: expected `file /path` or `environment NAME`");
    return false;
}

static bool read_address(struct redis_url *url, const struct agent_settings *settings, char *why, size_t why_size)
{
    if (!redis_url_parse(url, settings->fleet, why, why_size) ||
        !read_secret(url, settings->fleet_password, why, why_size))
        return false;
    memcpy(url->ca, settings->fleet_ca, sizeof url->ca);
    memcpy(url->certificate, settings->fleet_certificate, sizeof url->certificate);
    return true;
}

void fleet_secret_address(struct redis_url *url, const struct agent_settings *settings)
{
    char why[400];
    const char *reason;

    memset(url, 0, sizeof *url);
    if (settings->fleet[0] == '\0')
        return;
    if (!read_address(url, settings, why, sizeof why))
        warnx("fleet: %s", why);
    else if (!fleet_link_is_possible(url, &reason))
        warnx("fleet: %s", reason);
    else
        return;
    explicit_bzero(url, sizeof *url);
}
