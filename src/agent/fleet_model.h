/*
 * fleet_model.h - what a member of a fleet knows: of its own circuits, and of what the fleet's Redis said of them.
 * Private to src/agent.
 *
 * The protocol is in src/README.md, "Many hosts". Times are nanoseconds of this host's monotonic clock; what the server's
 * clock says is turned into one of them as soon as it comes, by the TIME that was answered in the same round.
 */
#ifndef SOCKFUSE_AGENT_FLEET_MODEL_H
#define SOCKFUSE_AGENT_FLEET_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/fleet.h"
#include "base/units.h"
#include "policy/policy_model.h"
#include "segment/event.h"

/* How often Redis is asked; a change, here or told by another, makes it sooner, but not more often than the second. */
#define FLEET_LOOK_NS NS_PER_S
#define FLEET_LOOK_MIN_NS (50 * NS_PER_MS)
/* A stage of a round that takes so long is over: the connection is given up. */
#define FLEET_ANSWER_NS (5 * NS_PER_S)
/* What a host says again, and for how long it stands if it does not. */
#define FLEET_RENEW_NS (3 * NS_PER_S)
#define FLEET_VOTE_NS (10 * NS_PER_S)
#define FLEET_OPEN_NS (6 * NS_PER_S)
/* For how long the last word that a circuit is open is obeyed. */
#define FLEET_HOLD_NS (5 * NS_PER_S)
/* A circuit that nobody has called for so long is not voted about, and a caller's note holds so long. */
#define FLEET_CALLED_NS (60 * NS_PER_S)
#define FLEET_NOTE_NS (20 * NS_PER_S)
/* Who was called within this may have the lease; who has it and was not called for the second gives it back. */
#define FLEET_CALLER_NS (5 * NS_PER_S)
#define FLEET_PROBE_WAIT_NS (5 * NS_PER_S)
/* Who has failed, or was not called, lets others have the lease for so long. */
#define FLEET_STAND_BACK_NS (3 * NS_PER_S)
/* A lease outlasts its probe by this; what else says when it ends is believed for an hour ahead at the most. */
#define FLEET_LEASE_SLACK_NS (5 * NS_PER_S)
#define FLEET_LEASE_MAX_NS NS_PER_HOUR
/* A claim to an opening stands so long, and is said again while the circuit is open in the fleet. */
#define FLEET_CLAIM_NS NS_PER_MINUTE
#define FLEET_CLAIM_RENEW_NS (20 * NS_PER_S)
/* Claims that can wait for their answer at a time. */
#define FLEET_CLAIMS 32u
/* For who looks: how often it is asked what nothing is decided by; a host says that it is there, and for how long. */
#define FLEET_SHOW_NS (5 * NS_PER_S)
/* Of so many circuits a second, by turns: however many are open, it costs no more. */
#define FLEET_SHOWN_A_SECOND 8u
#define FLEET_HERE_NS (20 * NS_PER_S)
#define FLEET_HERE_LASTS_NS (60 * NS_PER_S)
#define FLEET_NAMES 64u
/* Operators' words: how often they are listed, how many at the most, and how many are said and not done with. */
#define FLEET_WORDS_NS (5 * NS_PER_S)
#define FLEET_WORDS 64u
#define FLEET_SAYINGS 8u
/*
 * One without an end, and one that ends others, is kept so long after somebody has last renewed it; what Redis has lost
 * is said again by who has seen it there within half of that.
 */
