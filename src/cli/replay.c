/*
 * replay.c - `sockfuse replay`: recorded outcomes through the circuit's own code under other policies.
 *
 * Reads a recording (recording.h), finds for each circuit in it the target of each policy that takes its destination,
 * and lets the calls go through (simulation.h). Touches no segment.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "view/destination.h"
#include "cli/recording.h"
#include "cli/replayed.h"
#include "policy/identity.h"

static const char help[] = "Usage: sockfuse replay [--json] [-p FILE]... EVENTS\n"
                           "Lets recorded calls go through the circuit's own code under other policies, on a\n"
                           "clock of its own, and tells what each would have done, side by side.\n"
                           "\n"
                           "EVENTS is what 'sockfuse events --json' wrote; -: standard input. With record = all\n"
                           "it has every outcome; without, failures alone.\n"
                           "\n"
                           "  -p, --policy FILE  under this policy; several: a column for each. Without it\n"
                           "                     under those that the recording names, as their files say now\n"
                           "      --json         one JSON object\n"
                           "  -h, --help         this text\n"
                           "      --version      the version\n"
                           "\n"
                           "  RECORDED           what was done, as the recording tells it\n"
                           "  openings           from closed\n"
                           "  time to detect     from the beginning of the first failed call of a run to the opening,\n"
                           "                     the mean; a run ends with a success\n"
                           "  calls leaked       that went and failed, behind the first of their run; probes apart\n"
                           "  refused            recorded calls that would not have gone; wrongly: they had succeeded\n"
                           "  false openings     of the calls recorded of their pause more succeeded than failed\n";

/* --- policies ----------------------------------------------------------------------------------------------------- */

static struct policy *load(const char *file)
{
    struct policy_problems problems;
    struct policy *policy = policy_load(file, NULL, &problems);
    if (policy == NULL)
        print_problems(file, &problems);
    policy_problems_free(&problems);
    return policy;
}

/*
 * The policy of an identity that a recording names. It may come from anybody: only what is a plain file is opened.
 * NULL: it can't be used, which was said, unless the lines name none.
 */
static struct policy *load_named(const char *text)
{
    struct policy_problems problems;
    struct policy *policy = NULL;
    struct identity identity;
    struct stat status;
    if (text[0] == '\0' || !identity_read(&identity, text))
        return NULL;
    if (identity.path != NULL && stat(identity.path, &status) != 0) {
        warn("%s", identity.path);
    } else if (identity.path != NULL && !S_ISREG(status.st_mode)) {
        warnx("%s: no regular file", identity.path);
    } else {
        policy = policy_load_identity(text, &problems);
        if (policy == NULL)
            print_problems(identity.path, &problems);
        policy_problems_free(&problems);
    }
    identity_free(&identity);
    return policy;
}

/* The target of a policy that takes a lane's destination. NULL: none does. */
static const struct target *target_of(const struct policy *policy, const struct lane *lane)
{
    struct destination destination;
    char why[DESTINATION_WHY_MAX];
    const struct target *target = NULL;
    if (destination_read(&destination, lane->destination, why)) {
        const char *names[] = {destination.name};
        struct policy_match match;
        if (policy_match(policy, &destination.endpoint, names, destination.name != NULL, &match))
            target = match.target;
    }
    destination_free(&destination);
    return target != NULL ? target : policy_target_named(policy, lane->target);
}

/* A recording of failures alone has no rate: the calls that succeeded are missing. */
static const struct target *without_rates(struct target *room, const struct target *target)
{
    *room = *target;
    room->breaker.failure_rate_permille = room->breaker.slow_call_rate_permille = 0;
    return room;
}

static void find_rules(struct replay_column *column, const struct recording *recording)
{
    const size_t lanes = recording->lane_count;
    const struct target **found = allocate(lanes, sizeof *found);
    column->rules = allocate(lanes, sizeof *column->rules);
    column->copies = allocate(lanes, sizeof *column->copies);
    for (size_t i = 0; i < lanes; i++) {
        const struct lane *lane = &recording->lanes[i];
        const struct policy *policy = column->policies[column->is_own ? i : 0];
        found[i] = policy != NULL ? target_of(policy, lane) : NULL;
        column->rules[i].circuit = i;
        if (found[i] == NULL)
            continue;
        column->rules[i].target = lane->has_failures_alone ? without_rates(&column->copies[i], found[i]) : found[i];
        /* All destinations of such a target share the circuit of the first. */
        for (size_t j = 0; found[i]->circuit == CIRCUIT_BY_TARGET && j < i; j++)
            if (found[j] == found[i]) {
                column->rules[i].circuit = j;
                break;
            }
    }
    free(found);
}

