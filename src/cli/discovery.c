/*
 * discovery.c - says which policy file a program would get, and why. See discovery.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/discovery.h"
#include "view/library.h"
#include "cli/program.h"
#include "policy/discover.h"

/* What has been told so far. */
struct account {
    char *taken; /* the file that it gets */
};

/* --- the program -------------------------------------------------------------------------------------------------- */

static void print_names(const char *command, const struct program *program, const char *const *names)
{
    printf("%s", shown(command));
    if (program->path[0] != '\0') {
        printf(" (%s", shown(program->path));
        if (program->is_script)
            printf(", a script for %s", shown(program->binary));
        printf(")");
    }
    printf(" is known as %s", shown(names[0]));
    for (size_t i = 1; names[i] != NULL; i++)
        printf(", then as %s", shown(names[i]));
    printf("\n");
}

/* What `run` would say of it beforehand. */
static void print_doubts(const struct program *program)
{
    static struct library library;
    bool foreign;
    if (!library_find(&library))
        return;
    if (program->examined)
        library_take_fitting(&library, &program->elf);
    /* Whether the second engine can be had, only the start itself tells. */
    char *warning = program_warning(program, &library.elf, &foreign);
    if (warning != NULL && program_is_privileged(program))
        warnx("%s", warning);
    else if (warning != NULL)
        warnx("%s; but run takes the second engine for it, where the kernel lets it", warning);
    free(warning);
}

static void print_switches(void)
{
    const char *off = getenv("SOCKFUSE");
    if (off != NULL && strcmp(off, "off") == 0)
        warnx("SOCKFUSE=off is set here: a program that is started from here is not guarded at all");
    if (getenv("SOCKFUSE_TARGETS") != NULL)
        warnx("SOCKFUSE_TARGETS is set here, by sockfuse run -t: a program that is started from here gets its targets");
}

/* --- the places --------------------------------------------------------------------------------------------------- */

/* Where the links at `path` lead, or "" for a file that is none. To be freed. */
static char *describe_links(const char *path)
{
    struct stat status;
    char *real = NULL;
    if (lstat(path, &status) == 0 && S_ISLNK(status.st_mode))
        real = realpath(path, NULL);
    char *text = real != NULL ? format_text(", a link to %s", real) : copy_text("");
    free(real);
    return text;
}

static void print_missing(const char *path)
{
    char target[PATH_MAX];
    const int error = access(path, F_OK) == 0 ? 0 : errno;
    const ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    if (length >= 0)
        printf("  %-46s a link that leads nowhere: %s\n", shown(path), shown(target));
    else if (error != 0 && error != ENOENT && error != ENOTDIR)
        printf("  %-46s can't be looked for: %s\n", shown(path), strerror(error));
    else
        printf("  %-46s not there\n", shown(path));
}

static bool print_place(const struct discovery_place *place, void *context)
{
    struct account *account = context;
    if (account->taken == NULL && !place->exists) {
        print_missing(place->path);
        return false;
    }
    char *links = place->exists ? describe_links(place->path) : copy_text("");
    if (account->taken != NULL) {
        printf("  %-46s %s\n", shown(place->path), place->exists ? "is there, but comes later" : "not asked for");
    } else {
        printf("  %-46s taken%s\n", shown(place->path), shown(links));
        account->taken = copy_text(place->path);
    }
    free(links);
    return false;
}

static void print_variable(struct account *account)
{
    const char *named = environment("SOCKFUSE_POLICY");
    if (named == NULL || named[0] == '\0') {
        printf("  %-46s %s\n", "SOCKFUSE_POLICY", named == NULL ? "not set" : "empty: as good as not set");
        return;
    }
    char *text = format_text("SOCKFUSE_POLICY=%s", named);
    char *links = describe_links(named);
    printf("  %-46s taken%s\n", shown(text), shown(links));
    account->taken = copy_text(named);
    free(links);
    free(text);
}

char *discovery_explain(const char *command)
{
    static struct program program;
    const char *names[PROGRAM_NAMES_MAX];
    struct account account = {0};
    const bool found = program_examine(command, &program);
    if (!found)
        program = (struct program){0};
    program_names(command, &program, names);
    if (names[0][0] == '\0') {
        warnx("--for '%s': this is no program's name", command);
        return NULL;
    }
    print_names(command, &program, names);
    print_variable(&account);
    policy_discover_each(names, environment, print_place, &account);
    if (account.taken == NULL)
        printf("%s gets no policy: it is left alone\n", shown(command));
    flush_output(); /* before what stderr says */
    if (found)
        print_doubts(&program);
    else
        warnx("%s is not found among the programs here: it was looked for by its name alone", command);
    print_switches();
    return account.taken;
}
