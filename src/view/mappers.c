/*
 * mappers.c - which processes have a file mapped. See mappers.h.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "view/output.h"
#include "view/mappers.h"

struct wanted {
    unsigned int major_number, minor_number;
    uint64_t inode;
    uint32_t owner;
    const char *name;
};

static FILE *open_of(const char *pid, const char *file)
{
    char *path = format_text("/proc/%s/%s", pid, file);
    FILE *stream = fopen(path, "re");
    int code = errno;
    free(path);
    errno = code;
    return stream;
}

/*
 * "7f…-7f… rw-s 00000000 00:1b 12345    /path". Some file systems (overlayfs, btrfs) show another device there than
 * stat(2) does: then the name has to do.
 */
static bool is_mapping(const char *line, const struct wanted *wanted)
{
    unsigned int major_number, minor_number;
    uint64_t inode;
    /* NOLINTNEXTLINE(cert-err34-c): a kernel's numbers are in their range */
    if (sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &major_number, &minor_number, &inode) != 3 || inode != wanted->inode)
        return false;
    return (major_number == wanted->major_number && minor_number == wanted->minor_number) ||
           strstr(line, wanted->name) != NULL;
}

static bool has_mapping(FILE *maps, const struct wanted *wanted)
{
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (!found && getline(&line, &size, maps) >= 0)
        found = is_mapping(line, wanted);
    free(line);
    return found;
}

/*
 * Whether the process is the file's owner's in some way: nobody else could have come to have it mapped. Nor the first
 * one, if it can't be looked into from beside it: then it is what keeps the system, or the sandbox, and no program of
 * it.
 */
static bool may_have_it(const char *pid, const struct wanted *wanted)
{
    if (strcmp(pid, "1") == 0)
        return false;
    FILE *status = open_of(pid, "status");
    char *line = NULL;
    size_t size = 0;
    bool may = wanted->owner == 0 && status != NULL; /* root's processes become anybody's */
    while (!may && status != NULL && getline(&line, &size, status) >= 0) {
        uint32_t id[4];
        /* NOLINTNEXTLINE(cert-err34-c): as above */
        if (sscanf(line, "Uid: %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &id[0], &id[1], &id[2], &id[3]) != 4)
            continue;
        for (size_t i = 0; i < 4; i++)
            may = may || id[i] == wanted->owner;
        break;
    }
    free(line);
    if (status != NULL)
        fclose(status);
    return may;
}

static void add(struct mappers *mappers, const char *pid)
{
    FILE *comm = open_of(pid, "comm");
    mappers->at = grow(mappers->at, mappers->count, sizeof *mappers->at);
    struct mapper *mapper = &mappers->at[mappers->count++];
    *mapper = (struct mapper){.pid = (uint32_t)strtoul(pid, NULL, 10)};
    if (comm != NULL && fgets(mapper->program, sizeof mapper->program, comm) != NULL)
        mapper->program[strcspn(mapper->program, "\n")] = '\0';
    if (comm != NULL)
        fclose(comm);
}

static void look_at(struct mappers *mappers, const char *pid, const struct wanted *wanted)
{
    FILE *maps = open_of(pid, "maps");
    if (maps != NULL && has_mapping(maps, wanted))
        add(mappers, pid);
    else if ((maps == NULL && (errno == EACCES || errno == EPERM)) || (maps != NULL && ferror(maps) != 0))
        mappers->unseen += may_have_it(pid, wanted);
    if (maps != NULL)
        fclose(maps);
}

void mappers_find(struct mappers *mappers, uint64_t device, uint64_t inode, uint32_t owner, const char *name)
{
    const struct wanted wanted = {major((dev_t)device), minor((dev_t)device), inode, owner, name};
    char *self = format_text("%d", (int)getpid());
    DIR *folder = opendir("/proc");
    *mappers = (struct mappers){.unseen = folder == NULL};
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[strspn(entry->d_name, "0123456789")] == '\0' && strcmp(entry->d_name, self) != 0)
            look_at(mappers, entry->d_name, &wanted);
    if (folder != NULL)
        closedir(folder);
    free(self);
}

void mappers_free(struct mappers *mappers)
{
    free(mappers->at);
    *mappers = (struct mappers){0};
}
