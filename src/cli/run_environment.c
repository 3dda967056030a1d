/*
 * run_environment.c - sets what a program that `sockfuse run` starts finds. See run_environment.h.
 */
#define _GNU_SOURCE
#include "cli/run_environment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/library.h"
#include "cli/resolve.h"
#include "cli/run_request.h"

static void set_variable(const char *name, const char *value)
{
    int status = value != NULL ? setenv(name, value, 1) : unsetenv(name);
    if (status != 0)
        err(EXIT_RUN_FAILED, "%s can't be set", name);
}

/* A path that means the same after the program has changed its folder. To be freed. */
static char *absolute(const char *path)
{
    if (path[0] == '/')
        return copy_text(path);
    char *folder = getcwd(NULL, 0);
    if (folder == NULL)
        err(EXIT_RUN_FAILED, "the current folder is gone; name %s by its full path", path);
    char *result = format_text("%s/%s", strcmp(folder, "/") == 0 ? "" : folder, path);
    free(folder);
    return result;
}

void make_absolute(const char *name)
{
    const char *value = getenv(name);
    if (value != NULL && value[0] != '\0' && value[0] != '/') {
        char *path = absolute(value);
        set_variable(name, path);
        free(path);
    }
}

bool run_environment_set_log(const char *log)
{
    if (strcmp(log, "stderr") == 0) {
        set_variable("SOCKFUSE_LOG", log);
        return true;
    }
    char *path = absolute(log);
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    bool usable = descriptor >= 0 || errno == ENXIO;
    if (usable)
        set_variable("SOCKFUSE_LOG", path);
    else
        warn("--log %s can't be written; name another file, or 'stderr'", log);
    if (descriptor >= 0)
        close(descriptor);
    free(path);
    return usable;
}

bool run_is_switched_off(void)
{
    const char *value = getenv("SOCKFUSE");
    return value != NULL && strcasecmp(value, "off") == 0;
}

/*
 * A name for this run, by which its processes number their attempts in a rehearsal; one that is set already is gone on
 * with.
 */
static void name_run(void)
{
    uint64_t name = 0;
    const char *present = getenv("SOCKFUSE_RUN");
    if (present != NULL && present[0] != '\0')
        return;
    if (getrandom(&name, sizeof name, GRND_NONBLOCK) != (ssize_t)sizeof name)
        name = (uint64_t)getpid() << 32 ^ clock_wall_ns();
    char *text = format_text("%016" PRIx64, name);
    set_variable("SOCKFUSE_RUN", text);
    free(text);
}

void run_environment_set(const struct run_request *request, const struct policy *policy, const struct program *program,
                         const char *preload)
{
    char *asan_options = library_asan_options(&program->elf, preload, getenv("ASAN_OPTIONS"));
    char *patterns = run_list_join(&request->patterns, " "), *options = run_list_join(&request->options, "\n");
    char *names = preload[0] != '\0' && !run_is_switched_off() ? resolve_names(policy) : NULL;
    set_variable("LD_PRELOAD", preload[0] != '\0' ? preload : NULL);
    if (asan_options != NULL)
        set_variable("ASAN_OPTIONS", asan_options);
    set_variable("SOCKFUSE_POLICY", policy->path);
    set_variable("SOCKFUSE_TARGETS", patterns);
    set_variable("SOCKFUSE_OPTIONS", options);
    set_variable("SOCKFUSE_NAMES", names);
    name_run();
    free(asan_options);
    free(patterns);
    free(options);
    free(names);
    const char *log = getenv("SOCKFUSE_LOG");
    if (log != NULL && strcmp(log, "stderr") != 0)
        make_absolute("SOCKFUSE_LOG");
}
