/*
 * contradiction_agent.c - what can not have been meant among the keys that are for the agent. See target_check.
 */
#include "policy/contradiction.h"

#include "policy/check_value.h"
#include "policy/policy.h"
#include "policy/problem.h"

/* Keys that say how something is done do nothing where it is not. */
static void check_idle(const struct target_draft *draft, const enum key_index *keys, size_t count,
                       enum key_index without, struct policy_problems *problems)
{
    for (size_t i = 0; i < count; i++)
        if (is_own(&draft->target, keys[i]))
            problem_warning(problems, draft->lines[keys[i]], "`%s` does nothing without `%s`", key_table[keys[i]].name,
                            key_table[without].name);
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Checks that are never made, or too seldom. */
static void check_health(const struct target_draft *draft, struct policy_problems *problems)
{
    static const enum key_index health_keys[] = {KEY_HEALTH_INTERVAL, KEY_HEALTH_TIMEOUT, KEY_HEALTH_RISE,
                                                 KEY_HEALTH_PATIENCE};
    const struct target *target = &draft->target;
    unsigned int line;
    if (check_kind(target->health_check) == CHECK_NONE) {
        check_idle(draft, health_keys, COUNT(health_keys), KEY_HEALTH_CHECK, problems);
        return;
    }
    if (!is_ours(target, KEY_HEALTH_INTERVAL) && target->health_interval_ns >= target->breaker.reset_timeout_ns &&
        has_own_line(draft, KEY_HEALTH_INTERVAL, &line))
        problem_warning(problems, line,
                        "`health_interval` is no shorter than `reset_timeout`: the pause is over first");
    if (!has_own_line(draft, KEY_HEALTH_CHECK, &line))
        return;
    if (target->circuit == CIRCUIT_BY_TARGET && check_needs_destination(target->health_check))
        problem_warning(problems, line,
                        "`health_check = %.80s` fails for ever: with `circuit = target` there is no destination to "
                        "connect to; name one in the URL, or write a command",
                        target->health_check);
    if (target->mode != MODE_ENFORCE)
        problem_warning(problems, line, "`health_check` does nothing with `mode = %s`", target_mode_name(target->mode));
    if (target->scope == SCOPE_PROCESS)
        problem_warning(problems, line,
                        "`health_check` does nothing with `scope = process`: the agent sees no such circuit");
}

/* Alerts that are never sent. */
static void check_alert(const struct target_draft *draft, struct policy_problems *problems)
{
    static const enum key_index alert_keys[] = {KEY_ALERT_ON, KEY_ALERT_EVERY, KEY_ALERT_TIMEOUT, KEY_FLAPPING};
    const struct target *target = &draft->target;
    unsigned int line;
    if (target->alert[0] == '\0') {
        check_idle(draft, alert_keys, COUNT(alert_keys), KEY_ALERT, problems);
        return;
    }
    if (is_own(target, KEY_FLAPPING) && (target->alert_on & 1u << ALERT_FLAPPING) == 0)
        problem_warning(problems, draft->lines[KEY_FLAPPING],
                        "`flapping` does nothing where `alert_on` does not name it");
    if (!has_own_line(draft, KEY_ALERT, &line))
        return;
    if ((target->keys_overridden & key_bit(KEY_ALERT)) != 0)
        problem_warning(problems, 0,
                        "`alert` of -o is not executed: the agent takes a command from the policy's file alone");
    else if (target->mode == MODE_OFF)
        problem_warning(problems, line, "`alert` does nothing with `mode = off`");
    else if (target->scope == SCOPE_PROCESS)
        problem_warning(problems, line, "`alert` does nothing with `scope = process`: the agent sees no such circuit");
}

void target_check_agent(const struct target_draft *draft, bool is_defaults, struct policy_problems *problems)
{
    if (is_defaults)
        return;
    check_health(draft, problems);
    check_alert(draft, problems);
}
