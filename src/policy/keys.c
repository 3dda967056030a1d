/*
 * keys.c - the table of keys. See keys.h.
 */
#include "policy/keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "policy/alert_value.h"
#include "policy/capacity.h"
#include "policy/check_value.h"
#include "policy/distance.h"
#include "policy/fallback.h"
#include "policy/faults.h"
#include "policy/quorum.h"
#include "policy/statuses.h"

/* A shorter window forgets between two calls of a program that polls. The longest one's buckets can't overflow. */
#define WINDOW_MIN NS_PER_S
#define WINDOW_MAX NS_PER_HOUR
#define MINIMUM_CALLS_MAX 1000000u
/* Below this, a program's own closing after its last words would look like giving up. */
#define ABANDON_AFTER_MIN (50 * NS_PER_MS)
/* A program waits in its connect meanwhile, and knows nothing of it. */
#define RETRIES_MAX 10u
#define RETRY_BACKOFF_MAX (10 * NS_PER_S)
/* A check is a child of the agent's, of which there are only some at a time. */
#define HEALTH_TIMEOUT_MAX NS_PER_MINUTE
#define ALERT_TIMEOUT_MAX (10 * NS_PER_MINUTE)
#define HEALTH_RISE_MAX 100u
#define HEALTH_PATIENCE_MAX 1000u

static const struct choice circuits[] = {
    {"destination", CIRCUIT_BY_DESTINATION}, {"address", CIRCUIT_BY_ADDRESS}, {"target", CIRCUIT_BY_TARGET}, {NULL, 0}};
static const struct choice modes[] = {{"enforce", MODE_ENFORCE}, {"observe", MODE_OBSERVE}, {"off", MODE_OFF},
                                      {"open", MODE_OPEN},       {"closed", MODE_CLOSED},   {NULL, 0}};
static const struct choice scopes[] = {
    {"host", SCOPE_HOST}, {"process", SCOPE_PROCESS}, {"fleet", SCOPE_FLEET}, {NULL, 0}};
static const struct choice existing[] = {{"refuse", false}, {"allow", true}, {NULL, 0}};
static const struct choice reading[] = {{"auto", true}, {"off", false}, {NULL, 0}};
static const struct choice recorded[] = {{"failures", false}, {"all", true}, {NULL, 0}};
static const struct choice yes_or_no[] = {{"yes", true}, {"no", false}, {NULL, 0}};
static const struct choice successes[] = {
    {"answer", SUCCESS_ANSWER}, {"connect", SUCCESS_CONNECT}, {"close", SUCCESS_CLOSE}, {NULL, 0}};
/*
 * What connect(2) may answer without surprising a program; EACCES and EPERM are what a firewall's refusal looks
 * like.
 */
static const struct choice refusals[] = {{"ECONNREFUSED", ECONNREFUSED},
                                         {"ETIMEDOUT", ETIMEDOUT},
                                         {"EHOSTUNREACH", EHOSTUNREACH},
                                         {"ENETUNREACH", ENETUNREACH},
                                         {"ECONNRESET", ECONNRESET},
                                         {"ECONNABORTED", ECONNABORTED},
                                         {"EACCES", EACCES},
                                         {"EPERM", EPERM},
                                         {NULL, 0}};

#define KINDS                                                                                                          \
    (1u << FAILURE_CONNECT_TIMEOUT | 1u << FAILURE_RESPONSE_TIMEOUT | 1u << FAILURE_REFUSED | 1u << FAILURE_RESET |    \
     1u << FAILURE_UNREACHABLE | 1u << FAILURE_EARLY_CLOSE)

