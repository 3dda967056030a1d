/*
 * alert_message.h - what the command of an alert is told: the event as JSON, and the main facts as variables.
 */
#ifndef SOCKFUSE_AGENT_ALERT_MESSAGE_H
#define SOCKFUSE_AGENT_ALERT_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy_model.h"
#include "segment/event.h"

#define ALERT_FACTS_MAX 16u

struct alert_message {
    char *input; /* one line: the event as `events --json` has it, with a few members behind */
    size_t input_length;
    char *facts[ALERT_FACTS_MAX]; /* SOCKFUSE_ALERT_...=..., NULL at the end */
};

struct alert_told {
    const struct event *event;
    enum alert_kind kind;
    uint64_t left_out;
    uint32_t left_out_on; /* bit n: enum alert_kind n */
    const char *identity; /* of the policy */
    const struct flapping_rule *flapping;
    const char
        *unasked; /* why the fleet could not be asked whether another host tells of it; "": it could, or is none */
};

/* No fact has a control character, or a byte that is no UTF-8. */
void alert_message_make(struct alert_message *message, const struct alert_told *told);
void alert_message_free(struct alert_message *message);

#endif
