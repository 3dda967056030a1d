/*
 * run_request.c - reads what `sockfuse run` is asked for. See run_request.h.
 */
#define _GNU_SOURCE
#include "cli/run_request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static bool list_add(struct run_list *list, const char *word, const char *what)
{
    if (list->count == RUN_LIST_MAX) {
        warnx("more than %d %s; write them into a policy file", RUN_LIST_MAX, what);
        return false;
    }
    list->at[list->count++] = word;
    return true;
}

bool run_list_split(struct run_list *list, char *text, const char *separators, const char *what)
{
    for (char *place, *word = strtok_r(text, separators, &place); word != NULL;
         word = strtok_r(NULL, separators, &place)) {
        if (!list_add(list, word, what))
            return false;
    }
    return true;
}

char *run_list_join(const struct run_list *list, const char *separator)
{
    char *text = NULL;
    for (size_t i = 0; i < list->count; i++) {
        char *longer = format_text("%s%s%s", text != NULL ? text : "", text != NULL ? separator : "", list->at[i]);
        free(text);
        text = longer;
    }
    return text;
}

static bool read_engine(const char *word, enum run_engine *engine)
{
    static const char *const names[] = {
        [ENGINE_PRELOAD] = "preload", [ENGINE_NOTIFY] = "notify", [ENGINE_AUTO] = "auto"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(word, names[i]) == 0) {
            *engine = (enum run_engine)i;
            return true;
        }
    }
    warnx("--engine %s: auto, preload or notify is expected", word);
    return false;
}

bool run_request_parse(int argc, char **argv, struct run_request *request)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"policy", required_argument, NULL, 'p'},
        {"target", required_argument, NULL, 't'},
        {"option", required_argument, NULL, 'o'},
        {"log", required_argument, NULL, OPTION_LOG},
        {"engine", required_argument, NULL, OPTION_ENGINE},
        {"strict", no_argument, NULL, OPTION_STRICT},
        {NULL, 0, NULL, 0},
    };
    int letter;
    /* '+': the first word that is no option is CMD, and all that follows is CMD's own. */
    while ((letter = getopt_long(argc, argv, "+hp:t:o:", options, NULL)) != -1) {
        switch (letter) {
        case 'h':
            request->help = true;
            return true;
        case OPTION_VERSION:
            request->version = true;
            return true;
        case 'p':
            request->policy_file = optarg;
            break;
        case 't':
            if (!run_list_split(&request->patterns, copy_text(optarg), " \t\n", "targets"))
                return false;
            break;
        case 'o':
            if (strchr(optarg, '=') == NULL || strchr(optarg, '\n') != NULL) {
                warnx("-o %s: KEY=VALUE is expected, such as -o reset_timeout=30s", optarg);
                return false;
            }
            if (!list_add(&request->options, optarg, "options"))
                return false;
            break;
        case OPTION_LOG:
            request->log = optarg;
            break;
        case OPTION_ENGINE:
            if (!read_engine(optarg, &request->engine))
                return false;
            break;
        case OPTION_STRICT:
            request->strict = true;
            break;
        default:
            return false;
        }
    }
    request->command = argv + optind;
    if (argv[optind] == NULL) {
        warnx("run: which program? CMD is missing");
        return false;
    }
    return true;
}

bool run_request_inherit(struct run_request *request)
{
    const char *patterns = getenv("SOCKFUSE_TARGETS"), *options = getenv("SOCKFUSE_OPTIONS");
    bool nothing_named = request->policy_file == NULL && request->patterns.count == 0;
    if (nothing_named && patterns != NULL) {
        if (!run_list_split(&request->patterns, copy_text(patterns), " \t\n", "targets"))
            return false;
        const char *file = getenv("SOCKFUSE_POLICY");
        request->policy_file = file != NULL && file[0] != '\0' ? file : NULL;
    }
    if (nothing_named && request->options.count == 0 && options != NULL)
        return run_list_split(&request->options, copy_text(options), "\n", "options");
    return true;
}
