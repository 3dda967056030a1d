/*
 * sane.c - range checks of a target's members. See sane.h.
 *
 * The limits are those of the table of keys, so a key that is added there is checked here. The few values that are no
 * numbers have a check of their own.
 */
#include "policy/sane.h"

#include <string.h>

#include "policy/alert_value.h"
#include "policy/keys.h"
#include "policy/quorum.h"

/* A member of an enum's width, as the number that its bytes are. */
static uint32_t number_at(const void *member)
{
    uint32_t number;
    memcpy(&number, member, sizeof number);
    return number;
}

static bool is_flag(const void *member)
{
    unsigned char byte;
    memcpy(&byte, member, sizeof byte);
    return byte <= 1;
}
_Static_assert(sizeof(bool) == 1 && sizeof(enum target_mode) == sizeof(uint32_t), "as they are read here");

static bool ends_within(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

/* --- numbers --- */

static bool is_choice(const struct value_rule *rule, uint64_t value)
{
    const struct choice *choice = rule->choices;
    while (choice->name != NULL && choice->value != value)
        choice++;
    return choice->name != NULL;
}

static bool is_within(const struct value_rule *rule, uint64_t value)
{
    return value >= rule->minimum && value <= rule->maximum;
}

static bool number_is_sane(const struct value_rule *rule, uint64_t value)
{
    switch (rule->type) {
    case VALUE_CHOICE:
        return is_choice(rule, value);
    case VALUE_FAILURE_KINDS:
    case VALUE_GRPC_STATUSES:
    case VALUE_WORDS:
        return (value & ~rule->maximum) == 0;
    case VALUE_DURATION_OR_OFF:
        return value == 0 || is_within(rule, value);
    case VALUE_WINDOW:
        if ((value & WINDOW_CALLS) != 0)
            return (value & ~WINDOW_CALLS) >= 1 && (value & ~WINDOW_CALLS) <= WINDOW_CALLS_MAX;
        return is_within(rule, value);
    default:
        return is_within(rule, value);
    }
}

static bool member_is_sane(const struct key *key, const struct target *target)
{
    const void *member = (const char *)target + key->offset;
    uint64_t value;
    switch (key->size) {
    case sizeof value:
        memcpy(&value, member, sizeof value);
        return number_is_sane(&key->rule, value);
    case sizeof(uint32_t):
        return number_is_sane(&key->rule, number_at(member));
    case sizeof(bool):
        return is_flag(member);
    default:
        return key->size == 0;
    }
}

/* --- what is no number --- */

static bool endpoint_is_sane(const struct endpoint *endpoint)
{
    switch (number_at(&endpoint->family)) {
    case ENDPOINT_NONE:
    case ENDPOINT_IPV4:
    case ENDPOINT_IPV6:
    case ENDPOINT_UNIX:
        return is_flag(&endpoint->abstract) && ends_within(endpoint->path, sizeof endpoint->path);
    default:
        return false;
    }
}

static bool statuses_are_sane(const struct outcome_rules *rules)
{
    if (rules->http_failure_count > STATUS_RANGES_MAX)
        return false;
    for (uint32_t i = 0; i < rules->http_failure_count; i++) {
        const struct status_range *range = &rules->http_failures[i];
        if (range->first < HTTP_STATUS_MIN || range->first > range->last || range->last > HTTP_STATUS_MAX)
            return false;
    }
    return true;
}

static bool faults_are_sane(const struct target *target)
{
    uint64_t permille = 0;
    if (target->fault_count > FAULTS_MAX)
        return false;
    for (uint32_t i = 0; i < target->fault_count; i++) {
        const struct injection *fault = &target->faults[i];
        if (fault->kind == FAULT_NONE || fault->kind > FAULT_HTTP ||
            (fault->kind == FAULT_HTTP && !http_status_says_no(fault->status)))
            return false;
        permille += fault->permille;
    }
    return permille <= PERMILLE;
}

static bool fallback_is_sane(const struct fallback *fallback)
{
    return ends_within(fallback->host, sizeof fallback->host) && endpoint_is_sane(&fallback->at[0]) &&
           endpoint_is_sane(&fallback->at[1]);
}

/* --- the whole --- */

bool target_is_sane(const struct target *target)
{
    if (!ends_within(target->name, sizeof target->name) || !capacity_is_sane(&target->capacity) ||
        !statuses_are_sane(&target->rules) || !faults_are_sane(target) || !fallback_is_sane(&target->fallback) ||
        !ends_within(target->health_check, sizeof target->health_check) ||
        !ends_within(target->alert, sizeof target->alert) || !flapping_is_sane(&target->flapping) ||
        !quorum_is_sane(target->fleet_quorum))
        return false;
    for (unsigned int index = 0; index < KEYS; index++) {
        if (!member_is_sane(&key_table[index], target))
            return false;
    }
    return true;
}

bool pattern_needs_host(const struct pattern *pattern)
{
    return pattern->kind != PATTERN_NETWORK;
}

static bool prefix_is_sane(const struct pattern *pattern)
{
    switch (pattern->network.family) {
    case ENDPOINT_IPV4:
        return pattern->prefix <= 32;
    case ENDPOINT_IPV6:
        return pattern->prefix <= 128;
    default:
        return pattern->prefix == 0;
    }
}

bool pattern_is_sane(const struct pattern *pattern)
{
    return number_at(&pattern->kind) <= PATTERN_UNIX && endpoint_is_sane(&pattern->network) &&
           pattern->port_first <= pattern->port_last &&
           (pattern->kind != PATTERN_NETWORK || (prefix_is_sane(pattern) && pattern->network.family != ENDPOINT_UNIX));
}
