/*
 * forcing.c - an operator's word over live circuits. See forcing.h.
 */
#define _GNU_SOURCE
#include "cli/forcing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/audience.h"
#include "cli/cli.h"
#include "cli/fleet_forcing.h"
#include "view/duration.h"
#include "cli/meant.h"
#include "view/rows.h"
#include "view/table.h"
#include "cli/who.h"
#include "guard/operator.h"
#include "policy/value.h"
#include "segment/circuits.h"

const struct value_rule forcing_time = {.type = VALUE_DURATION, .minimum = NS_PER_MS, .maximum = 365 * NS_PER_DAY};

void forcing_start(struct forcing *forcing, enum forced word, uint64_t for_ns)
{
    *forcing = (struct forcing){.word = word, .for_ns = for_ns, .now_ns = clock_circuit_ns()};
    forcing->command.pid = (uint32_t)getpid();
    strcpy(forcing->command.program, "sockfuse");
    who_am_i(forcing->user);
}

void forcing_end(struct forcing *forcing)
{
    for (size_t i = 0; i < forcing->acted_count; i++)
        free(forcing->acted[i]);
    free(forcing->acted);
    forcing->acted = NULL;
    forcing->acted_count = 0;
}

/* --- one circuit -------------------------------------------------------------------------------------------------- */

static void say(const struct audience *audience, const char *destination, const char *target, const char *what,
                const char *before)
{
    print_safely(destination, stdout);
    if (strcmp(destination, target) != 0) {
        fputs(" (", stdout);
        print_safely(target, stdout);
        fputc(')', stdout);
    }
    printf("%s: %s%s%s", audience->which, what, before != NULL ? ", was " : "", before != NULL ? before : "");
}

/* The state that calls meet, as status has it. */
static const char *state_now(const struct audience *audience, const char *target, const char *destination,
                             uint64_t now_ns)
{
    struct rows rows;
    const char *name = circuit_state_name(CIRCUIT_CLOSED);
    rows_collect_running(&rows, audience->segment, audience->running, now_ns);
    for (size_t i = 0; i < rows.count; i++) {
        if (strcmp(rows.at[i].target_name, target) == 0 && strcmp(rows.at[i].destination, destination) == 0)
            name = circuit_state_name(row_state(&rows.at[i]));
    }
    rows_free(&rows);
    return name;
}

/* Whether the circuit was seen to before. */
static bool is_again(struct forcing *forcing, const struct audience *audience, const char *target,
                     const char *destination)
{
    char *key = format_text("%s\n%s\n%s", audience->segment->path, target, destination);
    for (size_t i = 0; i < forcing->acted_count; i++) {
        if (strcmp(forcing->acted[i], key) == 0) {
            free(key);
            forcing->again++;
            return true;
        }
    }
    forcing->acted = grow(forcing->acted, forcing->acted_count, sizeof *forcing->acted);
    forcing->acted[forcing->acted_count++] = key;
    return false;
}

static struct force force_wanted(const struct forcing *forcing)
{
    return (struct force){forcing->word, forcing->for_ns != 0 ? forcing->now_ns + forcing->for_ns : 0};
}

/* "forced open", or with what is left of its time; to be freed. */
static char *describe(struct force force, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX];
    const char *word = force.word == FORCED_OPEN ? "forced open" : "forced closed";
    return force.end_ns != 0 ? format_text("%s for %s more", word, span_format(force.end_ns - now_ns, span))
                             : copy_text(word);
}

