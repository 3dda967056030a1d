/*
 * worker.h - what is asked and answered, until nobody is left who could ask. Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_WORKER_H
#define SOCKFUSE_NOTIFY_WORKER_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

#include "notify/notify.h"

/* What the worker's end means to its keeper. */
enum worker_end { WORKER_BEGINS_ANEW, WORKER_IS_DONE, WORKER_CANT };

/*
 * In memory that worker and keeper share. The kernel itself writes the question there, so at whatever instruction the
 * worker dies, the keeper finds what is still to be answered: an id that is not 0.
 */
struct in_hand {
    struct seccomp_notif question;
    _Atomic uint64_t beats; /* its loop's rounds: one that waits for nothing makes one a second */
    _Atomic enum worker_end end;
};

/* Another keeper for the worker that calls it (keeper.h); returns a descriptor of its process, or -1. */
typedef int renew_keeper_fn(const struct notify_wish *wish, int listener, struct in_hand *in_hand);

/* The keeper's process, by a descriptor that is ready when it is gone; -1: it is not known. */
struct keeper_known {
    int process;
    renew_keeper_fn *renew;
};
enum worker_end worker_run(const struct notify_wish *wish, int listener, struct in_hand *in_hand,
                           const struct keeper_known *keeper);

/* Lets a call go on as if nobody had been asked. False: it is over, by a signal or by its thread's death. */
bool answer_pass(int listener, uint64_t id);
bool answer_error(int listener, uint64_t id, int error);
/* Takes the next question. False: it was taken back, or there is none. */
bool question_take(int listener, struct seccomp_notif *question);

#endif