#define FLEET_WORD_KEPT_NS NS_PER_DAY
#define FLEET_WORD_MAX_NS (366 * NS_PER_DAY)
/* Others are counted that obey a word for so long after it was said. */
#define FLEET_OBEYING_NS NS_PER_MINUTE
/* What is not listed for so long on one connection is over. */
#define FLEET_WORD_GRACE_NS (10 * NS_PER_S)
/* "TOKEN SAID END WORD HOST USER" */
#define FLEET_WORD_TEXT (16 + 17 + 17 + 3 + FLEET_HOST_MAX + PROGRAM_NAME_MAX + 2)
#define FLEET_NAMES_AT_ONCE 16u
/* A pause's length is known for so long after it. */
#define FLEET_PAUSE_KEPT_NS NS_PER_MINUTE
/* For how long a healing is told, and how long it silences what was counted before it. */
#define FLEET_HEALED_NS NS_PER_MINUTE
#define FLEET_HEALED_FRESH_NS (2 * NS_PER_S)
/* A share of the callers is judged when they have had so long to say that they are some. */
#define FLEET_SETTLE_NS (3 * NS_PER_S)
/* A fleet whose pause is over and in which nothing has changed for so long, beside a probe's time, is not believed. */
#define FLEET_PATIENCE_NS NS_PER_MINUTE
/* Keys live so long after their last renewal, which is made after half of it. */
#define FLEET_KEYS_NS (20 * NS_PER_MINUTE)

#define FLEET_CIRCUIT_MAX (TARGET_NAME_MAX + DESTINATION_MAX)
/* "sockfuse:1:{NAME}:healed:CIRCUIT" */
#define FLEET_KEY_MAX (FLEET_NAME_MAX + FLEET_CIRCUIT_MAX + FLEET_EVENT_MAX + 32)
/* Circuits whose keys are read by one command. */
#define FLEET_READ_AT_ONCE 16u
#define FLEET_ARGUMENTS (3 * FLEET_READ_AT_ONCE + 1)

/* What a reply is to. */
enum fleet_command_kind {
    COMMAND_WRITE,    /* an error alone matters */
    COMMAND_OPTIONAL, /* nor does that */
    COMMAND_TIME,
    COMMAND_OPEN_LIST,
    COMMAND_TROUBLE_LIST,
    COMMAND_READ, /* of circuits from place `of` of `reading` on */
    COMMAND_COUNT_VOTES,
    COMMAND_COUNT_CALLERS,
    COMMAND_LEASE,
    COMMAND_HEALED,
    COMMAND_VOTERS,       /* some of them, by their numbers */
    COMMAND_COUNT_VOTERS, /* after these: how many there are */
    COMMAND_NAMES,        /* of hosts `asked` */
    COMMAND_COUNT_HOSTS,
    COMMAND_CLAIM, /* who has it; of claim `of` */
    COMMAND_WORD_LIST,
    COMMAND_WORD,    /* an operator's, of circuit `of` */
    COMMAND_OBEYING, /* how many obey saying `of` */
    COMMAND_KINDS
};
/* In a reply's tag the kind stands above the number of what it is of. */
#define COMMAND_KIND_AT 12u
_Static_assert(FLEET_CIRCUITS <= 1u << COMMAND_KIND_AT && COMMAND_KINDS <= 1u << (FLEET_TAG_BITS - COMMAND_KIND_AT),
               "both fit");

enum fleet_lease { LEASE_FREE, LEASE_MINE, LEASE_OTHERS };

enum fleet_phase {
    FLEET_FOLLOWS, /* held while the fleet is open */
    FLEET_PROBES,  /* has the lease: its circuit's next call is the probe */
    FLEET_RECALLS, /* nobody came: held again, and gives the lease back when no probe has begun by the next look */
};

/* An operator's word, as Redis has it. */
struct fleet_spoken {
    uint64_t token; /* 0: none */
    enum forced word;
    uint64_t said_ms, end_ms;  /* the server's time; 0: without an end */
    uint64_t end_ns;           /* ours */
    uint64_t score, seen_ns;   /* as it is listed; when it last was */
    bool is_listed, is_wanted; /* in the last list; to be read */
    uint64_t obeyed, told;     /* the token of what this host obeys, and of what it has said to obey */
    uint64_t news;             /* the token of which there was news */
    char user[PROGRAM_NAME_MAX], host[FLEET_HOST_MAX];
    char text[FLEET_WORD_TEXT]; /* the whole */
};

