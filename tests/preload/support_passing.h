/*
 * support_passing.h - a message that passes a descriptor on (SCM_RIGHTS).
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_SUPPORT_PASSING_H
#define SOCKFUSE_TESTS_PRELOAD_SUPPORT_PASSING_H

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct passing_message {
    struct msghdr message;
    struct iovec vector;
    char byte;
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
};

/* One byte, and the descriptor. It points into itself: it stays where it is. */
static inline void passing_begin(struct passing_message *passing, int fd)
{
    memset(passing, 0, sizeof *passing);
    passing->vector = (struct iovec){&passing->byte, 1};
    passing->message = (struct msghdr){.msg_iov = &passing->vector,
                                       .msg_iovlen = 1,
                                       .msg_control = &passing->control,
                                       .msg_controllen = sizeof passing->control};
    passing->control.aligned = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&passing->control.aligned), &fd, sizeof fd);
}

#endif
