/*
 * filter.c - the filter, of one table of calls. See filter.h.
 *
 * Only the call's number and plain arguments can be seen here: what a pointer leads to is read by the worker.
 */
#define _GNU_SOURCE
#include "notify/filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])
/* 5.19; without it a signal may take back what the worker has received, and then an admission would count twice. */
#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#define X32 0x40000000u
/* Of i386's socketcall(2). */
#define CALL_CONNECT 3u
#define CALL_GETSOCKOPT 15u

enum about { ABOUT_CONNECT, ABOUT_GETSOCKOPT, ABOUT_SOCKETCALL, ABOUT_RINGS };
struct row {
    uint32_t architecture, number;
    enum about about;
};

/* Of one architecture side by side. */
static const struct row table[] = {
#if defined __x86_64__ || defined __i386__
    {AUDIT_ARCH_X86_64, 42, ABOUT_CONNECT},
    {AUDIT_ARCH_X86_64, 55, ABOUT_GETSOCKOPT},
    {AUDIT_ARCH_X86_64, 425, ABOUT_RINGS},
    {AUDIT_ARCH_X86_64, X32 | 42, ABOUT_CONNECT},
    {AUDIT_ARCH_X86_64, X32 | 542, ABOUT_GETSOCKOPT},
    {AUDIT_ARCH_X86_64, X32 | 425, ABOUT_RINGS},
    {AUDIT_ARCH_I386, 362, ABOUT_CONNECT},
    {AUDIT_ARCH_I386, 365, ABOUT_GETSOCKOPT},
    {AUDIT_ARCH_I386, 102, ABOUT_SOCKETCALL},
    {AUDIT_ARCH_I386, 425, ABOUT_RINGS},
#else
    {AUDIT_ARCH_AARCH64, 203, ABOUT_CONNECT}, {AUDIT_ARCH_AARCH64, 209, ABOUT_GETSOCKOPT},
    {AUDIT_ARCH_AARCH64, 425, ABOUT_RINGS},   {AUDIT_ARCH_ARM, 283, ABOUT_CONNECT},
    {AUDIT_ARCH_ARM, 295, ABOUT_GETSOCKOPT},  {AUDIT_ARCH_ARM, 425, ABOUT_RINGS},
#endif
};

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offset))
#define EQUAL(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), yes, no)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, (uint32_t)(value))
/* The lower half: a program that leaves something in the upper one of an int means the same. */
#define ARGUMENT(index) (offsetof(struct seccomp_data, args) + sizeof(uint64_t) * (size_t)(index))
#define BLOCK_MAX 7u

/* What follows the loading of the number, for one row: its answer, or on to the next row. */
static unsigned int write_row(const struct row *row, struct sock_filter *code)
{
    const struct sock_filter connecting[] = {EQUAL(row->number, 0, 1), ANSWER(SECCOMP_RET_USER_NOTIF)};
    const struct sock_filter rings[] = {EQUAL(row->number, 0, 1), ANSWER(SECCOMP_RET_ERRNO | ENOSYS)};
    const struct sock_filter error[] = {EQUAL(row->number, 0, 6), LOAD(ARGUMENT(1)),     EQUAL(SOL_SOCKET, 0, 3),
                                        LOAD(ARGUMENT(2)),        EQUAL(SO_ERROR, 0, 1), ANSWER(SECCOMP_RET_USER_NOTIF),
                                        ANSWER(SECCOMP_RET_ALLOW)};
    const struct sock_filter joint[] = {EQUAL(row->number, 0, 5),       LOAD(ARGUMENT(0)),
                                        EQUAL(CALL_CONNECT, 1, 0),      EQUAL(CALL_GETSOCKOPT, 0, 1),
                                        ANSWER(SECCOMP_RET_USER_NOTIF), ANSWER(SECCOMP_RET_ALLOW)};
    const struct sock_filter *from = row->about == ABOUT_CONNECT      ? connecting
                                     : row->about == ABOUT_RINGS      ? rings
                                     : row->about == ABOUT_GETSOCKOPT ? error
                                                                      : joint;
    const size_t count = row->about == ABOUT_GETSOCKOPT   ? COUNT_OF(error)
                         : row->about == ABOUT_SOCKETCALL ? COUNT_OF(joint)
                                                          : COUNT_OF(connecting);
    for (size_t i = 0; i < count; i++)
        code[i] = from[i];
    return (unsigned int)count;
}

unsigned int filter_write(struct sock_filter code[FILTER_MAX])
{
    unsigned int length = 0;
    for (size_t first = 0, next; first < COUNT_OF(table); first = next) {
        code[length++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, arch));
        const unsigned int test = length++;
        code[length++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, nr));
        for (next = first; next < COUNT_OF(table) && table[next].architecture == table[first].architecture; next++)
            length += write_row(&table[next], &code[length]);
        code[length++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
        code[test] = (struct sock_filter)EQUAL(table[first].architecture, 0, (uint8_t)(length - test - 1));
    }
    code[length++] = (struct sock_filter)ANSWER(SECCOMP_RET_ALLOW);
    return length;
}

static int install(const struct sock_fprog *program)
{
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                        SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, program);
}

int filter_install(bool *gave_up_more)
{
    static struct sock_filter code[FILTER_MAX];
    const struct sock_fprog program = {.len = (unsigned short)filter_write(code), .filter = code};
    int listener = install(&program);
    *gave_up_more = false;
    /* Who may administer needs no promise; all others promise that no set-user-ID program gets them more. */
    if (listener >= 0 || errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return listener;
    *gave_up_more = true;
    return install(&program);
}

void filter_read(const struct seccomp_data *data, struct asked_call *call)
{
    *call = (struct asked_call){.kind = ASKED_NOTHING, .fd = (int)data->args[0]};
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        if (table[i].architecture != data->arch || table[i].number != (uint32_t)data->nr)
            continue;
        if (table[i].about == ABOUT_SOCKETCALL) {
            call->kind = data->args[0] == CALL_CONNECT ? ASKED_CONNECT : ASKED_ERROR;
            call->arguments = data->args[1];
        } else {
            call->kind = table[i].about == ABOUT_CONNECT ? ASKED_CONNECT : ASKED_ERROR;
            call->address = data->args[1];
            call->length = data->args[2];
        }
    }
}
