/*
 * fleet_text.c - what is known of a policy's fleet, as lines. See fleet_text.h.
 */
#include "view/fleet_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/quorum.h"
#include "policy/value.h"
#include "segment/segment.h"
#include "view/duration.h"
#include "view/output.h"
#include "view/table.h"

/* What is older is shown with its age. */
#define FLEET_OLD_NS (4 * NS_PER_S)
/* And who has it open, which is asked less often, and of a few circuits a second. */
#define VOTERS_OLD_NS (8 * NS_PER_S)

/* " (a, b, and 3 more)", or "". To be freed. */
static char *hosts_text(const struct fleet_shown *shown)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return copy_text("");
    for (uint32_t i = 0; i < shown->named; i++) {
        fputs(i > 0 ? ", " : " (", out);
        print_safely(shown->voters[i], out);
    }
    if (shown->named > 0 && shown->votes > shown->named)
        fprintf(out, ", and %" PRIu32 " more", shown->votes - shown->named);
    fputs(shown->named > 0 ? ")" : "", out);
    fclose(out);
    return text;
}

/* " of 8", if it is known; or of those that called it lately, where the quorum is a share of these. */
static void add_of(FILE *out, const struct fleet_shown *shown, const struct segment *segment, uint64_t now_ns)
{
    struct fleet_head head;
    const bool is_share = (shown->quorum & QUORUM_SHARE) != 0;
    if (is_share && shown->callers > 0)
        fprintf(out, " of %" PRIu32 " that called it lately", shown->callers);
    else if (fleet_board_head(segment, now_ns, &head) && fleet_board_is_now(head.told_ns, now_ns) && head.hosts > 0 &&
             head.hosts >= shown->votes)
        fprintf(out, " of %" PRIu32, head.hosts);
}

/* "open on 2 of 8 hosts (a, b)", with its age if it is old. */
static void add_voters(FILE *out, const struct fleet_shown *shown, const struct segment *segment, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX];
    if (shown->seen_ns == 0) {
        fputs("on which hosts it is open is not known yet", out);
        return;
    }
    char *const hosts = hosts_text(shown);
    fprintf(out, "open on %" PRIu32, shown->votes);
    add_of(out, shown, segment, now_ns);
    fprintf(out, " host%s%s", shown->votes == 1 ? "" : "s", hosts);
    if (now_ns - shown->seen_ns >= VOTERS_OLD_NS)
        fprintf(out, " as of %s ago", span_format(now_ns - shown->seen_ns, span));
    free(hosts);
}

char *row_fleet_text(const struct row_fleet *fleet, const struct segment *segment, uint64_t now_ns)
{
    const struct fleet_shown *const shown = &fleet->shown;
    char *text = NULL, quorum[VALUE_TEXT_MAX], span[SPAN_TEXT_MAX];
    size_t size = 0;
    FILE *out = fleet->is_known ? open_memstream(&text, &size) : NULL;
    if (out == NULL)
        return NULL;
    quorum_format(shown->quorum, quorum, sizeof quorum);
    if (now_ns - shown->told_ns >= FLEET_OLD_NS)
        fprintf(out, "as of %s ago: ", span_format(now_ns - shown->told_ns, span));
    add_voters(out, shown, segment, now_ns);
    fprintf(out, "; quorum %s, %s", quorum, shown->is_open ? "open in the fleet" : "not open in the fleet");
    if (shown->prober[0] != '\0') {
        fputs("; ", out);
        print_safely(shown->prober, out);
        fputs(shown->is_ours ? " (this host) probes" : " probes", out);
    }
    fclose(out);
    return text;
}

/* "40s ago", or never. */
static void add_heard(FILE *out, const struct fleet_head *head, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX];
    if (head->heard_ns == 0)
        fputs("it has not answered yet", out);
    else
        fprintf(out, "it last answered %s ago", span_format(now_ns - head->heard_ns, span));
}

static void add_link(FILE *out, const struct fleet_head *head, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX];
    if (!fleet_board_is_now(head->told_ns, now_ns)) {
        fprintf(out, "no agent has told of it for %s: each host goes by its own circuits",
                span_format(now_ns - head->told_ns, span));
        return;
    }
    switch (head->link) {
    case FLEET_LINK_UP:
        if (head->hosts > 0)
            fprintf(out, "%" PRIu32 " host%s; ", head->hosts, head->hosts == 1 ? "" : "s");
        fputs("Redis: ", out);
        add_heard(out, head, now_ns);
        break;
    case FLEET_LINK_DOWN:
        fputs("Redis can't be spoken to", out);
        if (head->trouble[0] != '\0') {
            fputs(" (", out);
            print_safely(head->trouble, out);
            fputc(')', out);
        }
        fputs(", ", out);
        add_heard(out, head, now_ns);
        fputs(": each host goes by its own circuits", out);
        break;
    default:
        fputs("the agent was not told where its Redis is (`fleet` in [agent]): each host goes by its own circuits",
              out);
        break;
    }
}

static char *fleet_link_text(const struct segment *segment, uint64_t now_ns)
{
    struct fleet_head head;
    char *text = NULL;
    size_t size = 0;
    if (!fleet_link_read(segment, now_ns, &head))
        return copy_text("no agent tells of it (sockfuse agent): each host goes by its own circuits");
    FILE *out = open_memstream(&text, &size);
    if (out == NULL)
        return copy_text("");
    add_link(out, &head, now_ns);
    fclose(out);
    return text;
}

void fleet_print(const struct rows *rows, const struct segment *segment, uint64_t now_ns)
{
    bool is_told = false;
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        if (row->target == NULL || row->target->scope != SCOPE_FLEET)
            continue;
        char *link = is_told ? NULL : fleet_link_text(segment, now_ns);
        if (link != NULL)
            printf("  fleet: %s\n", link);
        is_told = true;
        free(link);
        char *text = row_fleet_text(&row->fleet, segment, now_ns);
        if (text != NULL) {
            fputs("  fleet: ", stdout);
            print_safely(row->destination, stdout);
            printf(": %s\n", text);
        }
        free(text);
        if (row->fleet.is_forced) {
            fputs("  fleet: ", stdout);
            print_safely(row->destination, stdout);
            printf(": forced %s by ", forced_name(row->forced));
            print_safely(row->fleet.obeyed.user, stdout);
            fputs(" at ", stdout);
            print_safely(row->fleet.obeyed.host, stdout);
            fputs(", for the fleet\n", stdout);
        }
    }
}
