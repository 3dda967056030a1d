/*
 * answer.c - the three calls on the listener that are made. See worker.h.
 *
 * ENOENT is no end: a signal has taken the question back, or its thread is dead.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "notify/worker.h"

bool answer_pass(int listener, uint64_t id)
{
    struct seccomp_notif_resp response = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) == 0;
}

bool answer_error(int listener, uint64_t id, int error)
{
    struct seccomp_notif_resp response = {.id = id, .error = -error};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) == 0;
}

bool question_take(int listener, struct seccomp_notif *question)
{
    memset(question, 0, sizeof *question); /* else it is refused */
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, question) == 0)
        return true;
    question->id = 0;
    return false;
}
