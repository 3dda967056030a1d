/*
 * agent_section.h - the section `[agent]` of a policy: how `sockfuse agent` goes about its work. One table of its keys.
 *
 * Whoever reads the file checks the section, as the rest: it is good as a whole or not at all. What it says is for the
 * agent alone; guarded programs keep nothing of it. A new key is one more row, and a member of struct agent_settings.
 */
#ifndef SOCKFUSE_POLICY_AGENT_SECTION_H
#define SOCKFUSE_POLICY_AGENT_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/value.h"

/* Bytes of a value that is a text, with the end. */
#define AGENT_TEXT_MAX 256

struct agent_settings {
    uint64_t look_every_ns;                 /* how often journals and circuits are looked at */
    char fleet[AGENT_TEXT_MAX];             /* where the fleet's Redis is (redis_url.h); "": nowhere */
    char fleet_password[AGENT_TEXT_MAX];    /* "file PATH" or "environment NAME"; "": what the URL has */
    char fleet_ca[AGENT_TEXT_MAX];          /* of TLS: a file of whom to trust; "": whom the system trusts */
    char fleet_certificate[AGENT_TEXT_MAX]; /* of TLS: a file with ours and its key; "": none */
    char fleet_name[AGENT_TEXT_MAX];        /* by which other hosts are shown this one; "": the host's own */
    char listen[AGENT_TEXT_MAX];            /* where it answers HTTP (listen_address.h); "": its usual place */
    char allow[AGENT_TEXT_MAX];             /* names by which others than this host may ask; "": nobody */
    uint32_t listen_mode;                   /* of the UNIX socket: who may ask */
    bool sweep;                             /* what is overdue is charged, and what the dead left is given back */
};

enum agent_key_index {
    AGENT_LOOK_EVERY,
    AGENT_SWEEP,
    AGENT_FLEET,
    AGENT_FLEET_PASSWORD,
    AGENT_FLEET_CA,
    AGENT_FLEET_CERTIFICATE,
    AGENT_FLEET_NAME,
    AGENT_LISTEN,
    AGENT_LISTEN_MODE,
    AGENT_ALLOW,
    AGENT_KEYS
};

struct agent_key {
    const char *name;
    const char *built_in; /* the default as a file would have it; "": none */
    struct value_rule rule;
    size_t offset, size; /* of the member; AGENT_TEXT_MAX: a text */
    /* Of a text: false, and `why` says what is expected. NULL: any will do. */
    bool (*is_good)(const char *text, char *why, size_t why_size);
    /* Of a text that may have a password in it: how it is shown, and no message repeats it. NULL: as it is. */
    void (*show)(const char *text, char *shown, size_t size);
};
extern const struct agent_key agent_keys[AGENT_KEYS];

/* The row of that name, or AGENT_KEYS. */
enum agent_key_index agent_key_named(const char *name);
/* As key_nearest_words. */
void agent_key_nearest_words(const char *name, char *text, size_t size);

void agent_settings_built_in(struct agent_settings *settings);
/* False: `why` says what is expected. */
bool agent_key_set(struct agent_settings *settings, enum agent_key_index key, const char *text, char *why,
                   size_t why_size);
/* The value as the file has it; VALUE_TEXT_MAX bytes are room enough. */
void agent_key_format(const struct agent_settings *settings, enum agent_key_index key, char *text, size_t size);

#endif
