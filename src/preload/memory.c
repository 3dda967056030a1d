/*
 * memory.c - memory through the kernel's eyes. See memory.h.
 */
#define _GNU_SOURCE
#include "preload/memory.h"

#include <sys/uio.h>
#include <unistd.h>

bool memory_copy(void *to, const void *from, size_t count)
{
    struct iovec local = {to, count}, remote = {(void *)from, count};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)count;
}

bool memory_message_connects(const struct msghdr *message, int flags, struct message_address *address)
{
    struct msghdr header;
    if (!(flags & MSG_FASTOPEN) || !message || !memory_copy(&header, message, sizeof header) || !header.msg_name ||
        header.msg_namelen > sizeof address->at || !memory_copy(&address->at, header.msg_name, header.msg_namelen))
        return false;
    address->length = header.msg_namelen;
    return true;
}