/* False: a policy of -p has errors; they were told. */
static bool add_column(struct replayed *replayed, const char *file)
{
    replayed->columns = grow(replayed->columns, replayed->column_count, sizeof *replayed->columns);
    struct replay_column *column = &replayed->columns[replayed->column_count++];
    *column = (struct replay_column){.name = file, .policies = allocate(1, sizeof *column->policies)};
    column->policies[0] = load(file);
    if (column->policies[0] == NULL)
        return false;
    find_rules(column, replayed->recording);
    return true;
}

static void free_column(struct replay_column *column, size_t lanes)
{
    const size_t count = column->is_own ? lanes : 1;
    for (size_t i = 0; i < count; i++) {
        bool is_first = true;
        for (size_t j = 0; j < i && is_first; j++)
            is_first = column->policies[j] != column->policies[i];
        if (is_first && column->policies[i] != NULL)
            policy_free(column->policies[i]);
    }
    simulation_free(&column->simulation);
    free(column->policies);
    free(column->rules);
    free(column->copies);
}

/* No column, if no policy that the recording names can be used. False: not all can. */
static bool add_own_column(struct replayed *replayed, const char *events)
{
    const struct recording *recording = replayed->recording;
    bool any = recording->lane_count == 0, all = true;
    replayed->columns = grow(replayed->columns, replayed->column_count, sizeof *replayed->columns);
    struct replay_column *column = &replayed->columns[replayed->column_count++];
    *column = (struct replay_column){.name = "its own policy",
                                     .is_own = true,
                                     .policies = allocate(recording->lane_count, sizeof *column->policies)};
    for (size_t i = 0; i < recording->lane_count; i++) {
        size_t first = 0;
        while (strcmp(recording->lanes[first].policy, recording->lanes[i].policy) != 0)
            first++;
        column->policies[i] = first < i ? column->policies[first] : load_named(recording->lanes[i].policy);
        all = all && column->policies[i] != NULL;
        any = any || column->policies[i] != NULL;
    }
    find_rules(column, recording);
    if (!any) {
        warnx("%s: it names no policy that can be read here; -p FILE says under which to replay it", events);
        free_column(column, recording->lane_count);
        replayed->column_count--;
    }
    return all;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static void run(struct replayed *replayed, struct recording *recording)
{
    replayed->recorded = allocate(recording->lane_count, sizeof *replayed->recorded);
    for (size_t i = 0; i < recording->lane_count; i++)
        recording_result(recording, i, &replayed->recorded[i]);
    if (recording->call_count > 0)
        qsort(recording->calls, recording->call_count, sizeof *recording->calls, sim_call_compare);
    for (size_t i = 0; i < replayed->column_count; i++)
        simulation_run(&replayed->columns[i].simulation, recording->calls, recording->call_count,
                       replayed->columns[i].rules, recording->lane_count);
}

static int replay(const char *events, char *const *files, size_t file_count, bool as_json)
{
    struct recording recording;
    struct replayed replayed = {.recording = &recording};
    int status = EXIT_SUCCESS;
    bool good = recording_read(&recording, events);
    if (!good || recording.bad > 0)
        status = EXIT_FAILURE;
    for (size_t i = 0; good && i < file_count; i++)
        good = add_column(&replayed, files[i]);
    if (good && file_count == 0 && !add_own_column(&replayed, events))
        status = EXIT_FAILURE;
    if (good) {
        run(&replayed, &recording);
        if (as_json)
            replayed_json(&replayed);
        else
            replayed_print(&replayed);
    }
    for (size_t i = 0; i < replayed.column_count; i++)
        free_column(&replayed.columns[i], recording.lane_count);
    free(replayed.columns);
    free(replayed.recorded);
    recording_free(&recording);
    return finish_output(good ? status : EXIT_FAILURE);
}

int command_replay(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"policy", required_argument, NULL, 'p'},
        {"json", no_argument, NULL, OPTION_JSON},
        {NULL, 0, NULL, 0},
    };
    char **files = NULL;
    size_t file_count = 0;
    bool as_json = false;
    int letter;
    while ((letter = getopt_long(argc, argv, "hp:", options, NULL)) != -1) {
        switch (letter) {
        case 'p':
            files = grow(files, file_count, sizeof *files);
            files[file_count++] = optarg;
            break;
        case OPTION_JSON:
            as_json = true;
            break;
        default:
            free(files);
            return common_option("replay", help, letter);
        }
    }
    int status;
    if (optind == argc) {
        warnx("replay: which recording? 'sockfuse events --json' writes one; - is standard input");
        status = usage_error("replay");
    } else if (optind + 1 < argc) {
        status = unexpected_word("replay", argv[optind + 1]);
    } else {
        status = replay(argv[optind], files, file_count, as_json);
    }
    free(files);
    return status;
}
