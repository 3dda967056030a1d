/*
 * policy.c - builds a policy of a file, of patterns, or of both, and names it. See policy.h.
 */
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/hash.h"
#include "policy/file_path.h"
#include "policy/identity.h"
#include "policy/index.h"
#include "policy/pattern.h"
#include "policy/problem.h"
#include "policy/target.h"

#define WHY_MAX 280

/* A policy in the making. */
struct build {
    struct policy *policy;
    struct policy_problems *problems;
    struct target_draft base; /* the built-in values with those of [defaults] over them */
    struct target overrides;  /* of -o */
};

static bool out_of_memory(struct build *build)
{
    problem_error(build->problems, 0, "out of memory");
    return false;
}

/* --- targets --- */

/* Makes the draft a target of the policy, which owns its patterns from then on. */
static bool add_target(struct build *build, struct target_draft *draft)
{
    struct policy *policy = build->policy;
    target_override(draft, &build->overrides);
    target_check(draft, false, build->problems);
    struct target *targets = array_grow(policy->targets, policy->target_count, sizeof *targets);
    if (targets == NULL) {
        target_release(&draft->target);
        return out_of_memory(build);
    }
    policy->targets = targets;
    targets[policy->target_count++] = draft->target;
    return true;
}

static const struct entry *entries_of(const struct draft *draft, const struct section *section)
{
    return section->count > 0 ? &draft->entries[section->first] : NULL;
}

static void add_section(struct build *build, const struct draft *draft, const struct section *section)
{
    char why[WHY_MAX];
    struct target_draft made = build->base;
    const struct entry *entries = entries_of(draft, section), *match = NULL;
    memcpy(made.target.name, section->name, sizeof made.target.name);
    made.target.line = section->line;
    target_apply(&made, entries, section->count, &made.target.keys_set, build->problems);
    for (size_t i = 0; i < section->count; i++) {
        if (entries[i].key == KEY_MATCH)
            match = &entries[i];
    }
    if (match != NULL) {
        made.target.keys_set |= key_bit(KEY_MATCH);
        target_match(&made.target, match, build->problems);
    } else if ((section->keys & key_bit(KEY_MATCH)) == 0 && !section->is_bad &&
               !target_add_pattern(&made.target, section->name, section->line, why, sizeof why)) {
        problem_error(build->problems, section->line,
                      "section `[%.60s]` has no `match`, and its name is no pattern (%.150s); add `match = HOST:PORT`",
                      section->name, why);
    }
    if (section->is_bad)
        target_release(&made.target);
    else
        add_target(build, &made);
}

static void apply_defaults(struct build *build, const struct draft *draft)
{
    struct target_draft *base = &build->base;
    for (size_t i = 0; i < draft->section_count; i++) {
        const struct section *section = &draft->sections[i];
        if (section->is_defaults)
            target_apply(base, entries_of(draft, section), section->count, &base->target.keys_defaulted,
                         build->problems);
    }
    struct target_draft alone = *base; /* a copy, for the check may let built-in values give way */
    target_override(&alone, &build->overrides);
    target_check(&alone, true, build->problems);
    build->policy->capacity = alone.target.capacity;
}

static void add_sections(struct build *build, const struct draft *draft)
{
    for (size_t i = 0; i < draft->section_count; i++) {
        if (!draft->sections[i].is_defaults && !draft->sections[i].is_agent)
            add_section(build, draft, &draft->sections[i]);
    }
}

static void read_agent_section(struct build *build, const struct draft *draft, const struct section *section)
{
    const struct entry *entries = entries_of(draft, section);
    struct policy_agent *agent = calloc(1, sizeof *agent);
    char why[WHY_MAX];
    if (agent == NULL) {
        out_of_memory(build);
        return;
    }
    build->policy->agent = agent;
    agent->line = section->line;
    agent->keys_set = section->keys;
    agent_settings_built_in(&agent->settings);
    for (size_t i = 0; i < section->count; i++)
        if (!agent_key_set(&agent->settings, entries[i].agent_key, entries[i].value, why, sizeof why))
            problem_error(build->problems, entries[i].line, "`%s = %.60s`: %s", agent_keys[entries[i].agent_key].name,
                          agent_keys[entries[i].agent_key].show != NULL ? "..." : entries[i].value, why);
}

static void add_agent(struct build *build, const struct draft *draft)
{
    for (size_t i = 0; i < draft->section_count && build->policy->agent == NULL; i++) {
        if (draft->sections[i].is_agent)
            read_agent_section(build, draft, &draft->sections[i]);
    }
}