#define IN(member) .offset = offsetof(struct target, member), .size = sizeof(((struct target *)0)->member)
#define COUNT(from, to) .rule = {.type = VALUE_COUNT, .minimum = (from), .maximum = (to)}
#define DURATION(from) .rule = {.type = VALUE_DURATION, .minimum = (from), .maximum = SETTING_MAX_NS}
#define DURATION_OR_OFF .rule = {.type = VALUE_DURATION_OR_OFF, .minimum = NS_PER_MS, .maximum = SETTING_MAX_NS}
#define WINDOW .rule = {.type = VALUE_WINDOW, .minimum = WINDOW_MIN, .maximum = WINDOW_MAX}
#define PERCENT .rule = {.type = VALUE_PERCENT, .minimum = 0, .maximum = PERMILLE}
#define FACTOR(to) .rule = {.type = VALUE_FACTOR, .minimum = PERMILLE, .maximum = (uint64_t)(to)*PERMILLE}
#define CHOICE(list) .rule = {.type = VALUE_CHOICE, .choices = (list)}
#define FAILURE_MASK(mask) .rule = {.type = VALUE_FAILURE_KINDS, .maximum = (mask)}

const struct key key_table[KEYS] = {
    [KEY_MATCH] = {"match", .rule = {.type = VALUE_PATTERNS}},
    [KEY_CIRCUIT] = {"circuit", CHOICE(circuits), .built_in = "destination", IN(circuit)},
    [KEY_MODE] = {"mode", CHOICE(modes), .built_in = "enforce", IN(mode)},
    [KEY_FAILURE_THRESHOLD] = {"failure_threshold", COUNT(0, CIRCUIT_FAILURES_MAX), .built_in = "5",
                               IN(breaker.failure_threshold)},
    [KEY_WINDOW] = {"window", WINDOW, .built_in = "30s", IN(breaker.window)},
    [KEY_MINIMUM_CALLS] = {"minimum_calls", COUNT(1, MINIMUM_CALLS_MAX), .built_in = "20", IN(breaker.minimum_calls)},
    [KEY_FAILURE_RATE] = {"failure_rate", PERCENT, .built_in = "50%", IN(breaker.failure_rate_permille)},
    [KEY_SLOW_CALL] = {"slow_call", DURATION_OR_OFF, .built_in = "off", IN(breaker.slow_call_ns)},
    [KEY_SLOW_CALL_RATE] = {"slow_call_rate", PERCENT, .built_in = "100%", IN(breaker.slow_call_rate_permille)},
    [KEY_RESET_TIMEOUT] = {"reset_timeout",
                           {"recovery_timeout", "open_duration"},
                           DURATION(NS_PER_MS),
                           .built_in = "10s",
                           IN(breaker.reset_timeout_ns)},
    [KEY_RESET_TIMEOUT_MAX] = {"reset_timeout_max", DURATION(NS_PER_MS), .built_in = "60s",
                               IN(breaker.reset_timeout_max_ns)},
    [KEY_BACKOFF_MULTIPLIER] = {"backoff_multiplier", FACTOR(100), .built_in = "2", IN(breaker.backoff_permille)},
    [KEY_JITTER] = {"jitter", PERCENT, .built_in = "10%", IN(breaker.jitter_permille)},
    [KEY_HALF_OPEN_MAX_CALLS] = {"half_open_max_calls", COUNT(1, CIRCUIT_LEASES), .built_in = "1",
                                 IN(breaker.half_open_max_calls)},
    [KEY_SUCCESS_THRESHOLD] = {"success_threshold", COUNT(1, CIRCUIT_SUCCESSES_MAX), .built_in = "1",
                               IN(breaker.success_threshold)},
    [KEY_PROBE_TIMEOUT] = {"probe_timeout", DURATION(NS_PER_MS), .built_in = "10s", IN(breaker.probe_timeout_ns)},
    [KEY_HEALTH_CHECK] = {"health_check", .rule = {.type = VALUE_CHECK}, .built_in = "none"},
    [KEY_HEALTH_INTERVAL] = {"health_interval",
                             .rule = {.type = VALUE_DURATION, .minimum = NS_PER_S, .maximum = NS_PER_HOUR},
                             .built_in = "2s", IN(health_interval_ns)},
    [KEY_HEALTH_TIMEOUT] = {"health_timeout",
                            .rule = {.type = VALUE_DURATION, .minimum = 10 * NS_PER_MS, .maximum = HEALTH_TIMEOUT_MAX},
                            .built_in = "2s", IN(health_timeout_ns)},
    [KEY_HEALTH_RISE] = {"health_rise", COUNT(1, HEALTH_RISE_MAX), .built_in = "2", IN(health_rise)},
    [KEY_HEALTH_PATIENCE] = {"health_patience", COUNT(1, HEALTH_PATIENCE_MAX), .built_in = "5", IN(health_patience)},
    [KEY_ALERT] = {"alert", .rule = {.type = VALUE_COMMAND}, .built_in = "none"},
    [KEY_ALERT_ON] = {"alert_on",
                      .rule = {.type = VALUE_WORDS, .maximum = (1u << ALERT_KINDS) - 1, .choices = alert_choices},
                      .built_in = "open close flapping", IN(alert_on)},
    [KEY_ALERT_EVERY] = {"alert_every", .rule = {.type = VALUE_DURATION, .minimum = NS_PER_S, .maximum = NS_PER_DAY},
                         .built_in = "5m", IN(alert_every_ns)},
    [KEY_ALERT_TIMEOUT] = {"alert_timeout",
                           .rule = {.type = VALUE_DURATION, .minimum = 100 * NS_PER_MS, .maximum = ALERT_TIMEOUT_MAX},
                           .built_in = "30s", IN(alert_timeout_ns)},
    [KEY_FLAPPING] = {"flapping", .rule = {.type = VALUE_FLAPPING}, .built_in = "10 openings in 1h"},
    [KEY_CONNECT_TIMEOUT] = {"connect_timeout", DURATION(NS_PER_MS), .built_in = "10s", IN(connect_timeout_ns)},
    [KEY_RESPONSE_TIMEOUT] = {"response_timeout", DURATION_OR_OFF, .built_in = "off", IN(response_timeout_ns)},
    [KEY_ENFORCE_TIMEOUTS] = {"enforce_timeouts", CHOICE(yes_or_no), .built_in = "no", IN(enforce_timeouts)},
    [KEY_ABANDON_AFTER] = {"abandon_after", DURATION(ABANDON_AFTER_MIN), .built_in = "300ms",
                           IN(rules.abandon_after_ns)},
    [KEY_SUCCESS] = {"success", CHOICE(successes), .built_in = "answer", IN(rules.success)},
    [KEY_FAILURES] = {"failures", FAILURE_MASK(KINDS), IN(rules.failure_mask),
                      .built_in = "connect-timeout response-timeout refused reset unreachable early-close"},
    [KEY_HTTP] = {"http", CHOICE(reading), .built_in = "auto", IN(http_read)},
    [KEY_HTTP_FAILURES] = {"http_failures", .rule = {.type = VALUE_STATUSES}, .built_in = "502 503 504"},
    [KEY_GRPC_FAILURES] = {"grpc_failures", .rule = {.type = VALUE_GRPC_STATUSES, .maximum = GRPC_FAILURES},
                           .built_in = "DEADLINE_EXCEEDED UNAVAILABLE", IN(rules.grpc_failures)},
    [KEY_RETRY_AFTER] = {"retry_after", CHOICE(yes_or_no), .built_in = "yes", IN(retry_after)},
    [KEY_RETRY_AFTER_MAX] = {"retry_after_max", DURATION(NS_PER_MS), .built_in = "5m", IN(breaker.retry_after_max_ns)},
    [KEY_EXISTING] = {"existing", CHOICE(existing), .built_in = "refuse", IN(existing_allowed)},
    [KEY_MAX_CONNECTIONS] = {"max_connections", COUNT(0, TARGET_CONNECTIONS_MAX), .built_in = "0", IN(max_connections)},
    [KEY_RETRY] = {"retry", COUNT(0, RETRIES_MAX), .built_in = "0", IN(retries)},
    [KEY_RETRY_BACKOFF] = {"retry_backoff",
                           .rule = {.type = VALUE_DURATION, .minimum = NS_PER_MS, .maximum = RETRY_BACKOFF_MAX},
                           .built_in = "100ms", IN(retry_backoff_ns)},
    [KEY_RETRY_BUDGET] = {"retry_budget", .rule = {.type = VALUE_PERCENT, .minimum = 1, .maximum = PERMILLE},
                          .built_in = "10%", IN(retry_budget_permille)},
    [KEY_ON_OPEN] = {"on_open", CHOICE(refusals), .built_in = "ECONNREFUSED", IN(on_open)},
    [KEY_FALLBACK] = {"fallback", .rule = {.type = VALUE_FALLBACK}, .built_in = "none"},
    [KEY_RECORD] = {"record", CHOICE(recorded), .built_in = "failures", IN(all_recorded)},
    [KEY_SCOPE] = {"scope", CHOICE(scopes), .built_in = "host", IN(scope)},
    [KEY_FLEET_QUORUM] = {"fleet_quorum", .rule = {.type = VALUE_QUORUM}, .built_in = "2"},
    [KEY_INJECT] = {"inject", .rule = {.type = VALUE_FAULTS}, .built_in = "none"},
    [KEY_INJECT_SEED] = {"inject_seed", COUNT(0, UINT32_MAX), .built_in = "0", IN(inject_seed)},
    [KEY_CAPACITY] = {"capacity", .rule = {.type = VALUE_CAPACITY}, .of_policy = true,
                      .built_in = "256 circuits 8192 connections 1024 processes"},
    [KEY_JOURNAL] = {"journal", .rule = {.type = VALUE_EVENTS, .minimum = 1, .maximum = CAPACITY_EVENTS_MAX},
                     .of_policy = true, .built_in = "2048 events", IN(capacity.events)},
};

