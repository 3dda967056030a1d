/*
 * agent_section.c - the keys of `[agent]`. See agent_section.h.
 */
#include "policy/agent_section.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "policy/distance.h"
#include "policy/listen_address.h"
#include "policy/redis_url.h"

#define LOOK_EVERY_MIN (20 * NS_PER_MS)
#define LOOK_EVERY_MAX (10 * NS_PER_S)

static const struct choice yes_or_no[] = {{"yes", true}, {"no", false}, {NULL, 0}};

#define IN(member)                                                                                                     \
    .offset = offsetof(struct agent_settings, member), .size = sizeof(((struct agent_settings *)0)->member)
#define DURATION(from, to) .rule = {.type = VALUE_DURATION, .minimum = (from), .maximum = (to)}
#define CHOICE(list) .rule = {.type = VALUE_CHOICE, .choices = (list)}

static bool is_redis(const char *text, char *why, size_t why_size)
{
    struct redis_url url;
    return redis_url_parse(&url, text, why, why_size);
}

static void show_redis(const char *text, char *shown, size_t size)
{
    struct redis_url url;
    char whole[REDIS_URL_MAX] = "";
    char why[VALUE_TEXT_MAX];
    if (text[0] != '\0' && redis_url_parse(&url, text, why, sizeof why))
        redis_url_format(&url, whole);
    snprintf(shown, size, "%.*s", (int)size - 1, whole);
}

static bool is_source(const char *text, char *why, size_t why_size)
{
    if ((strncmp(text, "file /", 6) == 0 && text[6] != '\0') ||
        (strncmp(text, "environment ", 12) == 0 && text[12] != '\0' && strchr(text + 12, ' ') == NULL))
        return true;
    snprintf(why, why_size, "expected `file /PATH` or `environment NAME`, where the password is to be read");
    return false;
}

static bool is_path(const char *text, char *why, size_t why_size)
{
    if (text[0] == '/' && text[1] != '\0')
        return true;
    snprintf(why, why_size, "expected a file's full path, which begins with `/`");
    return false;
}

/* It goes by Redis to other hosts' terminals: plain bytes, and few. */
static bool is_host(const char *text, char *why, size_t why_size)
{
    const size_t length = strlen(text);
    size_t plain = 0;
    while (plain < length && text[plain] > ' ' && text[plain] <= '~')
        plain++;
    if (plain == length && length <= 48)
        return true;
    snprintf(why, why_size, "expected a name of up to 48 letters, digits and signs, without blanks");
    return false;
}

static bool is_place(const char *text, char *why, size_t why_size)
{
    struct endpoint endpoint;
    return listen_address_parse(&endpoint, text, why, why_size);
}

/* Who may ask at a UNIX socket: its owner, his group, everybody. */
static const struct choice modes[] = {{"0600", 0600}, {"0660", 0660}, {"0666", 0666}, {NULL, 0}};

const struct agent_key agent_keys[AGENT_KEYS] = {
    [AGENT_LOOK_EVERY] = {"look_every", "1s", DURATION(LOOK_EVERY_MIN, LOOK_EVERY_MAX), IN(look_every_ns)},
    [AGENT_SWEEP] = {"sweep", "yes", CHOICE(yes_or_no), IN(sweep)},
    [AGENT_FLEET] = {"fleet", "", IN(fleet), .is_good = is_redis, .show = show_redis},
    [AGENT_FLEET_PASSWORD] = {"fleet_password", "", IN(fleet_password), .is_good = is_source},
    [AGENT_FLEET_CA] = {"fleet_ca", "", IN(fleet_ca), .is_good = is_path},
    [AGENT_FLEET_CERTIFICATE] = {"fleet_certificate", "", IN(fleet_certificate), .is_good = is_path},
    [AGENT_FLEET_NAME] = {"fleet_name", "", IN(fleet_name), .is_good = is_host},
    [AGENT_LISTEN] = {"listen", "", IN(listen), .is_good = is_place},
    [AGENT_LISTEN_MODE] = {"listen_mode", "0600", CHOICE(modes), IN(listen_mode)},
    [AGENT_ALLOW] = {"allow", "", IN(allow), .is_good = listen_names_are_good},
};

_Static_assert(AGENT_KEYS <= 64, "section.keys has a bit for each key");

enum agent_key_index agent_key_named(const char *name)
{
    unsigned int index = 0;
    while (index < AGENT_KEYS && strcmp(agent_keys[index].name, name) != 0)
        index++;
    return (enum agent_key_index)index;
}

void agent_key_nearest_words(const char *name, char *text, size_t size)
{
    struct nearest nearest = nearest_to(name);
    for (unsigned int index = 0; index < AGENT_KEYS; index++)
        nearest_offer(&nearest, agent_keys[index].name);
    const char *const found = nearest.name != NULL ? nearest.name : agent_keys[0].name;
    snprintf(text, size, nearest_meant(&nearest) != NULL ? "did you mean `%s`?" : "the nearest known key is `%s`",
             found);
}

static bool is_text(enum agent_key_index key)
{
    return agent_keys[key].size == AGENT_TEXT_MAX;
}

static bool set_text(char *member, enum agent_key_index key, const char *text, char *why, size_t why_size)
{
    if (strlen(text) >= AGENT_TEXT_MAX) {
        snprintf(why, why_size, "expected no more than %d bytes", AGENT_TEXT_MAX - 1);
        return false;
    }
    if (agent_keys[key].is_good != NULL && text[0] != '\0' && !agent_keys[key].is_good(text, why, why_size))
        return false;
    memcpy(member, text, strlen(text) + 1);
    return true;
}

bool agent_key_set(struct agent_settings *settings, enum agent_key_index key, const char *text, char *why,
                   size_t why_size)
{
    char *member = (char *)settings + agent_keys[key].offset;
    uint64_t value;
    if (is_text(key))
        return set_text(member, key, text, why, why_size);
    if (!value_parse(&agent_keys[key].rule, text, &value, why, why_size))
        return false;
    const uint32_t narrow = (uint32_t)value;
    const bool flag = value != 0;
    if (agent_keys[key].size == sizeof value)
        memcpy(member, &value, sizeof value);
    else if (agent_keys[key].size == sizeof narrow)
        memcpy(member, &narrow, sizeof narrow);
    else
        memcpy(member, &flag, sizeof flag);
    return true;
}

void agent_key_format(const struct agent_settings *settings, enum agent_key_index key, char *text, size_t size)
{
    const char *member = (const char *)settings + agent_keys[key].offset;
    uint64_t value = 0;
    uint32_t narrow = 0;
    bool flag = false;
    if (is_text(key) && agent_keys[key].show != NULL) {
        agent_keys[key].show(member, text, size);
        return;
    }
    if (is_text(key)) {
        snprintf(text, size, "%s", member);
        return;
    }
    if (agent_keys[key].size == sizeof value) {
        memcpy(&value, member, sizeof value);
    } else if (agent_keys[key].size == sizeof narrow) {
        memcpy(&narrow, member, sizeof narrow);
        value = narrow;
    } else {
        memcpy(&flag, member, sizeof flag);
        value = flag;
    }
    value_format(&agent_keys[key].rule, value, text, size);
}

void agent_settings_built_in(struct agent_settings *settings)
{
    char why[VALUE_TEXT_MAX];
    memset(settings, 0, sizeof *settings);
    for (unsigned int index = 0; index < AGENT_KEYS; index++)
        agent_key_set(settings, (enum agent_key_index)index, agent_keys[index].built_in, why, sizeof why);
}
