/*
 * holding.h - what the agent has a circuit do, for some seconds at a time: refuse all calls, or begin no probe.
 *
 * The hold stands in the circuit's entry with its end, as an operator's word does (operator.h), and goes behind that: a
 * forced circuit goes by its operator's word, and only `mode = enforce` obeys a hold. Nobody has to run for its end.
 * Async-signal-safe; a guard that only holds needs a segment, a pid and a program's name, and no holder.
 */
#ifndef SOCKFUSE_GUARD_HOLDING_H
#define SOCKFUSE_GUARD_HOLDING_H

#include <stdbool.h>
#include <stdint.h>

#include "guard/guard_model.h"
#include "guard/operator.h"
#include "policy/policy.h"
#include "segment/held.h"

/* The hold that stands, whether it is obeyed or not. One relaxed load. */
struct held hold_read(const struct segment *segment, uint32_t circuit, uint64_t now_ns);
/* Of a hold, what a call goes by where an operator has said that and the target has this mode. */
enum hold hold_obeyed(enum hold hold, enum forced forced, enum target_mode mode);
/*
 * hold_obeyed of the one that stands, for a call that begins: the first one after a hold's end takes it away, and notes
 * that in the journal. `mode` is the target's.
 */
enum hold hold_obey(const struct guard *guard, uint32_t circuit, enum forced forced, enum target_mode mode,
                    uint64_t now_ns);

/* Why; and of a health check, what it saw. */
struct hold_cause {
    enum hold_reason reason;
    int error;                /* errno, or 0 */
    unsigned int http_status; /* or 0 */
    unsigned int exit_status; /* of a command, or 0 */
    const char *hosts;        /* of the fleet, who did it; NULL: not known */
};

/*
 * Holds it until `lasts_ns` from now, at most HOLD_AHEAD_MAX_NS; said again before that, it goes on, and only its
 * beginning is in the journal. A fleet's hold takes the place of another one, and gives way to none. `mode` is the
 * target's, for what the journal says of the states before and after. False: it does not stand.
 */
bool hold_set(const struct guard *guard, uint32_t circuit, enum hold hold, uint64_t lasts_ns,
              const struct hold_cause *cause, enum target_mode mode, uint64_t now_ns);
/* Ends a hold of that kind, and notes that in the journal. False: none stood. */
bool hold_end(const struct guard *guard, uint32_t circuit, enum hold hold, const struct hold_cause *cause,
              enum target_mode mode, uint64_t now_ns);
/*
 * An open circuit's pause is over (circuit_end_pause): the next call is the probe. Noted in the journal, if there was
 * any of it left, or a hold that kept it from being probed. False: there was none.
 */
bool hold_end_pause(const struct guard *guard, uint32_t circuit, const struct target *target,
                    const struct hold_cause *cause, uint64_t now_ns);

/* Notes what goes on while the circuit is held: that another host of the fleet probes, say. */
void hold_note(const struct guard *guard, uint32_t circuit, const struct hold_cause *cause, enum target_mode mode,
               uint64_t now_ns);

/* Another host's probe has succeeded: the circuit closes, without a probe of this one. Noted as a closing. */
void hold_close(const struct guard *guard, uint32_t circuit, uint64_t now_ns);

#endif