/* A word that was said here. */
struct fleet_saying {
    uint64_t token; /* 0: a free place */
    uint64_t said_ns, obeying;
    uint32_t circuit;
    bool is_said;
    struct fleet_spoken spoken;
};

/* A mark that one circuit's healing bears. */
struct fleet_heal {
    uint64_t token; /* 0: there is none */
    uint64_t at_ns;
};

struct fleet_circuit {
    char name[FLEET_CIRCUIT_MAX]; /* target, newline, destination; "": a free place */
    uint64_t hash;
    /* Of this host. */
    bool here;    /* this host has the circuit; else it is known by the fleet's list alone */
    bool is_seen; /* once at the least */
    struct fleet_seen seen;
    uint64_t called_ns; /* when calls were last seen to have gone up; 0: never */
    /* On this connection; 0: not. */
    uint64_t voted_ns;     /* the last time */
    uint64_t voting_ns;    /* since when without a break */
    uint64_t noted_ns;     /* as a caller, the last time */
    uint64_t kept_ns;      /* when the keys' lives were last renewed */
    uint64_t claimed_ns;   /* when a claim to its opening was last asked for, or said again; 0: not since it closed */
    bool tells;            /* that claim is this host's */
    uint64_t told_opening; /* the opening of this host whose pause was offered to the fleet; 0: none */
    /* What Redis said. */
    bool listed, troubled; /* in this round */
    bool counted;          /* the quorum was judged since `votes` came */
    uint64_t listed_until_ms;
    uint64_t open_until_ns;
    struct fleet_wish told; /* what was wished for when there was last news */
    struct fleet_spoken spoken;
    uint64_t votes, callers;
    /* For who looks (fleet_hosts.c); 0: not asked, or not answered, since it is closed everywhere. */
    uint64_t voters[FLEET_VOTERS_SHOWN], voters_all;
    unsigned int voter_count;
    uint64_t voters_asked_ns, voters_seen_ns;
    bool shown_open; /* they were asked for since it is open in the fleet */
    uint64_t prober, healer;
    uint64_t pause_end_ns, pause_length_ns; /* 0: none is known; it is for some time after its end */
    enum fleet_lease lease;
    uint64_t lease_end_ns, lease_token;
    char lease_text[64];      /* as it lies there, of one that is this member's; "": none */
    struct fleet_heal healed; /* the last one */
    bool close_wished;        /* it is later than this host's opening */
    /* The probe. */
    enum fleet_phase phase;
    uint64_t phase_ns;        /* since when */
    uint64_t token;           /* of the lease that was last asked for; 0: none yet */
    uint64_t openings_before; /* when it began */
    uint64_t stand_back_until_ns;
    /* Whether anything goes on. */
    uint64_t moved_ns; /* when `movement` last changed, or the pause was not over */
    uint64_t movement; /* a hash of what Redis says of the probe */
    bool distrusted;   /* nothing goes on: this host goes by its own circuit */
};

/* What a host is called; of no host: a free place. */
struct fleet_host_name {
    uint64_t host;
    uint64_t asked_ns;
    char name[FLEET_HOST_MAX];
};

/* One claim on its way; no `answer`: a free place. */
struct fleet_claiming {
    fleet_claim_answer *answer;
    void *context;
    bool is_asked;
    char event[FLEET_EVENT_MAX];
    char circuit[FLEET_CIRCUIT_MAX];
    uint64_t lasts_ns;
};

enum fleet_stage { STAGE_IDLE, STAGE_READING, STAGE_ACTING, STAGE_ANNOUNCING };

