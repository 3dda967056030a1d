/*
 * fleet_show.h - leaves in a segment what is known of its fleet, for `sockfuse status` (segment/fleet_board.h). Private to
 * src/agent.
 */
#ifndef SOCKFUSE_AGENT_FLEET_SHOW_H
#define SOCKFUSE_AGENT_FLEET_SHOW_H

#include "agent/fleet.h"
#include "segment/fleet_board.h"
#include "segment/segment.h"

/* One look: `places` are those that are taken; it is kept from one look to the next. */
struct fleet_showing {
    const struct segment *segment;
    uint64_t now_ns, real_ns, heard_ns;
    uint32_t places, before;
};

/* `fleet` NULL: there is none yet. */
void fleet_show_begins(struct fleet_showing *showing, const struct segment *segment, const struct fleet *fleet,
                       uint64_t now_ns, uint64_t real_ns);
/* A circuit, if there is anything to show of it; `key`: circuits_key. */
void fleet_show_circuit(struct fleet_showing *showing, const struct fleet_view *view, uint64_t key, uint32_t quorum);
/* The link; `fleet` NULL: there is none. `trouble`: why it is down. */
void fleet_show_ends(struct fleet_showing *showing, const struct fleet *fleet, bool has_link, const char *trouble);
/* Nobody tells of it any more. */
void fleet_show_over(struct fleet_showing *showing);

#endif
