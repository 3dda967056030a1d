/*
 * result_file.c - a file that is written whole, or not at all. See result_file.h.
 */
#define _GNU_SOURCE
#include "view/result_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "view/output.h"

/* As many links as the kernel follows. */
#define LINKS_MAX 40

/* The folder of a path, with its "/" behind it; "": the present one. To be freed. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return format_text("%.*s", slash != NULL ? (int)(slash - path + 1) : 0, path);
}

/* Where a path leads that may be a link, also one to a file that is not there yet. To be freed. */
static char *followed(const char *path)
{
    char *real = copy_text(path), target[PATH_MAX];
    for (int links = 0; links < LINKS_MAX; links++) {
        const ssize_t length = readlink(real, target, sizeof target - 1);
        if (length < 0)
            break;
        target[length] = '\0';
        char *folder = folder_of(real);
        char *next = target[0] == '/' ? copy_text(target) : format_text("%s%s", folder, target);
        free(folder);
        free(real);
        real = next;
    }
    return real;
}

static mode_t mode_by_umask(void)
{
    const mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static void tell_no_draft(const struct result_file *result)
{
    const int error = errno;
    char *folder = folder_of(result->real);
    errno = error;
    warn("%s can't be written: it is replaced by a new file, and none can be made in %s", result->path,
         folder[0] != '\0' ? folder : "this folder");
    free(folder);
}

/* The draft: nothing but kill -9 ends the command between its making and its end. */
static void draft_open(struct result_file *result, mode_t mode)
{
    sigset_t all;
    result->draft = format_text("%s.XXXXXX", result->real);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &result->signals);
    const int descriptor = mkostemp(result->draft, O_CLOEXEC);
    if (descriptor >= 0 && fchmod(descriptor, mode) == 0)
        result->out = fdopen(descriptor, "w");
    if (result->out != NULL)
        return;
    tell_no_draft(result);
    if (descriptor >= 0) {
        close(descriptor);
        unlink(result->draft);
    }
    sigprocmask(SIG_SETMASK, &result->signals, NULL);
}

static void result_free(struct result_file *result)
{
    free(result->real);
    free(result->draft);
}

bool result_open(struct result_file *result, const char *path, mode_t mode)
{
    struct stat there;
    *result = (struct result_file){.path = path};
    if (strcmp(path, "-") == 0) {
        result->out = stdout;
        return true;
    }
    const bool exists = stat(path, &there) == 0;
    if (exists && !S_ISREG(there.st_mode)) {
        result->out = fopen(path, "we");
        if (result->out == NULL)
            warn("%s can't be written", path);
        return result->out != NULL;
    }
    if (exists)
        mode = there.st_mode & 0777;
    else if (mode == RESULT_MODE_USUAL)
        mode = mode_by_umask();
    result->real = followed(path);
    draft_open(result, mode);
    if (result->out == NULL)
        result_free(result);
    return result->out != NULL;
}

bool result_may_open(const char *path)
{
    struct result_file result;
    struct stat there;
    if (strcmp(path, "-") == 0)
        return true;
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) { /* whoever reads a pipe is not to be woken */
        const bool good = !S_ISDIR(there.st_mode) && access(path, W_OK) == 0;
        if (S_ISDIR(there.st_mode))
            errno = EISDIR;
        if (!good)
            warn("%s can't be written", path);
        return good;
    }
    if (!result_open(&result, path, RESULT_MODE_USUAL))
        return false;
    fclose(result.out);
    unlink(result.draft);
    sigprocmask(SIG_SETMASK, &result.signals, NULL);
    result_free(&result);
    return true;
}

bool result_close(struct result_file *result)
{
    if (result->out == stdout)
        return finish_output(EXIT_SUCCESS) == EXIT_SUCCESS;
    int reason = fflush(result->out) == 0 ? 0 : errno;
    if (ferror(result->out) != 0 && output_error() != 0)
        reason = output_error(); /* what was lost first */
    bool good = reason == 0 && ferror(result->out) == 0;
    if (fclose(result->out) != 0 && good) {
        reason = errno;
        good = false;
    }
    if (good && result->draft != NULL && rename(result->draft, result->real) != 0) {
        reason = errno;
        good = false;
    }
    errno = reason;
    if (!good)
        warn("%s can't be written", result->path);
    if (result->draft != NULL) {
        if (!good)
            unlink(result->draft);
        sigprocmask(SIG_SETMASK, &result->signals, NULL);
    }
    result_free(result);
    return good;
}
