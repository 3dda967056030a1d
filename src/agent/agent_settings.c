/*
 * agent_settings.c - where the agent's settings come from. See agent_settings.h.
 *
 * The file is one that who starts the agent has named, or that only root or this very user can write to: it is read in
 * full, and nothing that a watched segment names is ever read here.
 */
#define _GNU_SOURCE
#include "agent/agent_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/policy.h"
#include "policy/redis_url.h"
#include "view/output.h"

#define WHY_MAX 280
#define FILE_NAME "agent.conf"
#define COMMON_FOLDER "/etc/sockfuse"

static bool is_roots(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/*
 * Where the fleet's Redis is, with which file's password, and where and whom the agent answers are for root's agent
 * root's word alone: what a user says would be obeyed for all users, and read, bound and removed with root's rights.
 * Others' files may still say the rest.
 */
static void drop_what_is_not_roots(struct agent_settings *settings, int fd, const char *file)
{
    struct agent_settings usual;
    agent_settings_built_in(&usual);
    const bool answers =
        settings->listen[0] != '\0' || settings->allow[0] != '\0' || settings->listen_mode != usual.listen_mode;
    if (geteuid() != 0 || is_roots(fd))
        return;
    if (settings->fleet[0] != '\0')
        warnx("%s: `fleet` is not obeyed, for others than root can write this file", file);
    if (answers)
        warnx("%s: `listen`, `listen_mode` and `allow` are not obeyed, for others than root can write this file", file);
    settings->fleet[0] = settings->fleet_password[0] = '\0';
    settings->fleet_ca[0] = settings->fleet_certificate[0] = '\0';
    settings->listen[0] = settings->allow[0] = '\0';
    settings->listen_mode = usual.listen_mode;
}

/* Reads a policy's section. False, after messages: it is bad, or (where it `must` have one) has none. */
static bool read_file(struct agent_settings *settings, const char *file, bool must, bool *has)
{
    struct policy_problems problems;
    struct stat status;
    char path[40];
    /* The very file whose owner is looked at, whatever its name leads to by then. A FIFO is not waited for. */
    const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    /* What can't be read is told by its own name. */
    const bool is_file = fd >= 0 && fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode);
    struct policy *policy = policy_load(is_file ? path : file, NULL, &problems);
    const bool good = policy != NULL;
    print_problems(file, &problems);
    policy_problems_free(&problems);
    *has = good && policy->agent != NULL;
    if (*has) {
        *settings = policy->agent->settings;
        drop_what_is_not_roots(settings, fd, file);
    } else if (good && must) {
        warnx("%s: it has no section [agent]; what the agent is to do stands there", file);
    }
    if (fd >= 0)
        close(fd);
    policy_free(policy);
    return good && (*has || !must);
}

/* The user's own file, or NULL; to be freed. */
static char *own_file(void)
{
    const char *folder = environment("XDG_CONFIG_HOME"), *home = environment("HOME");
    if (folder != NULL && folder[0] == '/')
        return format_text("%s/sockfuse/%s", folder, FILE_NAME);
    return home != NULL && home[0] == '/' ? format_text("%s/.config/sockfuse/%s", home, FILE_NAME) : NULL;
}

static bool read_usual(struct agent_settings *settings)
{
    char *places[] = {geteuid() != 0 ? own_file() : NULL, copy_text(COMMON_FOLDER "/" FILE_NAME)};
    bool good = true, has = false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i] != NULL && good && !has && access(places[i], F_OK) == 0)
            good = read_file(settings, places[i], true, &has);
        free(places[i]);
    }
    return good;
}

/* What stands on a command line everybody reads who can list processes. */
static bool is_seen_by_all(enum agent_key_index key, const char *value, char *why, size_t why_size)
{
    struct redis_url url;
    if (key != AGENT_FLEET || !redis_url_parse(&url, value, why, why_size) || !url.has_password)
        return false;
    snprintf(why, why_size, "a password on the command line is seen by everybody: use fleet_password");
    return true;
}

static bool read_override(struct agent_settings *settings, const char *text)
{
    char why[WHY_MAX], words[WHY_MAX];
    const char *equals = strchr(text, '=');
    if (equals == NULL || equals == text) {
        warnx("-o %s: expected KEY=VALUE", text);
        return false;
    }
    char *name = format_text("%.*s", (int)(equals - text), text);
    const enum agent_key_index key = agent_key_named(name);
    const bool good = key != AGENT_KEYS && !is_seen_by_all(key, equals + 1, why, sizeof why) &&
                      agent_key_set(settings, key, equals + 1, why, sizeof why);
    if (key == AGENT_KEYS) {
        agent_key_nearest_words(name, words, sizeof words);
        warnx("-o %s: unknown key of [agent]; %s", text, words);
    } else if (!good) {
        warnx("-o %s: %s", agent_keys[key].show != NULL ? name : text, why);
    }
    free(name);
    return good;
}

bool agent_settings_read(struct agent_settings *settings, const struct agent_sources *sources)
{
    bool good = true, has = false;
    agent_settings_built_in(settings);
    if (sources->file != NULL)
        good = read_file(settings, sources->file, true, &has);
    for (size_t i = 0; i < sources->count && sources->file == NULL && good && !has; i++)
        if (sources->choices[i].policy_file != NULL)
            good = read_file(settings, sources->choices[i].policy_file, false, &has);
    if (good && !has)
        good = read_usual(settings);
    for (const char *const *text = sources->overrides; text != NULL && *text != NULL; text++)
        good = read_override(settings, *text) && good;
    return good;
}