/* Sets the word, and says what it was and is. */
static void set_word(struct forcing *forcing, const struct audience *audience, uint32_t circuit, enum target_mode mode,
                     const char *target_name, const char *destination)
{
    const struct force wanted = force_wanted(forcing),
                       present = force_read(audience->segment, circuit, forcing->now_ns);
    char *before = present.word != FORCED_NONE
                       ? describe(present, forcing->now_ns)
                       : copy_text(state_now(audience, target_name, destination, forcing->now_ns));
    char *what, span[VALUE_TEXT_MAX];
    const char *name = wanted.word == FORCED_OPEN ? "forced open" : "forced closed";
    if (present.word == wanted.word && present.end_ns == 0 && wanted.end_ns == 0) {
        what = wanted.word == FORCED_NONE ? copy_text("was not forced") : format_text("is %s already", name);
        say(audience, destination, target_name, what, NULL);
    } else {
        forcing->command.segment = audience->segment;
        force_set(&forcing->command, forcing->user, circuit, wanted, mode, forcing->now_ns);
        if (wanted.word == FORCED_NONE) {
            what = format_text("given back, now %s", state_now(audience, target_name, destination, forcing->now_ns));
        } else if (wanted.end_ns != 0) {
            value_format(&forcing_time, forcing->for_ns, span, sizeof span);
            what = format_text("%s for %s", name, span);
        } else {
            what = copy_text(name);
        }
        say(audience, destination, target_name, what, before);
    }
    free(what);
    free(before);
}

/* The same on all hosts. */
static void force_fleet(struct forcing *forcing, const struct audience *audience, const char *target_name,
                        const char *destination)
{
    static const char *const words[FORCED_WORDS] = {[FORCED_NONE] = "given back in the fleet",
                                                    [FORCED_OPEN] = "forced open in the fleet",
                                                    [FORCED_CLOSED] = "forced closed in the fleet"};
    struct fleet_order order = {.for_ns = forcing->for_ns, .word = forcing->word};
    struct fleet_answer answer;
    char span[VALUE_TEXT_MAX] = "";
    snprintf(order.user, sizeof order.user, "%s", forcing->user);
    snprintf(order.target, sizeof order.target, "%s", target_name);
    snprintf(order.destination, sizeof order.destination, "%s", destination);
    if (!fleet_forcing_ask(audience, &order, &answer)) {
        forcing->failed++;
        return;
    }
    if (forcing->for_ns != 0)
        value_format(&forcing_time, forcing->for_ns, span, sizeof span);
    char *what = format_text("%s%s%s", words[forcing->word], forcing->for_ns != 0 ? " for " : "", span);
    say(audience, destination, target_name, what, NULL);
    free(what);
    fleet_forcing_tell(&answer);
    forcing->done++;
    forcing->reached += answer.obeying;
}

static void force(struct forcing *forcing, struct audience *audience, const struct meant_circuit *circuit_meant)
{
    const char *target_name = circuit_meant->target_name, *destination = circuit_meant->destination;
    if (is_again(forcing, audience, target_name, destination))
        return;
    if (forcing->fleet) {
        force_fleet(forcing, audience, target_name, destination);
        return;
    }
    uint32_t circuit = circuits_find(audience->segment, target_name, destination, forcing->now_ns);
    if (circuit == CIRCUIT_INDEX_NONE) {
        warnx("%s: there is no place for one more circuit in %s", destination, audience->segment->path);
        forcing->failed++;
        return;
    }
    forcing->done++;
    set_word(forcing, audience, circuit, circuit_meant->mode, target_name, destination);
    audience_gather(audience);
    size_t reached = audience_tell(audience, destination, target_name);
    forcing->reached += reached;
    if (reached == 0) {
        flush_output();
        audience_tell_nobody(audience, destination, forcing->word != FORCED_NONE);
    }
}

/* --- one policy --------------------------------------------------------------------------------------------------- */

/* Whether it is asked for: of one circuit a name can stand for others too. */
static bool is_asked_for(const struct forcing *forcing, const struct meant_circuit *circuit)
{
    return forcing->only == NULL || (strcmp(circuit->target_name, forcing->only->target_name) == 0 &&
                                     strcmp(circuit->destination, forcing->only->destination) == 0);
}

static void obey(struct forcing *forcing, const struct meant *meant, struct audience *audience)
{
    for (size_t i = 0; i < meant->count && select_has_time(audience->selected); i++)
        if (is_asked_for(forcing, &meant->at[i]))
            force(forcing, audience, &meant->at[i]);
}

