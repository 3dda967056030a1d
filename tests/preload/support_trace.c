/*
 * support_trace.c - which system calls a piece of a program makes, by ptrace. See support.h.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

int system_calls_of(void (*play)(void *context), void *context, struct system_call *calls, int room)
{
    int status, count = -1;
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        play(context);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    while (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        struct __ptrace_syscall_info info;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80) || ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) <= 0 ||
            info.op != PTRACE_SYSCALL_INFO_ENTRY)
            continue;
        if (info.entry.nr == (uint64_t)MARK) {
            if (count >= 0)
                break;
            count = 0;
        } else if (count >= 0) {
            if (count < room)
                calls[count] = (struct system_call){(long)info.entry.nr, (long)info.entry.args[0]};
            count++;
        }
    }
    if (WIFSTOPPED(status)) {
        kill(pid, SIGKILL);
        actor_wait(pid);
    } else {
        CHECK(exited_well(status));
    }
    return count;
}
