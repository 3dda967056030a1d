/*
 * fleet.h - one member of a fleet: what it says to the fleet's Redis of one segment's circuits, and what it makes of the
 * answers. The protocol is in src/README.md, "Many hosts".
 *
 * It does no input and no output and reads no clock: commands leave by `fleet_way`, replies come by fleet_answer, and time
 * is an argument, of one clock that goes on while the host sleeps (CLOCK_BOOTTIME) or at least never back. What is
 * decided is a wish, which the caller writes into the segment; a hold has an end, and none is wished for beyond
 * FLEET_HOLD of the last word. Replies may hold anything.
 */
#ifndef SOCKFUSE_AGENT_FLEET_H
#define SOCKFUSE_AGENT_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/circuit_model.h"
#include "segment/forced.h"

/* Bytes of a fleet's name with the end. */
#define FLEET_NAME_MAX 100u
/* Circuits that one member follows, and how many of the fleet's open ones it asks for. */
#define FLEET_CIRCUITS 512u
#define FLEET_LISTED_MAX 256u
#define FLEET_CIRCUIT_NONE UINT32_MAX
/* Bytes of a host's name, as others are shown it, with the end. */
#define FLEET_HOST_MAX 49u
#define FLEET_TAG_BITS 20u

/* One command for Redis. `tag`, of FLEET_TAG_BITS, comes back with its reply. All is the sender's only until it returns. */
struct fleet_command {
    uint32_t tag;
    unsigned int count;
    const char *const *words;
    const size_t *lengths;
};

enum fleet_reply_type { REPLY_NIL, REPLY_NUMBER, REPLY_TEXT, REPLY_LIST, REPLY_ERROR };

/* One reply; a list's items are no lists. */
struct fleet_reply {
    enum fleet_reply_type type;
    int64_t number;
    const char *text; /* TEXT, ERROR; need not end */
    size_t length;
    const struct fleet_reply *items;
    size_t count;
};

/* How commands leave; they are to arrive in this order, and their replies come in it. */
struct fleet_way {
    void (*send)(void *context, const struct fleet_command *command);
    void *context;
};

/* What is seen of one of this host's circuits. */
struct fleet_seen {
    enum circuit_state state;
    bool votes;           /* enforced, and no operator has said a word */
    uint32_t probes;      /* in flight */
    uint64_t openings;    /* so far */
    uint64_t calls;       /* admitted and refused so far */
    uint64_t since_ns;    /* since when it is in that state: this host's clock, as `now_ns` */
    uint64_t retry_in_ns; /* until its own pause is over */
    /* Of its policy. */
    uint32_t quorum;          /* hosts; 0: a share */
    uint32_t quorum_permille; /* of those that called it lately */
    uint32_t backoff_permille;
    uint64_t pause_max_ns; /* no pause is longer */
    uint64_t probe_timeout_ns;
};

/* What the fleet wants of it now. All of it may be done again and again. */
struct fleet_wish {
    uint64_t held_until_ns; /* 0: not held */
    bool end_pause;         /* its next call is the fleet's probe */
    bool close;             /* another host's probe has succeeded since it opened */
};

/* Of hosts that have a circuit open, so many are shown. */
#define FLEET_VOTERS_SHOWN 8u

/* What there is to show; texts hold until the fleet is called again. */
struct fleet_view {
    bool is_open;
    bool probes; /* this host has the lease */
    bool others_probe;
    bool votes;
    uint64_t seen_ns;        /* when the voters were; 0: they were not yet, and are not told of */
    uint64_t hosts, callers; /* that have it open; that called it lately, where the quorum is a share, else 0 */
    uint64_t pause_ns;       /* of the fleet, until its end */
    /* Names of hosts, or numbers of those whose names are not known; "": none. */
    const char *voters[FLEET_VOTERS_SHOWN];
    unsigned int voter_count;
    const char *prober, *healer;
    uint64_t lease; /* by which the one who probes is told from the one before; 0: nobody does */
};

/* Of the whole. */
struct fleet_standing {
    bool is_connected;
    uint64_t heard_ns; /* when a round last went well; 0: never */
    uint64_t hosts;    /* whose agents have said lately that they are there; 0: not known */
    const char *host;  /* this one's name */
};

/* An operator's word for all hosts, as the fleet has it. Texts are plain bytes, and hold until the fleet is called again. */
struct fleet_word {
    uint64_t token; /* another one for each word; 0: there is none */
    enum forced word;
    uint64_t end_ns; /* this host's clock; 0: until another one */
    const char *user, *host;
};

/* What becomes of a word that was said here. */
struct fleet_obedience {
    bool is_said;            /* false: it is not known any more, for the connection broke */
    uint64_t hosts, obeying; /* whose agents are there (0: not known); on so many it holds */
};

