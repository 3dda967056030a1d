/*
 * health_state.h - what follows from a circuit's health checks: when the next one is due, whether calls may probe, and
 * when the pause is over. Pure: time is an argument (the circuits' clock), and what it says is done by health.c.
 *
 * A check decides nothing by itself: passed often enough in a row it ends the pause, and a call's probe decides. One
 * that fails keeps calls from probing, but only until the patience with it is over. So a check that is wrong delays, and
 * no more: one that says ill for ever by so many pauses; one that says well for ever by nothing, for each probe that
 * fails behind its word makes it be asked twice as often before it is believed again, and the pause is what it was.
 */
#ifndef SOCKFUSE_AGENT_HEALTH_STATE_H
#define SOCKFUSE_AGENT_HEALTH_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* Of the target. */
struct health_rules {
    uint64_t interval_ns;
    uint32_t rise;     /* passed so often in a row, it is well */
    uint32_t patience; /* times the pause */
};

struct health_state {
    bool is_known;     /* an opening was seen; all else is of it */
    uint64_t since_ns; /* which one: when it was */
    uint64_t pause_ns; /* how long its pause was to be */
    uint64_t due_ns;   /* the next check */
    uint32_t passed;   /* in a row */
    bool fails;        /* the last word was that it is ill */
    bool spent;        /* the pause of this opening was ended by the check's word */
    bool was_patient;  /* the patience is over, which was said */
    uint32_t wrong;    /* how often in a row a probe failed behind the check's word */
};

/* What is to be done now. */
enum health_step {
    HEALTH_NOTHING,
    HEALTH_HOLD,         /* say (again) that it is not to be probed */
    HEALTH_LET_GO,       /* say that no more: it is well again */
    HEALTH_END_PAUSE,    /* the pause is over, and so is the hold */
    HEALTH_LOSE_PATIENCE /* let it go: calls are to find out */
};

/* How an open circuit stands. */
struct health_view {
    uint64_t since_ns; /* when it opened */
    uint64_t pause_ns; /* at its back-off step, without jitter */
    uint32_t step;     /* that: 0: it was closed before */
};

/*
 * The circuit is seen open. Returns what to do. `*check`: whether a check can be made now; and whether one is to be made,
 * which is then made from now on.
 */
enum health_step health_look(struct health_state *state, const struct health_rules *rules,
                             const struct health_view *view, uint64_t now_ns, bool *check);
/* A check of this opening has ended. */
enum health_step health_result(struct health_state *state, const struct health_rules *rules, bool passed,
                               uint64_t now_ns);
/* The circuit is seen half-open: a probe is on its way, and no check says anything. */
void health_probed(struct health_state *state);
/* The circuit is closed: whatever the check said before is no reason to mistrust it. */
void health_closed(struct health_state *state);

#endif