_Static_assert(KEYS <= 64, "target.keys_set has a bit for each key");

enum key_index key_named(const char *name)
{
    for (unsigned int index = 0; index < KEYS; index++) {
        const struct key *key = &key_table[index];
        if (strcmp(key->name, name) == 0)
            return (enum key_index)index;
        for (unsigned int i = 0; i < KEY_ALIASES_MAX && key->aliases[i] != NULL; i++) {
            if (strcmp(key->aliases[i], name) == 0)
                return (enum key_index)index;
        }
    }
    return KEYS;
}

void key_nearest_words(const char *name, char *text, size_t size)
{
    struct nearest nearest = nearest_to(name);
    for (unsigned int index = 0; index < KEYS; index++) {
        nearest_offer(&nearest, key_table[index].name);
        for (unsigned int i = 0; i < KEY_ALIASES_MAX && key_table[index].aliases[i] != NULL; i++)
            nearest_offer(&nearest, key_table[index].aliases[i]);
    }
    const char *const found = nearest.name != NULL ? nearest.name : key_table[0].name;
    if (nearest_meant(&nearest) != NULL)
        snprintf(text, size, "did you mean `%s`?", found);
    else
        snprintf(text, size, "the nearest known key is `%s`", found);
}

/* The members of struct target are of several widths; values travel as 64 bits. */
static void store(const struct key *key, struct target *target, uint64_t value)
{
    void *at = (char *)target + key->offset;
    const uint32_t narrow = (uint32_t)value;
    const bool flag = value != 0;
    switch (key->size) {
    case sizeof value:
        memcpy(at, &value, sizeof value);
        break;
    case sizeof narrow:
        memcpy(at, &narrow, sizeof narrow);
        break;
    case sizeof flag:
        memcpy(at, &flag, sizeof flag);
        break;
    default:
        break;
    }
}

