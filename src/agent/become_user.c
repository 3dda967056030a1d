/*
 * become_user.c - a child becomes a user for good. See become_user.h.
 */
#define _GNU_SOURCE
#include "agent/become_user.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/signals_as_new.h"
#include "policy/command_words.h"
#include "view/output.h"

/* Of a user who is in no list of users nothing else is known. */
#define NO_GROUP ((gid_t)65534)
#define GROUPS_MAX 65536
/* A command may have so many processes and threads beside those that its user has already. */
#define MORE_TASKS 64u
#define DESCRIPTORS 1024u

/* --- who he is ---------------------------------------------------------------------------------------------------- */

/* /proc/PID/task has a folder for each thread; the limit counts those. */
static uint64_t tasks_of(uid_t uid)
{
    DIR *stream = opendir("/proc");
    const struct dirent *entry;
    uint64_t tasks = 0;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        struct stat status;
        char *path = isdigit((unsigned char)entry->d_name[0]) ? format_text("/proc/%s/task", entry->d_name) : NULL;
        if (path != NULL && stat(path, &status) == 0 && status.st_uid == uid)
            tasks += status.st_nlink > 2 ? status.st_nlink - 2 : 1;
        free(path);
    }
    if (stream != NULL)
        closedir(stream);
    return tasks;
}

void new_user_know(struct new_user *user, uid_t uid)
{
    const struct passwd *entry = getpwuid(uid);
    *user = (struct new_user){.user = uid, .group = NO_GROUP, .group_count = 1, .is_another = uid != geteuid()};
    user->groups = allocate(GROUPS_MAX, sizeof *user->groups);
    user->groups[0] = NO_GROUP;
    user->name = entry != NULL ? copy_text(entry->pw_name) : format_text("%u", uid);
    user->home = copy_text(entry != NULL && entry->pw_dir[0] == '/' ? entry->pw_dir : "/");
    if (entry != NULL) {
        user->group = user->groups[0] = entry->pw_gid;
        user->group_count = GROUPS_MAX;
        if (getgrouplist(user->name, user->group, user->groups, &user->group_count) < 0)
            user->group_count = 1;
    }
    user->tasks = uid != 0 ? tasks_of(uid) : 0;
}

char **environment_of_user(const struct new_user *user, const char *const *more)
{
    char *const own[] = {copy_text("PATH=" COMMAND_FOLDERS),
                         copy_text("SHELL=/bin/sh"),
                         copy_text("LANG=C.UTF-8"),
                         copy_text("SOCKFUSE=off"),
                         format_text("HOME=%s", user->home),
                         format_text("USER=%s", user->name),
                         format_text("LOGNAME=%s", user->name)};
    const size_t own_count = sizeof own / sizeof *own;
    size_t count = 0;
    while (more != NULL && more[count] != NULL)
        count++;
    char **environment = allocate(own_count + count + 1, sizeof *environment);
    memcpy(environment, own, sizeof own);
    for (size_t i = 0; i < count; i++)
        environment[own_count + i] = copy_text(more[i]);
    return environment;
}

/* --- and that he is nobody else ----------------------------------------------------------------------------------- */

static void limit(int resource, uint64_t most)
{
    struct rlimit present;
    if (getrlimit((__rlimit_resource_t)resource, &present) != 0 ||
        (present.rlim_max != RLIM_INFINITY && present.rlim_max <= most))
        return;
    present.rlim_cur = present.rlim_max = most;
    setrlimit((__rlimit_resource_t)resource, &present);
}

static bool give_up_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return syscall(SYS_capset, &header, none) == 0;
}

static bool change_user(const struct new_user *user)
{
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;
    /* The bounding set first, while it may be changed; the rest of the capabilities goes with the user, or below. */
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++)
        prctl(PR_CAPBSET_DROP, capability);
    /* Groups first: with the user goes the right to change them. */
    return setgroups((size_t)user->group_count, user->groups) == 0 &&
           setresgid(user->group, user->group, user->group) == 0 &&
           setresuid(user->user, user->user, user->user) == 0 && getresuid(&real, &effective, &saved) == 0 &&
           getresgid(&real_group, &effective_group, &saved_group) == 0 && real == user->user &&
           effective == user->user && saved == user->user && real_group == user->group &&
           effective_group == user->group && saved_group == user->group && give_up_capabilities() &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

/* Memory that a command wastes is not to cost the agent its life. */
static void be_the_first_to_die(void)
{
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    const ssize_t written = write(fd, "500", 3);
    (void)written; /* where it may not be said, it is not needed either */
    close(fd);
}

bool become_user(const struct new_user *user, uint64_t limit_ms)
{
    be_the_first_to_die();
    setsid();
    umask(022);
    signals_as_new();
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NOFILE, DESCRIPTORS);
    limit(RLIMIT_CPU, limit_ms / 1000 + 2);
    if (user->user != 0)
        limit(RLIMIT_NPROC, user->tasks + MORE_TASKS);
    return (!user->is_another || change_user(user)) && chdir("/") == 0;
}

void execute_as_user(const char *const *words, char **environment)
{
    char *const *argv = (char *const *)(uintptr_t)words;
    int code = ENOENT;
    if (strchr(words[0], '/') != NULL) {
        execve(words[0], argv, environment);
        return;
    }
    for (const char *at = COMMAND_FOLDERS; *at != '\0';) {
        const size_t length = strcspn(at, ":");
        char *path = format_text("%.*s/%s", (int)length, at, words[0]);
        execve(path, argv, environment);
        free(path);
        if (errno != ENOENT && errno != ENOTDIR)
            code = errno;
        at += length + (at[length] == ':');
    }
    errno = code;
}
