/*
 * connection_state.h - how far a guarded connection is, for the process whose it is: its states, what may happen to it,
 * and the one table by which the first follows from the second.
 *
 * Nothing else changes a state (pool.h: connection_happens). The table has an answer to everything that can happen in
 * every state, for threads race, a signal's handler jumps away, and other processes charge and answer: what is late
 * finds a state that has gone on, and mostly leaves it. What a state does not say are the connection's properties
 * (pool.h): of what kind its socket is, what its bytes have shown, which side is shut.
 *
 * The state is this process's view. Whether a call is in flight is the record's to say (guard_phase), which others
 * settle too; where the two differ, the record is right, and the next event brings the state in line.
 *
 * Pure. Private to src/connection.
 */
#ifndef SOCKFUSE_CONNECTION_CONNECTION_STATE_H
#define SOCKFUSE_CONNECTION_CONNECTION_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum connection_state {
    STATE_NONE, /* the record is nobody's */
    /* Its call is open: not ended, or charged as overdue, and its end is still to come. */
    STATE_CONNECTING, /* the attempt is on its way, as far as is known */
    STATE_CONNECTED,  /* nothing was asked: perhaps its server speaks first */
    STATE_REQUESTED,  /* something was asked */
    STATE_ANSWERING,  /* bytes of the answer came, and not enough to judge it */
    /* Its last call has ended, and the next request may begin another. */
    STATE_IDLE,       /* it was answered */
    STATE_UNANSWERED, /* it came to no answer, and the connection stands */
    /* There is no further call. */
    STATE_FAILED, /* the attempt came to nothing; the socket may be connected again */
    STATE_OVER,   /* the peer is gone: what is sent to it is no request */
    STATE_BROKEN, /* a request on it was refused: nothing is sent on it any more */
    /* It stands at the fallback, and has no call (fallback_connections.h). */
    STATE_ASIDE,        /* what was asked there is not answered, or nothing was */
    STATE_ASIDE_IDLE,   /* it is */
    STATE_ASIDE_BROKEN, /* as BROKEN */
    CONNECTION_STATES
};

enum connection_event {
    ON_ATTEMPT,    /* a record is filled for an attempt that was admitted, */
    ON_DIVERSION,  /* or for one that goes to the fallback */
    ON_CONNECTION, /* the attempt is connected */
    ON_REQUEST,    /* something was sent */
    ON_PART,       /* part of the answer came */
    ON_ANSWER,     /* the answer; or a connection, where that is one */
    ON_SILENCE,    /* the program, or a time-out of its own, gave the call up */
    ON_LOSS,       /* the attempt failed, or the peer ended or reset the connection */
    ON_BEGINNING,  /* a request is about to begin the next call */
    ON_WITHDRAWAL, /* which came to nothing, and the connection is as before */
    ON_REFUSAL,    /* or which may not go, or not to where the connection leads */
    ON_RETURN,     /* the record is given back */
    CONNECTION_EVENTS
};

static inline bool state_is_aside(enum connection_state state)
{
    return state >= STATE_ASIDE;
}

/*
 * The table: MOVE(in this state, this happens, it is in that state). Where it is silent, the state stays.
 *
 * Beside it, in every state: ON_RETURN leads to NONE, and ON_REFUSAL to BROKEN (of one that stands aside to
 * ASIDE_BROKEN, of nobody's nowhere).
 */
#define CONNECTION_MOVES(MOVE)                                                                                         \
    MOVE(NONE, ATTEMPT, CONNECTING)                                                                                    \
    MOVE(NONE, DIVERSION, ASIDE)                                                                                       \
                                                                                                                       \
    MOVE(CONNECTING, CONNECTION, CONNECTED)                                                                            \
    MOVE(CONNECTING, PART, ANSWERING) /* who charged it as overdue was faster than its connection */                   \
    MOVE(CONNECTING, ANSWER, IDLE)                                                                                     \
    MOVE(CONNECTING, SILENCE, FAILED)                                                                                  \
    MOVE(CONNECTING, LOSS, FAILED)                                                                                     \
                                                                                                                       \
    MOVE(CONNECTED, REQUEST, REQUESTED)                                                                                \
    MOVE(CONNECTED, PART, ANSWERING)                                                                                   \
    MOVE(CONNECTED, ANSWER, IDLE)                                                                                      \
    MOVE(CONNECTED, SILENCE, UNANSWERED)                                                                               \
    MOVE(CONNECTED, LOSS, OVER)                                                                                        \
    MOVE(CONNECTED, BEGINNING, REQUESTED) /* a child has read the greeting */                                          \
                                                                                                                       \
    MOVE(REQUESTED, PART, ANSWERING)                                                                                   \
    MOVE(REQUESTED, ANSWER, IDLE)                                                                                      \
    MOVE(REQUESTED, SILENCE, UNANSWERED)                                                                               \
    MOVE(REQUESTED, LOSS, OVER)                                                                                        \
                                                                                                                       \
    MOVE(ANSWERING, ANSWER, IDLE)                                                                                      \
    MOVE(ANSWERING, SILENCE, UNANSWERED)                                                                               \
    MOVE(ANSWERING, LOSS, OVER)                                                                                        \
    MOVE(ANSWERING, BEGINNING, REQUESTED) /* a child has read the rest */                                              \
                                                                                                                       \
    MOVE(IDLE, BEGINNING, REQUESTED)                                                                                   \
    MOVE(UNANSWERED, BEGINNING, REQUESTED)                                                                             \
    MOVE(UNANSWERED, WITHDRAWAL, IDLE)                                                                                 \
    /* One thread said that the call is over when another had begun the next. */                                       \
    MOVE(IDLE, REQUEST, REQUESTED)                                                                                     \
    MOVE(IDLE, PART, ANSWERING)                                                                                        \
    MOVE(IDLE, SILENCE, UNANSWERED)                                                                                    \
    MOVE(IDLE, LOSS, OVER)                                                                                             \
    MOVE(UNANSWERED, REQUEST, REQUESTED)                                                                               \
    MOVE(UNANSWERED, PART, ANSWERING)                                                                                  \
    MOVE(UNANSWERED, ANSWER, IDLE)                                                                                     \
    MOVE(UNANSWERED, LOSS, OVER)                                                                                       \
                                                                                                                       \
    MOVE(ASIDE, ANSWER, ASIDE_IDLE)                                                                                    \
    MOVE(ASIDE_IDLE, BEGINNING, ASIDE)

static inline enum connection_state state_after(enum connection_state state, enum connection_event event)
{
    if (event == ON_RETURN)
        return STATE_NONE;
    if (event == ON_REFUSAL)
        return state == STATE_NONE ? STATE_NONE : state_is_aside(state) ? STATE_ASIDE_BROKEN : STATE_BROKEN;
#define MEETS(state, event) (CONNECTION_EVENTS * (unsigned int)(state) + (unsigned int)(event))
    switch (MEETS(state, event)) {
#define MOVE(from, on, to)                                                                                             \
    case MEETS(STATE_##from, ON_##on):                                                                                 \
        return STATE_##to;
        CONNECTION_MOVES(MOVE)
#undef MOVE
#undef MEETS
    default:
        return state;
    }
}

/* Whether its present call has not ended yet, as far as this process has seen. */
static inline bool state_is_open(enum connection_state state)
{
    return state >= STATE_CONNECTING && state <= STATE_ANSWERING;
}

/* Whether it is connected, and a call may begin on it; or may have begun already. */
static inline bool state_takes_calls(enum connection_state state)
{
    return state >= STATE_CONNECTED && state <= STATE_UNANSWERED;
}

#endif