static bool has_target(const struct policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        if (strcmp(policy->targets[i].name, name) == 0)
            return true;
    }
    return false;
}

/* One target for each pattern of -t. One that the file has as a section's name is the file's. */
static void add_pattern_targets(struct build *build, const char *const *patterns)
{
    char why[WHY_MAX];
    for (; patterns != NULL && *patterns != NULL; patterns++) {
        struct target_draft made = build->base;
        const char *text = *patterns;
        if (has_target(build->policy, text))
            continue;
        if (strlen(text) >= sizeof made.target.name)
            problem_error(build->problems, 0, "pattern `%.100s...` has more than %d bytes: a policy file can have it",
                          text, TARGET_NAME_MAX - 1);
        else if (!target_add_pattern(&made.target, text, 0, why, sizeof why))
            problem_error(build->problems, 0, "pattern `%.100s`: %s", text, why);
        else {
            memcpy(made.target.name, text, strlen(text) + 1);
            add_target(build, &made);
        }
    }
}

/* --- what the policy is called --- */

static char *name_policy(const char *path, const char *const *patterns, const struct target *overrides,
                         struct policy_problems *problems)
{
    char **options = overrides_write(overrides);
    char *identity = options != NULL ? identity_write(path, patterns, (const char *const *)options) : NULL;
    overrides_free(options);
    if (identity == NULL)
        problem_error(problems, 0, "out of memory");
    if (identity == NULL || strlen(identity) < IDENTITY_MAX)
        return identity;
    problem_error(problems, 0,
                  "the file's path, the targets of -t and the options of -o make a name of %zu bytes, and circuits are "
                  "kept by names of at most %u; write targets and options into a policy file",
                  strlen(identity), IDENTITY_MAX - 1);
    free(identity);
    return NULL;
}

char *policy_identity(const char *path, const char *const *patterns, const char *const *overrides,
                      struct policy_problems *problems)
{
    struct target read;
    *problems = (struct policy_problems){0};
    overrides_read(&read, overrides, problems);
    return problems->errors == 0 ? name_policy(path, patterns, &read, problems) : NULL;
}

static bool set_identity(struct build *build, const char *const *patterns)
{
    struct policy *policy = build->policy;
    policy->identity = name_policy(policy->path, patterns, &build->overrides, build->problems);
    return policy->identity != NULL;
}

/* The same patterns in another order are the same revision. */
static bool add_patterns_to_revision(struct policy *policy, const char *const *patterns)
{
    struct identity identity;
    if (patterns == NULL || *patterns == NULL)
        return true;
    char *text = identity_write(NULL, patterns, NULL);
    const bool good = text != NULL && identity_read(&identity, text);
    if (good) {
        for (char **pattern = identity.patterns; *pattern != NULL; pattern++)
            policy->revision = hash_bytes(policy->revision, *pattern, strlen(*pattern) + 1);
        identity_free(&identity);
    }
    free(text);
    return good;
}

/* --- the whole --- */

void policy_note_kinds(struct policy *policy)
{
    policy->has_host_patterns = policy->has_process_scope = policy->has_host_scope = false;
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        *(target->scope == SCOPE_PROCESS ? &policy->has_process_scope : &policy->has_host_scope) = true;
        for (size_t j = 0; j < target->pattern_count; j++)
            policy->has_host_patterns = policy->has_host_patterns || pattern_is_name(&target->patterns[j]);
    }
}

static bool make_index(struct policy *policy)
{
    void *memory = calloc(1, index_size(policy));
    if (memory != NULL)
        index_build(policy, memory);
    return memory != NULL;
}

static void read_source(struct build *build, const struct source *source)
{
    struct draft draft;
    build->policy->revision = source->hash;
    draft_read(&draft, source, build->problems);
    apply_defaults(build, &draft);
    add_sections(build, &draft);
    add_agent(build, &draft);
    draft_free(&draft);
    /* One with a zero byte in a comment could not be told from a shorter one. */
    if (source->length > 0 && memchr(source->text, '\0', source->length) == NULL)
        build->policy->text = strndup(source->text, source->length);
}

/* `known_as`: its cleaned path; NULL: to be found. */
static bool read_file(struct build *build, const char *path, const char *known_as)
{
    struct source source;
    if (!source_read(&source, path, build->problems))
        return false;
    read_source(build, &source);
    source_free(&source);
    build->policy->path = known_as != NULL ? strdup(known_as) : policy_file_path(path);
    if (build->policy->path == NULL)
        problem_error(build->problems, 0, "the working folder is not known (%s); name `%.200s` by its full path",
                      strerror(errno), path); /* NOLINT(concurrency-mt-unsafe): see source.c */
    return build->policy->path != NULL;
}

