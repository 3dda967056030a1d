/*
 * check_peer.h - a health check by a connection of the caller's own: made, and perhaps asked for a page.
 *
 * It waits, so it is for a child. Nothing but a status line is ever read, and all of it ends by a deadline.
 */
#ifndef SOCKFUSE_AGENT_CHECK_PEER_H
#define SOCKFUSE_AGENT_CHECK_PEER_H

#include <stdbool.h>
#include <stdint.h>

/* What a check has come to. */
struct check_result {
    bool passed;
    int error;            /* errno of what failed, or 0 */
    uint32_t http_status; /* of the answer, or 0 */
    uint32_t exit_status; /* of a command, or 0 */
};

/*
 * The check that a policy's `health_check` of kind connect or http asks for, of a circuit's destination. Of a name's
 * addresses one has to pass; each gets its share of the time. `deadline_ns`: by clock_real_ns.
 */
struct check_result check_peer(const char *value, const char *destination, uint64_t deadline_ns);

#endif