static uint64_t fetch(const struct key *key, const struct target *target)
{
    const void *at = (const char *)target + key->offset;
    uint64_t value = 0;
    uint32_t narrow = 0;
    bool flag = false;
    switch (key->size) {
    case sizeof value:
        memcpy(&value, at, sizeof value);
        return value;
    case sizeof narrow:
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    case sizeof flag:
        memcpy(&flag, at, sizeof flag);
        return flag;
    default:
        return 0;
    }
}

bool key_set(enum key_index index, struct target *target, const char *text, char *why, size_t why_size)
{
    uint64_t value;
    switch (key_table[index].rule.type) {
    case VALUE_STATUSES:
        return statuses_parse(&target->rules, text, why, why_size);
    case VALUE_FAULTS:
        return faults_parse(target, text, why, why_size);
    case VALUE_QUORUM:
        return quorum_parse(&target->fleet_quorum, text, why, why_size);
    case VALUE_FALLBACK:
        return fallback_parse(&target->fallback, text, why, why_size);
    case VALUE_CHECK:
        return check_parse(target->health_check, text, why, why_size);
    case VALUE_COMMAND:
        return alert_parse(target->alert, text, why, why_size);
    case VALUE_FLAPPING:
        return flapping_parse(&target->flapping, text, why, why_size);
    case VALUE_CAPACITY:
        return capacity_parse(&target->capacity, text, why, why_size);
    default:
        break;
    }
    if (!value_parse(&key_table[index].rule, text, &value, why, why_size))
        return false;
    store(&key_table[index], target, value);
    return true;
}

