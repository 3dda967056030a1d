/*
 * alert_send.h - an alert's command, from its start to what the journal says of its failure. Private to alert.c.
 */
#ifndef SOCKFUSE_AGENT_ALERT_SEND_H
#define SOCKFUSE_AGENT_ALERT_SEND_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/alert_message.h"
#include "agent/watched.h"

/* A command that runs. */
struct alert_sending;

/* Whether one more of that user's may be begun now, of whom so many are about to. */
bool alert_may_send(uid_t uid, unsigned int soon);

/* Begins one; `ended` is called at its end. NULL: it could not be begun, and may be another time. */
struct alert_sending *alert_send(struct ev_loop *loop, struct watched *watched, const struct alert_told *told,
                                 uint64_t limit_ns, void (*ended)(void *context), void *context);
/* Its segment is gone: it goes on, and nobody hears how it ends. */
void alert_forget(struct alert_sending *sending);

/* How many run. */
size_t alerts_sending(void);

#endif
