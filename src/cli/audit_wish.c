/*
 * audit_wish.c - reads what `sockfuse audit` is asked for. See audit_wish.h.
 */
#define _GNU_SOURCE
#include "cli/audit_wish.h"

#include <string.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "breaker/outcome.h"
#include "cli/cli.h"
#include "view/duration.h"

#define LIMIT_MIN_NS (100 * NS_PER_MS)
#define LIMIT_MAX_NS NS_PER_DAY
#define LIMIT_USUAL_NS (60 * NS_PER_S)

/* Of those that `inject` has the ones that a program can be seen to wait for, or to be told. */
static bool is_fault(const char *word)
{
    static const char *const names[] = {"hang", "silence", "refuse", "reset", "early-close"};
    static const char http[] = "http-";
    uint32_t status;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(word, names[i]) == 0)
            return true;
    const char *digits = word + sizeof http - 1;
    return strncmp(word, http, sizeof http - 1) == 0 && ascii_digits(&digits, 3, &status) && *digits == '\0' &&
           http_status_says_no(status);
}

static bool take_faults(struct audit_wish *wish, char *text)
{
    wish->fault_count = 0;
    for (char *place, *word = strtok_r(text, ", \t", &place); word != NULL; word = strtok_r(NULL, ", \t", &place)) {
        bool is_there = false;
        for (size_t i = 0; i < wish->fault_count; i++)
            is_there = is_there || strcmp(wish->faults[i], word) == 0;
        if (!is_fault(word)) {
            warnx("--faults: '%s' is none; hang, silence, refuse, reset, early-close and http-503 (or another status "
                  "from 400 on) are",
                  word);
            return false;
        }
        if (is_there)
            continue;
        if (wish->fault_count == AUDIT_FAULTS_MAX) {
            warnx("--faults: more than %d", AUDIT_FAULTS_MAX);
            return false;
        }
        wish->faults[wish->fault_count++] = word;
    }
    if (wish->fault_count == 0)
        warnx("--faults: no fault is named");
    return wish->fault_count > 0;
}

static bool take_limit(struct audit_wish *wish, const char *text)
{
    if (span_parse(text, &wish->limit_ns) && wish->limit_ns >= LIMIT_MIN_NS && wish->limit_ns <= LIMIT_MAX_NS)
        return true;
    warnx("--limit %s: a time from 100ms to 1d is expected, such as 30s", text);
    return false;
}

/* False: it is none, or not what is expected, which was said. */
static bool take_option(struct audit_wish *wish, int letter)
{
    switch (letter) {
    case OPTION_LIMIT:
        return take_limit(wish, optarg);
    case OPTION_FAULTS:
        return take_faults(wish, copy_text(optarg));
    case 't':
        return run_list_split(&wish->patterns, copy_text(optarg), " \t\n", "targets");
    case 'p':
        wish->policy_file = optarg;
        return true;
    case 'v':
        wish->is_verbose = true;
        return true;
    case OPTION_JSON:
        wish->as_json = true;
        return true;
    case OPTION_FORCE:
        wish->force = true;
        return true;
    case OPTION_VERSION:
        wish->version = true;
        return true;
    case 'h':
        wish->help = true;
        return true;
    default:
        return false;
    }
}

bool audit_wish_parse(int argc, char **argv, struct audit_wish *wish)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"limit", required_argument, NULL, OPTION_LIMIT},
        {"faults", required_argument, NULL, OPTION_FAULTS},
        {"target", required_argument, NULL, 't'},
        {"policy", required_argument, NULL, 'p'},
        {"json", no_argument, NULL, OPTION_JSON},
        {"verbose", no_argument, NULL, 'v'},
        {"force", no_argument, NULL, OPTION_FORCE},
        {NULL, 0, NULL, 0},
    };
    *wish = (struct audit_wish){
        .limit_ns = LIMIT_USUAL_NS, .faults = {"hang", "silence", "refuse", "reset", "http-503"}, .fault_count = 5};
    int letter;
    /* '+': the first word that is no option is CMD, and all that follows is CMD's own. */
    while ((letter = getopt_long(argc, argv, "+hvt:p:", options, NULL)) != -1) {
        if (!take_option(wish, letter))
            return false;
        if (wish->help || wish->version)
            return true;
    }
    wish->command = argv + optind;
    if (argv[optind] == NULL)
        warnx("audit: which program? CMD is missing");
    return argv[optind] != NULL;
}
