/*
 * worker.h - what is asked and answered, until nobody is left who could ask. Private to src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_WORKER_H
#define SOCKFUSE_NOTIFY_WORKER_H

#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

#include "notify/notify.h"

/*
 * In memory that worker and keeper share. The kernel itself writes the question there, so at whatever instruction the
 * worker dies, the keeper finds what is still to be answered: an id that is not 0.
 */
struct in_hand {
    struct seccomp_notif question;
};

/* What the worker's end means to its keeper. */
enum worker_end { WORKER_IS_DONE = 0, WORKER_BEGINS_ANEW = 3, WORKER_CANT = 4 };

/* Returns an enum worker_end. */
int worker_run(const struct notify_wish *wish, int listener, struct in_hand *in_hand);

/* Lets a call go on as if nobody had been asked. False: it is over, by a signal or by its thread's death. */
bool answer_pass(int listener, uint64_t id);
bool answer_error(int listener, uint64_t id, int error);
/* Takes the next question. False: it was taken back, or there is none. */
bool question_take(int listener, struct seccomp_notif *question);

#endif
