/*
 * program.c - what kind of program a command names, and whether the library can guard it.
 *
 * See host_program.h.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/program.h"

/*
 * The kernel gives up (ELOOP) when interpreters are scripts themselves more often than this: exec_binprm in
 * fs/exec.c.
 */
#define INTERPRETERS_MAX 5
/* What the kernel reads of a script's first line: BINPRM_BUF_SIZE. */
#define FIRST_LINE_MAX 256

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* --- the search along PATH ---------------------------------------------------------------------------------------- */

bool program_is_executable(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    if (!S_ISREG(status.st_mode)) {
        errno = EACCES;
        return false;
    }
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

bool program_find(const char *name, char *path, size_t size)
{
    if (name[0] == '\0' || strlen(name) >= size) {
        errno = name[0] == '\0' ? ENOENT : ENAMETOOLONG;
        return false;
    }
    if (strchr(name, '/') != NULL) {
        strcpy(path, name);
        return program_is_executable(path);
    }
    const char *folders = getenv("PATH");
    if (folders == NULL)
        folders = "/bin:/usr/bin"; /* confstr(_CS_PATH) */
    bool denied = false;
    for (;;) {
        const char *end = strchrnul(folders, ':');
        int length = (int)(end - folders); /* an empty one is the current folder */
        int written = snprintf(path, size, "%.*s%s%s", length, folders, length > 0 ? "/" : "./", name);
        if (written > 0 && (size_t)written < size) {
            if (program_is_executable(path))
                return true;
            denied = denied || errno == EACCES;
        }
        if (*end == '\0')
            break;
        folders = end + 1;
    }
    errno = denied ? EACCES : ENOENT;
    return false;
}

/* --- interpreters ------------------------------------------------------------------------------------------------- */

/*
 * `env [OPTION]... [NAME=VALUE]... PROGRAM`: the kernel hands the rest of the line over as one argument, so there is
 * more than a program's name in it only after -S. False where no program is named.
 */
static bool program_behind_env(struct program *program, char *argument, char *path, size_t size)
{
    if (argument == NULL)
        return false;
    bool split = strncmp(argument, "-S", 2) == 0 || strncmp(argument, "-vS", 3) == 0 ||
                 strncmp(argument, "--split-string", 14) == 0;
    if (!split)
        return program_find(argument, path, size);
    char *rest = strchr(argument, argument[1] == '-' ? '=' : 'S');
    if (rest == NULL)
        return false; /* `--split-string sh` is one word to env, and no option of its */
    char *word, *place = NULL;
    for (word = strtok_r(rest + 1, " \t", &place); word != NULL; word = strtok_r(NULL, " \t", &place)) {
        if (strcmp(word, "-i") == 0 || strcmp(word, "-") == 0 || strcmp(word, "--ignore-environment") == 0)
            program->environment_emptied = true;
        else if (strcmp(word, "-u") == 0 || strcmp(word, "-C") == 0)
            strtok_r(NULL, " \t", &place); /* the option's own argument */
        else if (word[0] != '-' && strchr(word, '=') == NULL)
            return program_find(word, path, size);
    }
    return false;
}

/*
 * The interpreter that a script's first line names. False: it is no script in the kernel's eyes (`*line` then holds
 * the file's first bytes), or its interpreter can't be told.
 */
static bool interpreter_of(struct program *program, char *line, char *path, size_t size)
{
    line[strcspn(line, "\n")] = '\0';
    char *name = line + 2 + strspn(line + 2, " \t");
    char *end = name + strcspn(name, " \t");
    char *argument = end + strspn(end, " \t");
    *end = '\0';
    for (size_t length = strlen(argument); length > 0 && strchr(" \t", argument[length - 1]) != NULL; length--)
        argument[length - 1] = '\0';
    if (name[0] == '\0' || strlen(name) >= size)
        return false;
    if (strcmp(base_name(name), "env") == 0)
        return program_behind_env(program, argument[0] != '\0' ? argument : NULL, path, size);
    strcpy(path, name);
    return program_is_executable(path);
}

bool program_examine(const char *name, struct program *program)
{
    *program = (struct program){0};
    if (!program_find(name, program->path, sizeof program->path))
        return false;
    strcpy(program->binary, program->path);
    for (int level = 0; level <= INTERPRETERS_MAX; level++) {
        int descriptor = open(program->binary, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (descriptor < 0)
            return true; /* it may still be executed; nothing is known of it */
        elf_examine(descriptor, &program->elf);
        char line[FIRST_LINE_MAX + 1];
        ssize_t length = pread(descriptor, line, FIRST_LINE_MAX, 0);
        close(descriptor);
        program->examined = program->elf.is_elf;
        if (length < 0 || program->elf.is_elf)
            return true;
        program->is_script = true;
        line[length] = '\0';
        if (strncmp(line, "#!", 2) != 0)
            strcpy(program->binary, "/bin/sh"); /* so does execvp when the kernel knows the format not at all */
        else if (!interpreter_of(program, line, program->binary, sizeof program->binary))
            return true;
    }
    return true;
}

void program_names(const char *command, const struct program *program, const char *names[PROGRAM_NAMES_MAX])
{
    names[0] = base_name(command);
    names[1] = program->is_script ? base_name(program->binary) : NULL;
    names[2] = NULL;
}

/* --- can it be guarded? ------------------------------------------------------------------------------------------- */

/* Whether a file's capabilities reach the process: permitted ones, for they make the kernel set AT_SECURE. */
static bool has_capabilities(const char *path)
{
    struct vfs_cap_data data = {0};
    ssize_t size = getxattr(path, "security.capability", &data, sizeof data);
    if (size < 0 && errno == ERANGE)
        return true; /* a later revision with a name space's root; never empty */
    if (size < (ssize_t)sizeof data.magic_etc)
        return false;
    return (le32toh(data.magic_etc) & VFS_CAP_FLAGS_EFFECTIVE) != 0 || data.data[0].permitted != 0 ||
           data.data[1].permitted != 0;
}

/* What makes the kernel set AT_SECURE, so that the loader drops LD_PRELOAD: security/commoncap.c. NULL: nothing. */
static const char *privilege_of(const char *path)
{
    struct stat status;
    struct statvfs volume;
    if (stat(path, &status) != 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return NULL;
    if (statvfs(path, &volume) == 0 && (volume.f_flag & ST_NOSUID) != 0)
        return NULL;
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid())
        return "set-user-ID";
    if ((status.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && status.st_gid != getgid())
        return "set-group-ID";
    if (getuid() != 0 && has_capabilities(path))
        return "privileged by file capabilities";
    return NULL;
}

bool program_is_privileged(const struct program *program)
{
    return privilege_of(program->binary) != NULL;
}

/* The dynamic loader itself (`ld.so PROGRAM`) has no interpreter and still preloads. */
static bool is_loader(const char *path)
{
    const char *base = base_name(path);
    return strncmp(base, "ld-linux", 8) == 0 || strncmp(base, "ld.so", 5) == 0 || strncmp(base, "ld-2.", 5) == 0;
}

char *program_warning(const struct program *program, const struct elf_facts *library, bool *foreign)
{
    static const char consequence[] = "its connections will not be guarded";
    const char *binary = program->binary;
    *foreign = false;
    if (program->environment_emptied)
        return format_text("%s starts its interpreter with an empty environment (env -i), in which the library is not "
                           "named: %s; take -i out",
                           program->path, consequence);
    if (!program->examined)
        return NULL;
    const struct elf_facts *elf = &program->elf;
    if (elf->is_go)
        return format_text("%s is a Go program, which makes its system calls without libc: %s", binary, consequence);
    if (!elf->has_interpreter && !is_loader(binary))
        return format_text("%s is statically linked, so no library can be loaded into it: %s; use a dynamically linked "
                           "build",
                           binary, consequence);
    if (elf->is_musl != library->is_musl && elf->has_interpreter) {
        *foreign = true;
        return elf->is_musl ? format_text("%s is built for musl (%s), but libsockfuse.so is for glibc: %s; make musl "
                                          "builds one for it",
                                          binary, elf->interpreter, consequence)
                            : format_text("%s is built for glibc (%s), but libsockfuse.so is for musl: %s", binary,
                                          elf->interpreter, consequence);
    }
    if (elf->bits != library->bits)
        return format_text("%s is a %d-bit program, but libsockfuse.so is %d-bit, and the loader will say so: %s; %s",
                           binary, elf->bits, library->bits, consequence,
                           elf->bits == 32 ? "make lib32 builds one for it" : "use a sockfuse that is 64-bit");
    if (elf->machine != library->machine || elf->big_endian != library->big_endian)
        return format_text("%s is for another processor than libsockfuse.so (ELF machine %d, not %d): %s", binary,
                           elf->machine, library->machine, consequence);
    const char *privilege = privilege_of(binary);
    if (privilege != NULL)
        return format_text("%s is %s, and for such programs the loader ignores LD_PRELOAD: %s; start it as a user who "
                           "has that privilege already, or use a copy without it",
                           binary, privilege, consequence);
    return NULL;
}
