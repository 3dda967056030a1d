/*
 * check_commands.c - whether the commands that a policy names for the agent are here. See check_commands.h.
 *
 * As the agent looks for them (agent/become_user.c): no shell, and the usual folders alone.
 */
#define _GNU_SOURCE
#include "cli/check_commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/program.h"
#include "policy/check_value.h"
#include "policy/command_words.h"

/* 0, or an errno. */
static int find(const char *word)
{
    int code = ENOENT;
    if (strchr(word, '/') != NULL)
        return program_is_executable(word) ? 0 : errno;
    for (const char *at = COMMAND_FOLDERS; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        char *path = format_text("%.*s/%s", (int)length, at, word);
        const bool found = program_is_executable(path);
        const int why = errno;
        free(path);
        if (found)
            return 0;
        if (why != ENOENT && why != ENOTDIR)
            code = why;
        at += length + (at[length] == ':');
    }
    return code;
}

static void check(const char *file, const struct target *target, const char *key, const char *command)
{
    char *word = format_text("%.*s", (int)strcspn(command, " "), command);
    const int code = find(word);
    if (code == ENOENT || code == ENOTDIR)
        warnx("%s:%u: warning: `%s` of [%s]: there is no command %s%s", file, target->line, key, target->name, word,
              strchr(word, '/') != NULL ? "; its full path is expected"
                                        : " in " COMMAND_FOLDERS ", where the agent looks; name it by its full path");
    else if (code != 0)
        warnx("%s:%u: warning: `%s` of [%s]: %s can't be executed: %s; chmod +x makes it a command", file, target->line,
              key, target->name, word, strerror(code));
    free(word);
}

/* What was told of the target before it, as of one in [defaults], is told once. */
void check_commands(const char *file, const struct policy *policy)
{
    const char *alert = "", *health_check = "";
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        if (target->alert[0] != '\0' && strcmp(target->alert, alert) != 0)
            check(file, target, "alert", alert = target->alert);
        if (check_kind(target->health_check) == CHECK_COMMAND && strcmp(target->health_check, health_check) != 0)
            check(file, target, "health_check", check_command(health_check = target->health_check));
    }
}