static bool read_text(struct build *build, const char *path, const char *text)
{
    /* Only looked at. */
    const struct source source = {.text = (char *)(uintptr_t)text, .length = strlen(text)};
    read_source(build, &source);
    build->policy->path = strdup(path);
    return build->policy->path != NULL || out_of_memory(build);
}

/* Where a policy's file is read. */
struct place {
    const char *path;     /* NULL: there is none */
    const char *text;     /* what it said; NULL: it is opened */
    const char *known_as; /* the path by which it is known; NULL: that is to be found */
};

static bool read_place(struct build *build, const struct place *place)
{
    if (place->path == NULL) {
        apply_defaults(build, &(struct draft){0});
        return true;
    }
    return place->text != NULL ? read_text(build, place->path, place->text)
                               : read_file(build, place->path, place->known_as);
}

static struct policy *build_policy(const struct place *place, const char *const *patterns, const char *const *overrides,
                                   struct policy_problems *problems)
{
    struct build build = {.problems = problems};
    *problems = (struct policy_problems){0};
    build.policy = calloc(1, sizeof *build.policy);
    if (build.policy == NULL) {
        out_of_memory(&build);
        return NULL;
    }
    build.policy->revision = HASH_BEGIN;
    target_set_built_in(&build.base.target);
    overrides_read(&build.overrides, overrides, problems);
    if (read_place(&build, place)) {
        add_pattern_targets(&build, patterns);
        policy_note_kinds(build.policy);
        if (problems->errors == 0 && set_identity(&build, patterns) &&
            (!add_patterns_to_revision(build.policy, patterns) || !make_index(build.policy)))
            out_of_memory(&build);
        if (problems->errors == 0 && build.policy->target_count == 0 && build.policy->agent == NULL)
            problem_warning(problems, 0, "no targets: nothing is guarded");
    }
    problems_sort(problems);
    if (problems->errors == 0)
        return build.policy;
    policy_free(build.policy);
    return NULL;
}

struct policy *policy_load_with_patterns(const char *path, const char *const *patterns, const char *const *overrides,
                                         struct policy_problems *problems)
{
    return build_policy(&(struct place){.path = path}, patterns, overrides, problems);
}

/* `text` NULL: what stands in the file. */
static struct policy *load_identity(const char *identity_text, const char *text, struct policy_problems *problems)
{
    struct identity identity;
    *problems = (struct policy_problems){0};
    if (!identity_read(&identity, identity_text)) {
        problem_error(problems, 0, "out of memory");
        return NULL;
    }
    /* By the very name, even if links or folders have changed since, by which another one would be found. */
    const struct place place = {.path = identity.path, .known_as = identity.path, .text = text};
    struct policy *policy =
        build_policy(&place, (const char *const *)identity.patterns, (const char *const *)identity.options, problems);
    identity_free(&identity);
    return policy;
}

struct policy *policy_load_identity(const char *identity, struct policy_problems *problems)
{
    return load_identity(identity, NULL, problems);
}

struct policy *policy_from_text(const char *identity, const char *text, uint64_t revision,
                                struct policy_problems *problems)
{
    struct policy *policy = load_identity(identity, text, problems);
    if (policy != NULL)
        policy->revision = revision;
    return policy;
}

struct policy *policy_load(const char *path, const char *const *overrides, struct policy_problems *problems)
{
    return policy_load_with_patterns(path, NULL, overrides, problems);
}

struct policy *policy_from_patterns(const char *const *patterns, const char *const *overrides,
                                    struct policy_problems *problems)
{
    return policy_load_with_patterns(NULL, patterns, overrides, problems);
}

void policy_free(struct policy *policy)
{
    if (policy == NULL)
        return;
    for (size_t i = 0; i < policy->target_count; i++)
        target_release(&policy->targets[i]);
    free(policy->index.heads);
    free(policy->targets);
    free(policy->path);
    free(policy->text);
    free(policy->identity);
    free(policy->agent);
    free(policy);
}

void policy_resolve_fallbacks(struct policy *policy, const char *host, const struct endpoint *address)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        struct fallback *fallback = &policy->targets[i].fallback;
        struct endpoint *place = &fallback->at[address->family == ENDPOINT_IPV6];
        if (fallback->host[0] == '\0' || strcasecmp(fallback->host, host) != 0 || place->family != ENDPOINT_NONE)
            continue;
        *place = *address;
        place->port = fallback->port;
    }
}