/* Who tells of something that all hosts see. */
enum fleet_claim {
    CLAIM_MINE,   /* this host */
    CLAIM_OTHERS, /* another one does, or has */
    CLAIM_ALONE,  /* each for itself: nobody could be asked */
};

/* `word`: OTHERS: that host's name, or "" where it has none that can be shown; ALONE: why. It holds during the call. */
struct fleet_claimed {
    enum fleet_claim claim;
    const char *word;
};

typedef void fleet_claim_answer(void *context, const struct fleet_claimed *claimed);

/*
 * `name`: of the fleet (fleet_name_from). `host`: what all agents of one host, and no others, have in common. `seed`: drawn
 * by chance. NULL: no memory.
 */
struct fleet *fleet_create(const char *name, uint64_t host, uint64_t seed, const struct fleet_way *way);
void fleet_free(struct fleet *fleet);

/* The name under which a policy's circuits are kept: its own, or a hash of one that is long or has unusual bytes. */
void fleet_name_from(const char *identity, char name[FLEET_NAME_MAX]);

/* The circuit's number; it gets a place. FLEET_CIRCUIT_NONE: there is none left, or it can't be named. */
uint32_t fleet_circuit(struct fleet *fleet, const char *target, const char *destination);
/* What is seen of it now. */
void fleet_see(struct fleet *fleet, uint32_t circuit, const struct fleet_seen *seen, uint64_t now_ns);
/* This host has it no more. */
void fleet_forget(struct fleet *fleet, uint32_t circuit);
/* The name by which other hosts are shown this one; what is no plain byte of it becomes `?`. */
void fleet_set_host(struct fleet *fleet, const char *name);
/*
 * Asks who tells of an event of a circuit ("open", "close", …; FLEET_EVENT_MAX bytes with the end). One host's claim stands
 * for `lasts_ns`; that to an opening for a minute, but for as long as the circuit is open in the fleet, and until somebody
 * claims its closing. `answer` is called once, perhaps before this returns, and at the latest when the connection breaks
 * or the member is freed. It must not call the fleet.
 */
#define FLEET_EVENT_MAX 16u
void fleet_claim(struct fleet *fleet, const char *target, const char *destination, const char *event, uint64_t lasts_ns,
                 fleet_claim_answer *answer, void *context);
/*
 * Says an operator's word for all hosts: `token` is drawn by chance, `for_ns` 0 means until another one. NULL: it was said,
 * as far as the connection carries it; else why not. And how many obey it by now.
 */
const char *fleet_say_word(struct fleet *fleet, const char *target, const char *destination,
                           const struct fleet_word *word, uint64_t for_ns);
struct fleet_obedience fleet_word_obedience(const struct fleet *fleet, uint64_t token);
/* What the fleet has of a circuit; and whether it is known to have nothing, and has had nothing for a while. */
struct fleet_word fleet_word(const struct fleet *fleet, uint32_t circuit, uint64_t now_ns);
bool fleet_has_no_word(const struct fleet *fleet, uint32_t circuit, uint64_t now_ns);
/* This host obeys it. */
void fleet_word_obeyed(struct fleet *fleet, uint32_t circuit, uint64_t token);

/*
 * The next circuit at or after `*cursor` that the fleet has open, or a word for, and this host does not have:
 * "target\ndestination".
 * NULL: there is none.
 */
const char *fleet_elsewhere(struct fleet *fleet, uint32_t *cursor, uint64_t now_ns);

struct fleet_wish fleet_wish(const struct fleet *fleet, uint32_t circuit, uint64_t now_ns);
/* Whether some wish has changed by what came since this was asked last, but for its end. */
bool fleet_has_news(struct fleet *fleet, uint64_t now_ns);
struct fleet_standing fleet_standing(const struct fleet *fleet);
struct fleet_view fleet_view(const struct fleet *fleet, uint32_t circuit, uint64_t now_ns);

/* A connection stands (and is authenticated); or none does any more: what was not answered is void. */
void fleet_connected(struct fleet *fleet, uint64_t now_ns);
void fleet_broken(struct fleet *fleet);
/* Asks what is due. To be called every second or so, after what is seen was told, and when `fleet_due_ns` has come. */
void fleet_turn(struct fleet *fleet, uint64_t now_ns);
uint64_t fleet_due_ns(const struct fleet *fleet);
/* Another host has told of a change. */
void fleet_nudge(struct fleet *fleet);
void fleet_answer(struct fleet *fleet, uint32_t tag, const struct fleet_reply *reply, uint64_t now_ns);
/*
 * The connection is to be given up: the server took too long, or answered what is none. fleet_trouble has the words until
 * a round has gone well.
 */
bool fleet_has_failed(struct fleet *fleet, uint64_t now_ns);
const char *fleet_trouble(const struct fleet *fleet);
/* Takes this host's votes back, as far as the way still carries it; for an agent that ends. */
void fleet_leave(struct fleet *fleet);

#endif
