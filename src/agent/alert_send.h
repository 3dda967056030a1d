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

/* Of one user: how many run, and of how many the fleet is asked. It stands as long as the agent. */
struct alert_user {
    unsigned int sending, asking;
};
/* Whether one more of that user's may be begun now. */
bool alert_may_send(const struct alert_user *user);

/* Who is told of its end. */
struct alert_sender {
    struct alert_user *user;
    void (*ended)(void *context);
    void *context;
};
/* Begins one. NULL: it could not be begun, and may be another time. */
struct alert_sending *alert_send(struct ev_loop *loop, struct watched *watched, const struct alert_told *told,
                                 uint64_t limit_ns, const struct alert_sender *sender);
/* Its segment is gone: it goes on, and nobody hears how it ends. */
void alert_forget(struct alert_sending *sending);

/* How many run. */
size_t alerts_sending(void);

#endif
