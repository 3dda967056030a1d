/*
 * fuzz_flat.c - spoils a policy that is handed over in one piece.
 *
 * `make fuzz` builds and runs it. Longer: make fuzz RUNS=10000000 SEED=2. Without libFuzzer: see alone.c.
 *
 * The input's bytes are changes to a good piece, three bytes each: where, and what stands there then. The piece is then
 * made whole outside again. Whatever comes out as a policy must be usable as one: matched, described, written out.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

/* Brought in as it is, under other names, for the changed piece needs its checksum. */
#define policy_flatten flatten
#define policy_unfold unfold
#define flat_fault_text its_fault_text
#define flat_fault_of its_fault_of
#include "policy/policy.h"
#include "policy/flat.c"

static char *good, *identity;
static size_t piece_size;

static void make_good_piece(void)
{
    static const char *const patterns[] = {"*.example.com:443",     "10.0.0.0/8:8000-8099", "[2001:db8::/32]:*",
                                           "payments.internal:443", "unix:/run/*/s",        NULL};
    static const char *const options[] = {"http_failures=429 500-599",
                                          "inject=hang at 10%, http-503 at 20%",
                                          "fallback=spare.internal:8443",
                                          "window=100 calls",
                                          "health_check=http:///health",
                                          "capacity=7 circuits",
                                          NULL};
    struct policy_problems problems;
    struct policy *policy = policy_from_patterns(patterns, options, &problems);

    assert(policy != NULL);
    good = flatten(policy, &piece_size);
    identity = strdup(policy->identity);
    assert(good != NULL && identity != NULL);
    policy_free(policy);
    policy_problems_free(&problems);
}

static void ignore_line(const char *key, const char *value, const char *origin, void *context)
{
    *(size_t *)context += strlen(key) + strlen(value) + strlen(origin);
}

static void use(const struct policy *policy)
{
    static const char *const places[] = {"10.1.2.3:8050", "[2001:db8::5]:9", "192.0.2.1:443", "unix:/run/x/s"};
    const char *const name = "api.example.com";
    struct policy_match match;
    struct endpoint endpoint;
    char text[DESTINATION_MAX];
    size_t sum = strlen(policy->identity);

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        assert(endpoint_parse(&endpoint, places[i]));
        if (policy_match(policy, &endpoint, &name, 1, &match))
            policy_destination(&match, &endpoint, &name, text, sizeof text);
    }
    policy_wants_name(policy, name);
    for (size_t i = 0; i < policy->target_count; i++)
        policy_describe(&policy->targets[i], ignore_line, &sum);
    for (size_t i = 0; i < policy->target_count; i++)
        policy_describe_common(&policy->targets[i], ignore_line, &sum);
    assert(capacity_is_sane(&policy->capacity));
    assert(strcmp(policy->identity, identity) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why;

    if (good == NULL)
        make_good_piece();
    /* Of just its size, so that the sanitizers see its end. */
    char *piece = malloc(piece_size);
    assert(piece != NULL);
    memcpy(piece, good, piece_size);
    for (size_t at = 0; at + 3 <= size; at += 3)
        piece[(data[at] | (size_t)data[at + 1] << 8) % piece_size] = (char)data[at + 2];
    ((struct flat *)(void *)piece)->checksum = checksum_of(piece, piece_size);
    const struct policy *policy = unfold(piece, piece_size, identity, &why);
    assert((policy == NULL) == (why != NULL));
    if (policy != NULL)
        use(policy);
    free(piece);
    return 0;
}