void key_copy(enum key_index index, struct target *to, const struct target *from)
{
    switch (key_table[index].rule.type) {
    case VALUE_STATUSES:
        to->rules.http_failure_count = from->rules.http_failure_count;
        memcpy(to->rules.http_failures, from->rules.http_failures, sizeof to->rules.http_failures);
        break;
    case VALUE_FAULTS:
        to->fault_count = from->fault_count;
        memcpy(to->faults, from->faults, sizeof to->faults);
        break;
    case VALUE_QUORUM:
        to->fleet_quorum = from->fleet_quorum;
        break;
    case VALUE_FALLBACK:
        to->fallback = from->fallback;
        break;
    case VALUE_CHECK:
        memcpy(to->health_check, from->health_check, sizeof to->health_check);
        break;
    case VALUE_COMMAND:
        memcpy(to->alert, from->alert, sizeof to->alert);
        break;
    case VALUE_FLAPPING:
        to->flapping = from->flapping;
        break;
    case VALUE_CAPACITY:
        to->capacity.circuits = from->capacity.circuits;
        to->capacity.calls = from->capacity.calls;
        to->capacity.processes = from->capacity.processes;
        break;
    default:
        store(&key_table[index], to, fetch(&key_table[index], from));
        break;
    }
}

void key_format(enum key_index index, const struct target *target, char *text, size_t size)
{
    switch (key_table[index].rule.type) {
    case VALUE_STATUSES:
        statuses_format(&target->rules, text, size);
        break;
    case VALUE_FAULTS:
        faults_format(target, text, size);
        break;
    case VALUE_QUORUM:
        quorum_format(target->fleet_quorum, text, size);
        break;
    case VALUE_FALLBACK:
        fallback_format(&target->fallback, text, size);
        break;
    case VALUE_CHECK:
        snprintf(text, size, "%s", target->health_check[0] != '\0' ? target->health_check : "none");
        break;
    case VALUE_COMMAND:
        snprintf(text, size, "%s", target->alert[0] != '\0' ? target->alert : "none");
        break;
    case VALUE_FLAPPING:
        flapping_format(&target->flapping, text, size);
        break;
    case VALUE_CAPACITY:
        capacity_format(&target->capacity, text, size);
        break;
    default:
        value_format(&key_table[index].rule, fetch(&key_table[index], target), text, size);
        break;
    }
}

void target_set_built_in(struct target *target)
{
    char why[VALUE_TEXT_MAX]; /* the table's own values are good: a test reads each */
    memset(target, 0, sizeof *target);
    for (unsigned int index = 0; index < KEYS; index++) {
        if (key_table[index].built_in != NULL)
            key_set((enum key_index)index, target, key_table[index].built_in, why, sizeof why);
    }
}