struct fleet {
    char name[FLEET_NAME_MAX];
    char host[17]; /* hexadecimal */
    char host_name[FLEET_HOST_MAX];
    uint64_t random;
    struct fleet_way way;
    bool is_connected, has_failed;
    bool has_share; /* some circuit's quorum is a share */
    enum fleet_stage stage;
    uint32_t awaited;  /* replies */
    uint64_t stage_ns; /* when it began */
    uint64_t look_ns;  /* when the last round began; 0: none has on this connection */
    bool is_nudged;
    bool reading_is_first;
    bool time_known; /* on this connection */
    uint64_t server_ms, server_at_ns;
    char trouble[80]; /* what the server said last instead of an answer; "": nothing */
    uint32_t reading[FLEET_CIRCUITS];
    uint32_t reading_count;
    uint64_t commands; /* sent so far */
    struct fleet_claiming claims[FLEET_CLAIMS];
    /* Operators' words (fleet_spoken.c). */
    struct fleet_saying sayings[FLEET_SAYINGS];
    uint64_t words_ns;       /* when they were last asked for; 0: not on this connection */
    uint64_t words_since_ns; /* since when all of them are known; 0: they are not */
    bool words_listed;       /* in this round */
    /* For who looks (fleet_hosts.c). */
    uint64_t number; /* `host` as a number */
    uint64_t heard_ns, here_ns, named_ns, troubles_ns, hosts_ns, hosts;
    struct fleet_host_name names[FLEET_NAMES];
    uint32_t next_name, next_shown;
    uint32_t shown_count, elsewhere_count; /* circuits that were asked for since `shown_ns` */
    uint64_t shown_ns;
    uint32_t asked[FLEET_NAMES_AT_ONCE];
    uint32_t asked_count;
    struct fleet_circuit circuits[FLEET_CIRCUITS];
    char scratch[FLEET_ARGUMENTS * FLEET_KEY_MAX];
};

/*
 * Hosts and their names (fleet_hosts.c): what is due of saying that this one is there, and of asking who votes; and the
 * names that are wanted. What was answered.
 */
void fleet_hosts_turn(struct fleet *fleet, uint64_t now_ns);
void fleet_hosts_ask_names(struct fleet *fleet, uint64_t now_ns);
bool fleet_hosts_take_voters(struct fleet_circuit *circuit, const struct fleet_reply *reply);
bool fleet_hosts_take_names(struct fleet *fleet, const struct fleet_reply *reply);
/* A host's name, or its number; "" of none. Holds until some more are asked for. */
const char *fleet_hosts_name(const struct fleet *fleet, uint64_t host);

/* What was claimed is asked for (fleet_claims.c); who has it; and nobody can be asked any more. */
void fleet_claims_turn(struct fleet *fleet, uint64_t now_ns);
void fleet_claim_take(struct fleet *fleet, uint32_t number, const struct fleet_reply *reply);
void fleet_claims_end(struct fleet *fleet, const char *why);
/* The claim to an opening lives on with it. */
void fleet_claim_keep(struct fleet *fleet, struct fleet_circuit *circuit, uint64_t now_ns);

/* Operators' words: whether they are to be listed in this round; what follows; what was answered (fleet_spoken.c). */
bool fleet_spoken_asks(struct fleet *fleet, uint64_t now_ns);
void fleet_spoken_turn(struct fleet *fleet, uint64_t now_ns);
void fleet_spoken_take_item(struct fleet_circuit *circuit, uint64_t score, uint64_t now_ns);
void fleet_spoken_take(struct fleet *fleet, struct fleet_circuit *circuit, const struct fleet_reply *reply,
                       uint64_t now_ns);
void fleet_spoken_end(struct fleet *fleet);

/*
 * The number of a circuit's place, taken if it has none; but not where there are so many already of circuits that this
 * host does not have.
 */
uint32_t fleet_place(struct fleet *fleet, const char *target, const char *destination, uint32_t elsewhere_max);

static inline struct fleet_circuit *fleet_at(struct fleet *fleet, uint32_t circuit)
{
    return circuit < FLEET_CIRCUITS && fleet->circuits[circuit].name[0] != '\0' ? &fleet->circuits[circuit] : NULL;
}

static inline uint32_t fleet_number(const struct fleet *fleet, const struct fleet_circuit *circuit)
{
    return (uint32_t)(circuit - fleet->circuits);
}

#endif
