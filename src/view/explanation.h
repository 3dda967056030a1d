/*
 * explanation.h - why a circuit is as it is: the evidence of its last opening and of its probes, what another threshold
 * would have made of it, what comes next, and what stands in the way. For `sockfuse explain`.
 *
 * Facts come from the circuit's place (segment/circuit_evidence.h), the journal, and the settings in force; what
 * another threshold would have done comes from the circuit's own code over that evidence (simulation.h). What is not
 * known is said, and not guessed. Names come from outside: print them safely.
 */
#ifndef SOCKFUSE_VIEW_EXPLANATION_H
#define SOCKFUSE_VIEW_EXPLANATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/rows.h"
#include "view/running.h"
#include "view/select.h"
#include "segment/circuit_evidence.h"

/* Pieces of evidence, oldest first; they point into the view. */
struct pieces {
    const struct evidence *at[EVIDENCE_SLOTS];
    unsigned int count;
};

/* What one threshold more or less would have come to. */
struct other_threshold {
    bool is_asked; /* there is such a threshold */
    bool is_known; /* the evidence tells */
    bool opens;    /* then: whether it opens */
    uint32_t threshold;
    uint64_t at_ns; /* circuits' clock: when */
    uint32_t pid;   /* of the call that opens it */
};

/* One thing that stands in the way: what kind it is, and a sentence. */
struct obstacle {
    const char *what;
    char *text;
};

struct explanation {
    const struct selected *selected;
    const struct running *running;
    const struct row *row;
    uint32_t circuit; /* CIRCUIT_INDEX_NONE: nobody has called it yet */
    uint64_t now_ns, wall_ns;

    struct evidence_view evidence;
    bool is_outage;                    /* the last opening's outage goes on: the circuit has not closed since */
    struct pieces led, probes, recent; /* to the last opening; of probes since then; since it closed */
    uint32_t led_missing;              /* so many more failures were counted than there is evidence of */
    struct other_threshold lower, higher;

    /* From the journal, which may have lost them. */
    bool has_forcing, has_holding, has_probe, has_refusal;
    struct event forcing, holding, probe,
        refusal;                /* the last words and probe; the first refusal behind the last opening */
    unsigned int probes_failed; /* since the last opening */
    unsigned int late_failures; /* of calls that were under way at it */

    bool has_answer; /* when a wait was last rewarded, as far as it was measured */
    uint32_t answer_seconds;

    char *rule; /* by which it opened: a sentence; NULL: it never did */
    char *next;
    struct obstacle *obstacles;
    size_t obstacle_count;
};

/* What is explained must stand until explanation_free. */
void explanation_make(struct explanation *explanation, const struct selected *selected, const struct running *running,
                      const struct row *row, uint64_t now_ns);
void explanation_free(struct explanation *explanation);

/* The wall clock's time of a moment on the circuits' clock that lies so far from a moment of which both are known. */
static inline uint64_t wall_of(uint64_t at_ns, uint64_t mono_ns, uint64_t time_ns)
{
    return at_ns >= mono_ns ? time_ns + (at_ns - mono_ns) : time_ns - (mono_ns - at_ns);
}

/* --- the parts ---------------------------------------------------------------------------------------------------- */

/* Reads the journal's part (explanation_journal.c). */
struct sim_call;
void explanation_read_journal(struct explanation *explanation);
/* Of the calls that were under way at the last opening, those of which the end is in the journal; to be freed. */
struct sim_call *explanation_late_calls(const struct explanation *explanation, size_t *count);

/* Fills `rule`, `next` and `obstacles` (explanation_words.c). */
void explanation_find_words(struct explanation *explanation);

/* To stdout (explanation_text.c), and into an array (explanation_json.c). */
void explanation_print(const struct explanation *explanation);
struct json;
void explanation_json(struct json *json, const struct explanation *explanation);

#endif
