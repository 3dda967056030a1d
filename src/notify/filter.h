/*
 * filter.h - which system calls the kernel is to ask about: the filter, and its installation.
 *
 * Asked about are connect, and getsockopt of SO_ERROR, by which a program learns of a connection that was pending. The
 * rings of io_uring, which pass any filter, are not to be had. Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_FILTER_H
#define SOCKFUSE_NOTIFY_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

#define FILTER_MAX 96u

/* The filter's instructions; returns how many. Pure. */
unsigned int filter_write(struct sock_filter code[FILTER_MAX]);

/*
 * For this process and all its heirs, for ever. Returns the descriptor at which its calls are asked about; -1: errno,
 * and nothing was done but perhaps no_new_privs, which is set where a filter may not be had without (`*gave_up_more`).
 */
int filter_install(bool *gave_up_more);

/* What a call is. */
enum asked { ASKED_NOTHING, ASKED_CONNECT, ASKED_ERROR };
struct asked_call {
    enum asked kind;
    int fd;
    uint64_t address, length; /* of connect: where its address lies in the caller's memory */
    uint64_t arguments;       /* not 0: i386's socketcall, whose arguments lie there, 4 bytes each */
};
/* Reads a notification by its architecture and number. Pure. */
void filter_read(const struct seccomp_data *data, struct asked_call *call);

#endif
