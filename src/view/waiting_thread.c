/*
 * waiting_thread.c - which thread waits in a call. See waiting_thread.h.
 */
#define _GNU_SOURCE
#include "view/waiting_thread.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "view/host_sockets.h"
#include "view/output.h"

/* Another user's process can have any number. */
#define THREADS_MAX 1024u

/* That a thread waits with a socket. */
struct waiting_thread {
    uint32_t thread;
    uint64_t address_key; /* endpoint_hash of the socket's other end */
};

struct search {
    struct host_network network; /* read when it is first asked for */
    bool is_read;
    const struct host_socket **by_inode;
    struct waiting_thread *waiting; /* of the process that is looked at */
    size_t count;
};

static bool may_wait_in(long number)
{
    switch (number) {
    case SYS_connect:
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
        return true;
    default:
        return false;
    }
}

/* The descriptor with which a thread waits; -1: with none, or it may not be asked. */
static int waits_with(uint32_t pid, uint32_t thread)
{
    char *path = format_text("/proc/%" PRIu32 "/task/%" PRIu32 "/syscall", pid, thread);
    FILE *file = fopen(path, "re");
    char line[256] = "", *rest;
    free(path);
    if (file == NULL)
        return -1;
    /* "running", or the number of the call and its arguments. */
    const bool told = fgets(line, sizeof line, file) != NULL && isdigit((unsigned char)line[0]);
    fclose(file);
    if (!told || !may_wait_in(strtol(line, &rest, 10)))
        return -1;
    const unsigned long descriptor = strtoul(rest, NULL, 16);
    return descriptor <= INT32_MAX ? (int)descriptor : -1;
}

/* The inode of the socket that a process has there; 0: it is none. */
static uint64_t socket_at(uint32_t pid, int descriptor)
{
    char *path = format_text("/proc/%" PRIu32 "/fd/%d", pid, descriptor), text[64];
    const ssize_t length = readlink(path, text, sizeof text - 1);
    free(path);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    return strncmp(text, "socket:[", 8) == 0 ? strtoull(text + 8, NULL, 10) : 0;
}

static int compare_inodes(const void *a, const void *b)
{
    const struct host_socket *left = *(const struct host_socket *const *)a,
                             *right = *(const struct host_socket *const *)b;
    return (left->inode > right->inode) - (left->inode < right->inode);
}

static void read_network(struct search *search)
{
    host_network_read(&search->network);
    search->is_read = true;
    search->by_inode = allocate(search->network.socket_count, sizeof(const struct host_socket *));
    for (size_t i = 0; i < search->network.socket_count; i++)
        search->by_inode[i] = &search->network.sockets[i];
    qsort(search->by_inode, search->network.socket_count, sizeof(const struct host_socket *), compare_inodes);
}

static const struct host_socket *socket_of(const struct search *search, uint64_t inode)
{
    const struct host_socket wanted = {.inode = inode}, *key = &wanted;
    const struct host_socket *const *found = inode != 0 ? bsearch(&key, search->by_inode, search->network.socket_count,
                                                                  sizeof(const struct host_socket *), compare_inodes)
                                                        : NULL;
    return found != NULL ? *found : NULL;
}

/* Where a socket leads to, as calls have it; 0: not known. */
static uint64_t address_key_of(struct search *search, uint64_t inode)
{
    if (!search->is_read)
        read_network(search);
    const struct host_socket *socket = socket_of(search, inode);
    if (socket == NULL)
        return 0;
    if (socket->remote != NULL)
        return endpoint_hash(socket->remote);
    const struct host_socket *peer = socket_of(search, socket->peer);
    return peer != NULL && peer->local != NULL ? endpoint_hash(peer->local) : 0;
}

/* Looks at the threads of a process. The only one there is, or 0. */
static uint32_t look_at(struct search *search, uint32_t pid)
{
    char *path = format_text("/proc/%" PRIu32 "/task", pid);
    DIR *folder = opendir(path);
    uint32_t threads = 0, last = 0;
    free(path);
    search->count = 0;
    for (const struct dirent *entry; folder != NULL && threads < THREADS_MAX && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        last = (uint32_t)strtoul(entry->d_name, NULL, 10);
        threads++;
        const int descriptor = waits_with(pid, last);
        const uint64_t inode = descriptor >= 0 ? socket_at(pid, descriptor) : 0;
        const uint64_t key = inode != 0 ? address_key_of(search, inode) : 0;
        if (key == 0)
            continue;
        search->waiting = grow(search->waiting, search->count, sizeof *search->waiting);
        search->waiting[search->count++] = (struct waiting_thread){last, key};
    }
    if (folder != NULL)
        closedir(folder);
    if (threads == THREADS_MAX) /* among those that were not looked at others may wait */
        search->count = 0;
    return threads == 1 ? last : 0;
}

/* The thread that alone waits for that address; 0: none, or there are several. */
static uint32_t only_thread(const struct search *search, uint64_t address_key)
{
    uint32_t found = 0;
    for (size_t i = 0; i < search->count; i++) {
        if (search->waiting[i].address_key != address_key)
            continue;
        if (found != 0)
            return 0;
        found = search->waiting[i].thread;
    }
    return found;
}

/* The calls of one process stand together, and among them those for one address. */
static int compare_calls(const void *a, const void *b)
{
    const struct inflight_call *left = *(struct inflight_call *const *)a, *right = *(struct inflight_call *const *)b;
    const uint32_t left_pid = left->owner->process.pid, right_pid = right->owner->process.pid;
    if (left_pid != right_pid)
        return left_pid > right_pid ? 1 : -1;
    return (left->address_key > right->address_key) - (left->address_key < right->address_key);
}

static void name_threads(struct search *search, struct inflight_call **calls, size_t count)
{
    const struct inflight_owner *owner = calls[0]->owner;
    /* The number of another name space's process is somebody else's here. */
    if (!owner->is_alive || !owner->process.is_near)
        return;
    const uint32_t only = look_at(search, owner->process.pid);
    for (size_t i = 0; i < count; i++) {
        const uint64_t key = calls[i]->address_key;
        const bool goes_alone =
            (i == 0 || calls[i - 1]->address_key != key) && (i + 1 == count || calls[i + 1]->address_key != key);
        calls[i]->thread = only != 0 ? only : key != 0 && goes_alone ? only_thread(search, key) : 0;
    }
}

void inflight_find_threads(struct inflight *inflight)
{
    struct search search = {.is_read = false};
    struct inflight_call **calls = allocate(inflight->count, sizeof(struct inflight_call *));
    size_t begin = 0;
    for (size_t i = 0; i < inflight->count; i++)
        calls[i] = &inflight->at[i];
    qsort(calls, inflight->count, sizeof(struct inflight_call *), compare_calls);
    for (size_t i = 1; i <= inflight->count; i++) {
        if (i < inflight->count && calls[i]->owner->process.pid == calls[begin]->owner->process.pid)
            continue;
        name_threads(&search, calls + begin, i - begin);
        begin = i;
    }
    free(calls);
    free(search.waiting);
    free(search.by_inode);
    if (search.is_read)
        host_network_free(&search.network);
}
