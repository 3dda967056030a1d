/*
 * keeper.h - who watches the worker: answers in its place should it die or stand still, and starts another. Private to
 * src/notify.
 */
#ifndef SOCKFUSE_NOTIFY_KEEPER_H
#define SOCKFUSE_NOTIFY_KEEPER_H

#include <sys/types.h>

#include "notify/worker.h"

/* A child without a signal at its end, and without what libraries do at a fork. */
pid_t keeper_make_child(void);

/* Keeps workers at work, one after the other, until nobody is left who could ask. */
void keeper_run(const struct notify_wish *wish, int listener);

/*
 * For a worker whose keeper is gone: another, which takes this very worker as it is. Returns a descriptor that is ready
 * when the new one is gone; -1: there is none.
 */
int keeper_renew(const struct notify_wish *wish, int listener, struct in_hand *in_hand);

#endif
