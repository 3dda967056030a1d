/*
 * host_program.c - by which names the host program is known. See host_program.h.
 */
#define _GNU_SOURCE
#include "preload/host_program.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/span.h"
#include "preload/real.h"

/* What the kernel reads of a script's first line: BINPRM_BUF_SIZE. */
#define FIRST_LINE_MAX 256
/* Arguments and environment are a quarter of the stack at the most: execve(2). */
#define STACK_AT_START_MAX (UINT64_C(1) << 28)

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *program_name(void)
{
    const char *name = program_invocation_short_name;
    return name[0] == '-' && name[1] ? name + 1 : name;
}

int program_arguments(char ***argv)
{
    static char *none[1];
    const uintptr_t environment = (uintptr_t)environ, above = (uintptr_t)getauxval(AT_RANDOM);
    *argv = none;
    /* On the stack lie argc, argv, NULL, the environment, and above them what AT_RANDOM tells of: System V ABI, 3.4.1. */
    if (environment >= above || above - environment > STACK_AT_START_MAX || environ[-1])
        return 0;
    char **first = environ - 1;
    for (uintptr_t count = 0; (uintptr_t)first[-1] != count; count++)
        if (!*--first)
            return 0;
    *argv = first;
    return (int)(environ - 1 - first);
}

/* --- scripts --- */

/* Whether the executed file is another one than the binary that runs: then that is the interpreter of a script. */
static bool is_interpreted(const char *executed)
{
    struct stat file, binary;
    return stat(executed, &file) == 0 && stat("/proc/self/exe", &binary) == 0 &&
           (file.st_ino != binary.st_ino || file.st_dev != binary.st_dev);
}

/* The first bytes of an ordinary file. A pipe is never opened: that would show at its other end. */
static bool read_first_line(const char *path, char line[FIRST_LINE_MAX + 1])
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return false;
    const ssize_t length = real.read(descriptor, line, FIRST_LINE_MAX);
    real.close(descriptor);
    line[length > 0 ? length : 0] = '\0';
    line[span_until(line, "\n")] = '\0';
    return length > 0;
}

/*
 * Whether the file is a script whose first line names this very program: else it is just a file that the program is to
 * read (`cat foo`, `scp foo host:`).
 */
static bool is_our_script(const char *path)
{
    char line[FIRST_LINE_MAX + 1], *rest = NULL;
    if (!read_first_line(path, line) || strncmp(line, "#!", 2) != 0)
        return false;
    for (char *word = strtok_r(line + 2, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest))
        if (!strcmp(base_name(word), program_name()))
            return true;
    return false;
}

static const char *first_word(int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++)
        if (argv[i] && argv[i][0] != '-')
            return argv[i];
    return "";
}

/* The script that the kernel was asked to execute, by its first line; NULL: it executed the program itself. */
static const char *executed_script(void)
{
    const char *executed = (const char *)getauxval(AT_EXECFN);
    const char *file = base_name(executed ? executed : "");
    /* Where both have one name there is nothing to choose between. */
    return executed && strcmp(file, program_name()) != 0 && is_interpreted(executed) ? file : NULL;
}

/* Whether the program is one that will read its first argument as a script, so that a look at that costs nobody. */
static bool is_interpreter(void)
{
    static const char *const interpreters[] = {"python", "node", "nodejs", "perl", "php",  "ruby",
                                               "sh",     "bash", "dash",   "lua",  "tclsh"};
    const size_t length = span_until(program_name(), "0123456789.");
    if (program_name()[length + span_of(program_name() + length, "0123456789.")] != '\0')
        return false;
    for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++)
        if (strlen(interpreters[i]) == length && !strncmp(program_name(), interpreters[i], length))
            return true;
    return false;
}

/* --- the search --- */

const char *program_known_as(int argc, char *const *argv)
{
    const char *script = executed_script(), *word = first_word(argc, argv);
    if (script)
        return script;
    return is_interpreter() && is_our_script(word) ? base_name(word) : program_name();
}

bool program_discover(int argc, char *const *argv, const char *(*environment)(const char *name),
                      struct discovery *found)
{
    const char *executed = (const char *)getauxval(AT_EXECFN);
    const char *word = first_word(argc, argv), *argument = base_name(word), *script = executed_script();
    const char *names[PROGRAM_NAMES_MAX] = {script ? script : "", argument, program_name(),
                                            script || !executed ? "" : base_name(executed), NULL};
    if (!policy_discover(names, environment, found))
        return false;
    /*
     * Only a file for which there is a policy is looked at: to look at every argument could wait for a file system that
     * is gone (umount -l).
     */
    if (found->name != argument || is_our_script(word))
        return true;
    names[1] = "";
    return policy_discover(names, environment, found);
}
