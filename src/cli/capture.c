/*
 * capture.c - keeps what is said in memory. See capture.h.
 */
#define _GNU_SOURCE
#include "cli/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

/* Who fills more than that between two looks is not listened to any further. */
#define SAID_MAX 65536

static struct {
    bool runs;
    int kept, output, errors; /* the memory; what the two were */
} capture;

bool capture_start(int *output)
{
    const int kept = memfd_create("sockfuse", MFD_CLOEXEC);
    if (kept < 0)
        return false;
    fflush(stdout);
    capture.kept = kept;
    capture.output = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    capture.errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    /* Both write at its end, wherever that is. */
    const bool is_good = fcntl(kept, F_SETFL, O_APPEND) == 0 && capture.output >= 0 && dup2(kept, STDOUT_FILENO) >= 0 &&
                         dup2(kept, STDERR_FILENO) >= 0;
    capture.runs = true;
    if (!is_good)
        capture_end();
    *output = capture.output;
    return is_good;
}

static char *said(void)
{
    struct stat now;
    fflush(stdout);
    fflush(stderr);
    size_t size = fstat(capture.kept, &now) == 0 && now.st_size > 0 ? (size_t)now.st_size : 0;
    size = size < SAID_MAX ? size : SAID_MAX;
    char *text = allocate(size + 1, 1);
    const ssize_t got = pread(capture.kept, text, size, 0);
    text[got > 0 ? got : 0] = '\0';
    if (ftruncate(capture.kept, 0) != 0)
        text[0] = '\0'; /* rather nothing than the same again and again */
    return text;
}

char *capture_take(void)
{
    static const char before[] = "sockfuse: ";
    if (!capture.runs)
        return copy_text("");
    char *text = said(), *to = text;
    for (const char *from = text; *from != '\0';) {
        if (strncmp(from, before, sizeof before - 1) == 0)
            from += sizeof before - 1;
        const size_t length = strcspn(from, "\n") + (strchr(from, '\n') != NULL);
        memmove(to, from, length);
        to += length;
        from += length;
    }
    *to = '\0';
    return text;
}

/* A descriptor as it was; one that was closed is closed again. */
static void give_back(int *kept, int number)
{
    if (*kept >= 0)
        dup2(*kept, number);
    else
        close(number);
    if (*kept >= 0)
        close(*kept);
    *kept = -1;
}

void capture_end(void)
{
    if (!capture.runs)
        return;
    char *text = said();
    give_back(&capture.output, STDOUT_FILENO);
    give_back(&capture.errors, STDERR_FILENO);
    close(capture.kept);
    capture.runs = false;
    fputs(text, stderr);
    free(text);
}
