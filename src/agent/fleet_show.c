/*
 * fleet_show.c - what is known of a fleet, for who looks. See fleet_show.h.
 */
#include "agent/fleet_show.h"

#include "base/text.h"

static void copy(char *to, size_t size, const char *from)
{
    struct text text;

    text_start(&text, to, size);
    text_add(&text, from);
}

/* A time of real_ns' clock by the circuits'. */
static uint64_t circuits_time(const struct fleet_showing *showing, uint64_t at_ns)
{
    const uint64_t ago_ns = showing->real_ns > at_ns ? showing->real_ns - at_ns : 0;

    return at_ns == 0 || ago_ns >= showing->now_ns ? 0 : showing->now_ns - ago_ns;
}

void fleet_show_begins(struct fleet_showing *showing, const struct segment *segment, const struct fleet *fleet,
                       uint64_t now_ns, uint64_t real_ns)
{
    showing->segment = segment;
    showing->now_ns = now_ns;
    showing->real_ns = real_ns;
    showing->heard_ns = fleet != NULL ? circuits_time(showing, fleet_standing(fleet).heard_ns) : 0;
    showing->before = showing->places;
    showing->places = 0;
}

void fleet_show_circuit(struct fleet_showing *showing, const struct fleet_view *view, uint64_t key, uint32_t quorum)
{
    if ((!view->is_open && (view->seen_ns == 0 || view->hosts == 0)) || showing->places == FLEET_SHOWN)
        return;
    struct fleet_shown shown = {
        .told_ns = showing->heard_ns,
        .key = key,
        .pause_end_ns = view->pause_ns > 0 ? showing->now_ns + view->pause_ns : 0,
        .votes = (uint32_t)view->hosts,
        .callers = (uint32_t)view->callers,
        .quorum = quorum,
        .seen_ns = circuits_time(showing, view->seen_ns),
        .is_open = view->is_open,
        .is_ours = view->probes,
        .named = view->voter_count,
    };
    for (unsigned int i = 0; i < view->voter_count; i++)
        copy(shown.voters[i], sizeof shown.voters[i], view->voters[i]);
    copy(shown.prober, sizeof shown.prober, view->prober);
    fleet_board_show(showing->segment, showing->places++, &shown);
}

/* What was shown before in places that are not taken. */
static void take_away(const struct fleet_showing *showing, uint32_t before)
{
    static const struct fleet_shown nothing;

    for (uint32_t place = showing->places; place < before; place++)
        fleet_board_show(showing->segment, place, &nothing);
}

void fleet_show_ends(struct fleet_showing *showing, const struct fleet *fleet, bool has_link, const char *trouble)
{
    struct fleet_head head = {.told_ns = showing->now_ns, .link = has_link ? FLEET_LINK_DOWN : FLEET_LINK_NONE};

    take_away(showing, showing->before);
    if (fleet != NULL) {
        const struct fleet_standing standing = fleet_standing(fleet);
        head.link = standing.is_connected ? FLEET_LINK_UP : FLEET_LINK_DOWN;
        head.heard_ns = circuits_time(showing, standing.heard_ns);
        head.hosts = (uint32_t)standing.hosts;
        copy(head.host, sizeof head.host, standing.host);
    }
    if (head.link == FLEET_LINK_DOWN)
        copy(head.trouble, sizeof head.trouble, trouble);
    fleet_board_tell(showing->segment, &head);
}

void fleet_show_over(struct fleet_showing *showing)
{
    static const struct fleet_head nothing;
    const uint32_t before = showing->places;

    if (showing->segment == NULL)
        return;
    showing->places = 0;
    take_away(showing, before);
    fleet_board_tell(showing->segment, &nothing);
}
