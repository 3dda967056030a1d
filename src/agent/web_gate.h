/*
 * web_gate.h - who may ask over HTTP: programs, and pages of ours, never pages of others.
 *
 * A browser on this host runs pages of strangers. They can make it ask us (by our address, or by a name of theirs that
 * leads to it), so what it says of them is looked at: Host, Origin, and Sec-Fetch-Site of the Fetch Metadata draft.
 * Pure.
 */
#ifndef SOCKFUSE_AGENT_WEB_GATE_H
#define SOCKFUSE_AGENT_WEB_GATE_H

#include <stdbool.h>

/* A request; NULL: it has no such field. */
struct web_asker {
    const char *method, *host, *origin, *fetch_site, *fetch_mode;
};

struct web_verdict {
    unsigned int status; /* of HTTP; 0: let it in */
    const char *why;     /* with the remedy */
};

/*
 * `is_unix`: it came by a UNIX socket, which no page can reach: any Host will do. `allow`: the names beside those of this
 * host by which we may be asked, parted by blanks, each with or without a port.
 */
struct web_verdict web_gate(const struct web_asker *asker, bool is_unix, const char *allow);

#endif
