/*
 * injection.c - asking the kernel what a rehearsal will ask of it. See injection.h.
 *
 * Classic socket filters need no privilege in the mainline kernel; some kernels give them to root alone.
 */
#define _GNU_SOURCE
#include "cli/injection.h"

#include <errno.h>
#include <linux/filter.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

static bool needs_filters(const struct policy *policy)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        for (uint32_t fault = 0; target->mode != MODE_OFF && fault < target->fault_count; fault++) {
            enum fault_kind kind = (enum fault_kind)target->faults[fault].kind;
            if (kind != FAULT_REFUSE && kind != FAULT_DELAY && kind != FAULT_SLOW)
                return true;
        }
    }
    return false;
}

bool injection_is_allowed(const struct policy *policy)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &drop};
    if (!needs_filters(policy))
        return true;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    bool allowed = setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 || errno != EPERM;
    close(fd);
    return allowed;
}