/* The policy's segment, to write in: the one in use, or a fresh one for a policy that -p named. */
static bool open_segment(struct segment *segment, const struct selected *selected, const struct policy *policy,
                         struct state_places *places)
{
    struct segment_error *error = allocate(1, sizeof *error);
    const struct attaching attaching = {
        .identity = selected->identity, .capacity = policy != NULL ? &policy->capacity : NULL, .patient = true};
    bool opened = selected->segment.map != NULL ? select_to_write(segment, selected, error)
                                                : state_places_name(places, selected->identity) &&
                                                      segment_attach_first(segment, places, &attaching, error);
    if (error->text[0] != '\0')
        warnx("%s", error->text);
    free(error);
    return opened;
}

static void act_in(struct forcing *forcing, const struct meant *meant, struct audience *audience,
                   struct selection *selection)
{
    struct segment *segment = allocate(1, sizeof *segment);
    if (open_segment(segment, audience->selected, audience->running->file, &selection->places)) {
        audience->segment = segment;
        audience->others_unusable = select_missed(selection);
        obey(forcing, meant, audience);
        select_detach(segment);
    } else {
        forcing->failed++;
    }
    free(segment);
}

static void act_on(struct forcing *forcing, const struct selected *selected, struct selection *selection)
{
    struct running running;
    struct audience audience;
    struct meant meant;
    running_collect(&running, selected);
    if (running.file == NULL && forcing->is_first)
        warnx("%s: %s; only circuits of running programs can be found", selected->identity, running.file_why);
    audience_know(&audience, selected, &running);
    meant_find(&meant, forcing->text, forcing->is_destination ? &forcing->destination : NULL, &audience,
               forcing->now_ns);
    if (meant.hidden && meant.count == 0) {
        warnx("%s: each process of %s keeps this circuit to itself (scope = process), out of reach", forcing->text,
              selected->identity);
        forcing->failed++;
    }
    if (meant.nameless && meant.count == 0) {
        warnx(forcing->is_destination
                  ? "%s: each of its addresses has a circuit of its own in %s (circuit = address); name an address"
                  : "%s: no circuit of this target stands yet in %s, and its patterns leave open which there can be; "
                    "name a destination",
              forcing->text, selected->identity);
        forcing->failed++;
    }
    if (meant.count > 0)
        act_in(forcing, &meant, &audience, selection);
    meant_free(&meant);
    audience_free(&audience);
    running_free(&running);
}

/* --- one DEST ----------------------------------------------------------------------------------------------------- */

static void begin(struct forcing *forcing, const char *text)
{
    char why[DESTINATION_WHY_MAX];
    forcing->text = text;
    forcing->done = forcing->failed = forcing->again = 0;
    forcing->reached = 0;
    forcing->is_destination = destination_read(&forcing->destination, forcing->text, why);
}

bool forcing_act(struct forcing *forcing, const char *text, struct selection *selection)
{
    begin(forcing, text);
    for (size_t i = 0; i < selection->count; i++) {
        if (select_has_time(&selection->at[i]))
            act_on(forcing, &selection->at[i], selection);
        forcing->failed += !select_has_time(&selection->at[i]) || !select_was_whole(&selection->at[i]);
    }
    if (forcing->done + forcing->failed + forcing->again == 0 && selection->count > 0)
        warnx("%s: no policy in use has such a destination or target; sockfuse status lists them", forcing->text);
    destination_free(&forcing->destination);
    /* What was seen to before was counted there. */
    return forcing->failed == 0 && (forcing->done > 0 ? forcing->reached > 0 : forcing->again > 0);
}

bool forcing_act_on(struct forcing *forcing, const struct forcing_circuit *circuit, const struct selected *selected,
                    struct selection *selection)
{
    begin(forcing, circuit->destination);
    forcing->only = circuit;
    forcing->is_first = true;
    act_on(forcing, selected, selection);
    forcing->only = NULL;
    if (forcing->done + forcing->failed + forcing->again == 0)
        warnx("%s: no program that runs, and no policy's file, has this circuit any more", forcing->text);
    destination_free(&forcing->destination);
    return select_was_whole(selected) && forcing->failed == 0 && forcing->reached > 0;
}
