/*
 * host_processes.c - the processes of this host, and which socket is whose. See host_processes.h.
 */
#define _GNU_SOURCE
#include "view/host_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/output.h"

/* A hostile user can open many; a host has some ten thousand. */
#define HOLDINGS_MAX ((size_t)2000000)

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static void add_holding(struct host_processes *processes, uint64_t inode, uint32_t pid)
{
    const size_t count = processes->holding_count;
    if (count == HOLDINGS_MAX) {
        processes->is_cut = true;
        return;
    }
    processes->by_inode = grow(processes->by_inode, count, sizeof *processes->by_inode);
    processes->by_inode[processes->holding_count++] = (struct host_holding){inode, pid};
}

/* False: its descriptors are hidden from the caller. */
static bool read_sockets(struct host_processes *processes, int folder, uint32_t pid)
{
    int at = openat(folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *descriptors = at >= 0 ? fdopendir(at) : NULL;
    if (descriptors == NULL) {
        if (at >= 0)
            close(at);
        return false;
    }
    for (struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
        char link[64];
        uint64_t inode;
        ssize_t length = is_number(entry->d_name) ? readlinkat(at, entry->d_name, link, sizeof link - 1) : -1;
        if (length <= 0)
            continue;
        link[length] = '\0';
        if (sscanf(link, "socket:[%" SCNu64 "]", &inode) == 1) /* NOLINT(cert-err34-c): a kernel's number */
            add_holding(processes, inode, pid);
    }
    closedir(descriptors);
    return true;
}

/* "PID (NAME) STATE PARENT GROUP SESSION ...": a name may hold anything. */
static bool read_stat(struct host_process *process, int folder)
{
    char text[512];
    int file = openat(folder, "stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0)
        close(file);
    if (length <= 0)
        return false;
    text[length] = '\0';
    char *name = strchr(text, '('), *end = strrchr(text, ')');
    if (name == NULL || end == NULL || /* NOLINTNEXTLINE(cert-err34-c): a kernel's numbers */
        sscanf(end + 1, " %*c %" SCNu32 " %*d %" SCNu32, &process->parent, &process->session) != 2)
        return false;
    *end = '\0';
    snprintf(process->program, sizeof process->program, "%s", name + 1);
    return true;
}

static void add_process(struct host_processes *processes, int folder, uint32_t pid)
{
    struct host_process process = {.pid = pid};
    if (!read_stat(&process, folder)) /* it has ended meanwhile */
        return;
    process.is_looked_into = read_sockets(processes, folder, pid);
    processes->at = grow(processes->at, processes->count, sizeof *processes->at);
    processes->at[processes->count++] = process;
}

/* --- in order ----------------------------------------------------------------------------------------------------- */

static int compare_processes(const void *a, const void *b)
{
    const struct host_process *left = a, *right = b;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

static int compare_by_inode(const void *a, const void *b)
{
    const struct host_holding *left = a, *right = b;
    if (left->inode != right->inode)
        return left->inode < right->inode ? -1 : 1;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

static int compare_by_pid(const void *a, const void *b)
{
    const struct host_holding *left = a, *right = b;
    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    return left->inode < right->inode ? -1 : left->inode > right->inode;
}

/* Twice the same, a duplicate of a descriptor, is once. */
static void put_in_order(struct host_processes *processes)
{
    size_t kept = 0;
    if (processes->count > 1)
        qsort(processes->at, processes->count, sizeof *processes->at, compare_processes);
    if (processes->holding_count > 1)
        qsort(processes->by_inode, processes->holding_count, sizeof *processes->by_inode, compare_by_inode);
    for (size_t i = 0; i < processes->holding_count; i++)
        if (kept == 0 || compare_by_inode(&processes->by_inode[kept - 1], &processes->by_inode[i]) != 0)
            processes->by_inode[kept++] = processes->by_inode[i];
    processes->holding_count = kept;
    processes->by_pid = allocate(kept, sizeof *processes->by_pid);
    if (kept == 0)
        return;
    memcpy(processes->by_pid, processes->by_inode, kept * sizeof *processes->by_pid);
    qsort(processes->by_pid, kept, sizeof *processes->by_pid, compare_by_pid);
}

void host_processes_read(struct host_processes *processes)
{
    *processes = (struct host_processes){0};
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        if (!is_number(entry->d_name))
            continue;
        int folder = openat(dirfd(all), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0)
            continue;
        add_process(processes, folder, (uint32_t)strtoul(entry->d_name, NULL, 10));
        close(folder);
    }
    if (all != NULL)
        closedir(all);
    put_in_order(processes);
}

void host_processes_free(struct host_processes *processes)
{
    free(processes->at);
    free(processes->by_inode);
    free(processes->by_pid);
    *processes = (struct host_processes){0};
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

const struct host_process *host_process_of(const struct host_processes *processes, uint32_t pid)
{
    const struct host_process wanted = {.pid = pid};
    return processes->count == 0 ? NULL
                                 : bsearch(&wanted, processes->at, processes->count, sizeof wanted, compare_processes);
}

/* The first one that is not before `wanted` in that order. */
static size_t first_at(const struct host_holding *list, size_t count, const struct host_holding *wanted,
                       int (*compare)(const void *, const void *))
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare(&list[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct host_holding *host_holders_of(const struct host_processes *processes, uint64_t inode, size_t *count)
{
    const struct host_holding first = {inode, 0};
    const size_t begin = first_at(processes->by_inode, processes->holding_count, &first, compare_by_inode);
    size_t end = begin;
    while (inode != 0 && end < processes->holding_count && processes->by_inode[end].inode == inode)
        end++;
    *count = end - begin;
    return end > begin ? &processes->by_inode[begin] : NULL;
}

const struct host_holding *host_sockets_of(const struct host_processes *processes, uint32_t pid, size_t *count)
{
    const struct host_holding first = {0, pid};
    const size_t begin = first_at(processes->by_pid, processes->holding_count, &first, compare_by_pid);
    size_t end = begin;
    while (end < processes->holding_count && processes->by_pid[end].pid == pid)
        end++;
    *count = end - begin;
    return end > begin ? &processes->by_pid[begin] : NULL;
}
