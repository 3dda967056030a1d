/*
 * quorum.c - how many hosts of a fleet must have a circuit open. See quorum.h.
 */
#include "policy/quorum.h"

#include <string.h>

#include "base/units.h"
#include "policy/complaint.h"
#include "policy/value.h"

static const struct value_rule hosts = {.type = VALUE_COUNT, .minimum = 1, .maximum = QUORUM_HOSTS_MAX};
static const struct value_rule shares = {.type = VALUE_PERCENT, .minimum = 1, .maximum = PERMILLE};

bool quorum_parse(uint32_t *quorum, const char *text, char *why_text, size_t why_size)
{
    const struct complaint why = {why_text, why_size};
    const bool is_share = strchr(text, '%') != NULL;
    uint64_t value;

    if (!value_parse(is_share ? &shares : &hosts, text, &value, why_text, why_size))
        return complain(why, "expected a number of hosts from 1 to %u, or a share from 0.1%% to 100%%",
                        QUORUM_HOSTS_MAX);
    *quorum = (uint32_t)value | (is_share ? QUORUM_SHARE : 0);
    return true;
}

void quorum_format(uint32_t quorum, char *text, size_t size)
{
    value_format((quorum & QUORUM_SHARE) != 0 ? &shares : &hosts, quorum & ~QUORUM_SHARE, text, size);
}

bool quorum_is_sane(uint32_t quorum)
{
    const uint32_t number = quorum & ~QUORUM_SHARE;

    return number >= 1 && number <= ((quorum & QUORUM_SHARE) != 0 ? PERMILLE : QUORUM_HOSTS_MAX);
}
