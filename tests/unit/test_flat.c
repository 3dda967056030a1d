/*
 * test_flat.c - a policy in one piece: it comes out as it went in, and nothing else comes out as a policy.
 */
#include "support_policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/keys.h"
#include "policy/quorum.h"

/* Brought in as it is, under other names, for the tests make pieces that are wrong inside and whole outside. */
#define policy_flatten flatten
#define policy_unfold unfold
#define flat_fault_text its_fault_text
#define flat_fault_of its_fault_of
#include "policy/flat.c"

/* Each key with a value that is not the built-in one. */
static const char *const other_values[KEYS] = {
    [KEY_MATCH] = "*.example.com:443 10.0.0.0/8:8000-8099 [2001:db8::/32]:* payments.internal:443 127.0.0.1:80 *:25",
    [KEY_CIRCUIT] = "address",
    [KEY_MODE] = "observe",
    [KEY_FAILURE_THRESHOLD] = "7",
    [KEY_WINDOW] = "100 calls",
    [KEY_MINIMUM_CALLS] = "33",
    [KEY_FAILURE_RATE] = "33.3%",
    [KEY_SLOW_CALL] = "1500ms",
    [KEY_SLOW_CALL_RATE] = "77%",
    [KEY_RESET_TIMEOUT] = "7s",
    [KEY_RESET_TIMEOUT_MAX] = "77s",
    [KEY_BACKOFF_MULTIPLIER] = "1.25",
    [KEY_JITTER] = "7%",
    [KEY_HALF_OPEN_MAX_CALLS] = "3",
    [KEY_SUCCESS_THRESHOLD] = "4",
    [KEY_PROBE_TIMEOUT] = "17s",
    [KEY_HEALTH_CHECK] = "http://10.0.3.7:8080/health?deep=1",
    [KEY_HEALTH_INTERVAL] = "3s",
    [KEY_HEALTH_TIMEOUT] = "1500ms",
    [KEY_HEALTH_RISE] = "3",
    [KEY_HEALTH_PATIENCE] = "7",
    [KEY_ALERT] = "/usr/libexec/sockfuse/alert-mail ops@example.org",
    [KEY_ALERT_ON] = "open overdue probe-failed",
    [KEY_ALERT_EVERY] = "7m",
    [KEY_ALERT_TIMEOUT] = "7s",
    [KEY_FLAPPING] = "7 openings in 7m",
    [KEY_CONNECT_TIMEOUT] = "6s",
    [KEY_RESPONSE_TIMEOUT] = "5s",
    [KEY_ENFORCE_TIMEOUTS] = "yes",
    [KEY_ABANDON_AFTER] = "400ms",
    [KEY_SUCCESS] = "connect",
    [KEY_FAILURES] = "refused reset",
    [KEY_HTTP] = "off",
    [KEY_HTTP_FAILURES] = "429 500-599",
    [KEY_GRPC_FAILURES] = "INTERNAL UNAVAILABLE",
    [KEY_RETRY_AFTER] = "no",
    [KEY_RETRY_AFTER_MAX] = "7m",
    [KEY_EXISTING] = "allow",
    [KEY_MAX_CONNECTIONS] = "50",
    [KEY_RETRY] = "2",
    [KEY_RETRY_BACKOFF] = "70ms",
    [KEY_RETRY_BUDGET] = "20%",
    [KEY_ON_OPEN] = "ETIMEDOUT",
    [KEY_FALLBACK] = "spare.internal:8443",
    [KEY_RECORD] = "all",
    [KEY_SCOPE] = "process",
    [KEY_FLEET_QUORUM] = "30.5%",
    [KEY_INJECT] = "hang at 10%, http-503 at 20%",
    [KEY_INJECT_SEED] = "42",
    [KEY_CAPACITY] = "7 circuits 77 connections 5 processes",
    [KEY_JOURNAL] = "1 event",
};

/* A policy in which every key is set, beside plain targets. */
static struct policy *full_policy(void)
{
    char text[8192];
    size_t length = (size_t)snprintf(text, sizeof text,
                                     "[defaults]\njitter = 3%%\ncapacity = %s\njournal = %s\n"
                                     "[plain.example.org:80]\n[full]\n",
                                     other_values[KEY_CAPACITY], other_values[KEY_JOURNAL]);
    for (unsigned int index = 0; index < KEYS; index++) {
        assert_non_null(other_values[index]); /* a new key needs a value here */
        if (key_table[index].of_policy)
            continue;
        length += (size_t)snprintf(text + length, sizeof text - length, "%s = %s\n", key_table[index].name,
                                   other_values[index]);
    }
    snprintf(text + length, sizeof text - length,
             "[unix:/run/*/db.sock]\n[unix:@abstract]\n[db]\nmatch = 10.0.3.7:5432\n");
    struct loaded loaded;
    load_text(&loaded, text, NULL);
    for (size_t i = 0; i < loaded.problems.count; i++) {
        if (loaded.problems.at[i].is_error)
            fail_msg("line %u: %s", loaded.problems.at[i].line, loaded.problems.at[i].text);
    }
    policy_problems_free(&loaded.problems);
    return loaded.policy;
}

/* A target as text: all keys with their origins. */
static void add_line(const char *key, const char *value, const char *origin, void *context)
{
    fprintf(context, "%s = %s # %s\n", key, value, origin);
}

static char *text_of(const struct policy *policy)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    fprintf(stream, "%u %u %u %u\n", policy->capacity.circuits, policy->capacity.calls, policy->capacity.processes,
            policy->capacity.events);
    fprintf(stream, "%s %s %016llx %d %d %d\n", policy->path != NULL ? policy->path : "-", policy->identity,
            (unsigned long long)policy->revision, policy->has_host_patterns, policy->has_host_scope,
            policy->has_process_scope);
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        fprintf(stream, "[%s] %u\n", target->name, target->line);
        policy_describe(target, add_line, stream);
        policy_describe_common(target, add_line, stream);
        for (size_t j = 0; j < target->pattern_count; j++) {
            const struct pattern *pattern = &target->patterns[j];
            fprintf(stream, "%d %s %s %u %u-%u %u\n", (int)pattern->kind, pattern->text,
                    pattern->host != NULL ? pattern->host : "-", pattern->prefix, pattern->port_first,
                    pattern->port_last, pattern->line);
        }
    }
    fclose(stream);
    return text;
}

/* The piece of a policy, which is freed; so a pointer that was kept in it is found by the sanitizers. */
static char *piece_of(struct policy *policy, size_t *size)
{
    char *bytes = flatten(policy, size);
    assert_non_null(bytes);
    policy_free(policy);
    return bytes;
}

static void every_key_and_pattern_comes_out_as_it_went_in(void **state)
{
    (void)state;
    struct policy *policy = full_policy();
    char *identity = strdup(policy->identity), *before = text_of(policy);
    const char *why = "";
    size_t size;
    char *bytes = piece_of(policy, &size);
    const struct policy *out = unfold(bytes, size, identity, &why);
    assert_null(why);
    assert_non_null(out);
    char *after = text_of(out);
    assert_string_equal(after, before);
    assert_true(out->has_host_patterns && out->has_process_scope && out->has_host_scope);
    free(before);
    free(after);
    free(identity);
    free(bytes);
}

static void each_key_alone_comes_out_as_it_went_in(void **state)
{
    (void)state;
    for (unsigned int index = 0; index < KEYS; index++) {
        char text[512];
        struct loaded loaded;
        if (index == KEY_MATCH)
            continue;
        const bool of_policy = key_table[index].of_policy;
        snprintf(text, sizeof text, "%s%s = %s\n%s", of_policy ? "[defaults]\n" : "[a:1]\n", key_table[index].name,
                 other_values[index], of_policy ? "[a:1]\n" : "");
        load_text(&loaded, text, NULL);
        assert_non_null(loaded.policy);
        policy_problems_free(&loaded.problems);
        struct described before = described(&loaded.policy->targets[0], key_table[index].name);
        char *identity = strdup(loaded.policy->identity);
        const char *why;
        size_t size;
        char *bytes = piece_of(loaded.policy, &size);
        const struct policy *out = unfold(bytes, size, identity, &why);
        if (out == NULL)
            fail_msg("%s: %s", text, why);
        struct described after = described(&out->targets[0], key_table[index].name);
        assert_string_equal(after.value, before.value);
        assert_string_equal(after.value, other_values[index]);
        assert_string_equal(after.origin, of_policy ? "[defaults]" : "section");
        free(identity);
        free(bytes);
    }
}

static void a_destination_finds_the_same_target(void **state)
{
    (void)state;
    static const struct {
        const char *endpoint, *name, *target;
    } cases[] = {
        {"10.1.2.3:8050", NULL, "full"},
        {"10.1.2.3:8100", NULL, NULL},
        {"[2001:db8::5]:9", NULL, "full"},
        {"192.0.2.1:443", "API.Example.com", "full"},
        {"192.0.2.1:80", "plain.example.org", "plain.example.org:80"},
        {"unix:/run/pg/db.sock", NULL, "unix:/run/*/db.sock"},
        {"unix:@abstract", NULL, "unix:@abstract"},
        {"10.0.3.7:5432", NULL, "db"},
        {"192.0.2.1:25", NULL, "full"},
        {"192.0.2.1:26", NULL, NULL},
    };
    struct policy *policy = full_policy();
    char *identity = strdup(policy->identity);
    const char *why;
    size_t size;
    char *bytes = piece_of(policy, &size);
    const struct policy *out = unfold(bytes, size, identity, &why);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct endpoint endpoint = endpoint_of(cases[i].endpoint);
        struct policy_match match;
        const bool found = policy_match(out, &endpoint, &cases[i].name, cases[i].name != NULL, &match);
        assert_int_equal(found, cases[i].target != NULL);
        if (found)
            assert_string_equal(match.target->name, cases[i].target);
    }
    assert_true(policy_wants_name(out, "www.example.com"));
    assert_false(policy_wants_name(out, "example.net"));
    free(identity);
    free(bytes);
}

static void what_a_policy_says_of_its_targets_is_looked_up_in_them(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[127.0.0.1:80]\n");
    char *identity = strdup(policy->identity);
    const char *why;
    size_t size;
    char *bytes = piece_of(policy, &size);
    struct flat *flat = (struct flat *)(void *)bytes;
    memset(&flat->policy.has_host_patterns, 0x77, sizeof(bool)); /* which is no bool at all */
    memset(&flat->policy.has_process_scope, 1, sizeof(bool));
    memset(&flat->policy.has_host_scope, 0, sizeof(bool));
    flat->checksum = checksum_of(bytes, size);
    const struct policy *out = unfold(bytes, size, identity, &why);
    assert_non_null(out);
    assert_false(out->has_host_patterns || out->has_process_scope);
    assert_true(out->has_host_scope);
    free(identity);
    free(bytes);
}

static void policies_without_a_file_or_targets_come_out_too(void **state)
{
    static const char *const patterns[] = {"127.0.0.1:5432", "*.example.com:443", NULL};
    struct policy_problems problems;
    const char *why;
    size_t size;
    (void)state;
    struct policy *policy = policy_from_patterns(patterns, NULL, &problems);
    char *before = text_of(policy), *identity = strdup(policy->identity), *bytes = piece_of(policy, &size);
    char *after = text_of(unfold(bytes, size, identity, &why));
    assert_string_equal(after, before);
    policy_problems_free(&problems);
    free(bytes);
    free(before);
    free(after);
    free(identity);

    struct loaded loaded;
    load_text(&loaded, "# nothing\n", NULL);
    identity = strdup(loaded.policy->identity);
    policy_problems_free(&loaded.problems);
    bytes = piece_of(loaded.policy, &size);
    const struct policy *out = unfold(bytes, size, identity, &why);
    assert_non_null(out);
    assert_int_equal(out->target_count, 0);
    free(bytes);
    free(identity);
}

/* --- what is no policy --- */

/* A piece to be spoiled; kept beside it as it was. */
struct piece {
    char *bytes, *good, *identity;
    size_t size;
};

static int piece_setup(void **state)
{
    struct piece *piece = calloc(1, sizeof *piece);
    struct policy *policy = full_policy();
    piece->identity = strdup(policy->identity);
    piece->bytes = piece_of(policy, &piece->size);
    piece->good = malloc(piece->size);
    memcpy(piece->good, piece->bytes, piece->size);
    *state = piece;
    return 0;
}

static int piece_teardown(void **state)
{
    struct piece *piece = *state;
    free(piece->bytes);
    free(piece->good);
    free(piece->identity);
    free(piece);
    return 0;
}

static void mend(struct piece *piece)
{
    memcpy(piece->bytes, piece->good, piece->size);
}

/* Makes the piece whole again outside, whatever it is inside. */
static void seal(struct piece *piece)
{
    struct flat *flat = (struct flat *)(void *)piece->bytes;
    flat->checksum = checksum_of(piece->bytes, piece->size);
}

static const char *fault(struct piece *piece)
{
    const char *why = NULL;
    assert_null(unfold(piece->bytes, piece->size, piece->identity, &why));
    assert_non_null(why);
    return why;
}

static struct flat *flat_of(struct piece *piece)
{
    return (struct flat *)(void *)piece->bytes;
}

/* Behind the header in the piece, before any offset became a pointer. */
static struct target *target_in(struct piece *piece, size_t index)
{
    return (struct target *)(void *)(piece->bytes + targets_at()) + index;
}

static struct pattern *pattern_in(struct piece *piece, size_t target, size_t index)
{
    return (struct pattern *)(void *)(piece->bytes + (uintptr_t)target_in(piece, target)->patterns) + index;
}

static void a_piece_that_is_cut_short_is_none(void **state)
{
    struct piece *piece = *state;
    const char *why;
    for (size_t size = 0; size < piece->size; size++) {
        char *copy = malloc(size != 0 ? size : 1); /* so that the sanitizers see its end */
        memcpy(copy, piece->good, size);
        assert_null(unfold(copy, size, piece->identity, &why));
        assert_string_equal(why, "it is cut short");
        free(copy);
    }
}

static void no_byte_can_be_another_one(void **state)
{
    struct piece *piece = *state;
    for (size_t at = 0; at < piece->size; at++) {
        mend(piece);
        piece->bytes[at] ^= (char)(1 + at % 255);
        fault(piece);
    }
}

static void another_version_or_word_size_is_told_apart(void **state)
{
    struct piece *piece = *state;
    flat_of(piece)->layout++;
    seal(piece);
    assert_string_equal(fault(piece), "it is of another version or word size");
    mend(piece);
    flat_of(piece)->magic++;
    seal(piece);
    assert_string_equal(fault(piece), "it is no policy");
}

static void another_policys_piece_is_none_of_ours(void **state)
{
    struct piece *piece = *state;
    const char *why;
    assert_null(unfold(piece->bytes, piece->size, "/etc/other.policy", &why));
    assert_string_equal(why, "it is another policy's");
}

/* Sealed, so that only the check of that very member can find it. */
#define SPOIL(member, value)                                                                                           \
    do {                                                                                                               \
        mend(piece);                                                                                                   \
        target_in(piece, 1)->member = (value);                                                                         \
        seal(piece);                                                                                                   \
        assert_string_equal(fault(piece), "it is damaged");                                                            \
    } while (0)
#define SPOIL_BYTES(place, byte, count)                                                                                \
    do {                                                                                                               \
        mend(piece);                                                                                                   \
        memset(place, byte, count);                                                                                    \
        seal(piece);                                                                                                   \
        assert_string_equal(fault(piece), "it is damaged");                                                            \
    } while (0)

static void no_value_can_be_out_of_its_range(void **state)
{
    struct piece *piece = *state;
    SPOIL(breaker.failure_threshold, CIRCUIT_FAILURES_MAX + 1);
    SPOIL(breaker.success_threshold, 0);
    SPOIL(breaker.half_open_max_calls, CIRCUIT_LEASES + 1);
    SPOIL(breaker.window, WINDOW_CALLS);
    SPOIL(breaker.window, WINDOW_CALLS | (WINDOW_CALLS_MAX + 1));
    SPOIL(breaker.window, 1);
    SPOIL(breaker.jitter_permille, 1001);
    SPOIL(breaker.reset_timeout_ns, UINT64_MAX);
    SPOIL(breaker.backoff_permille, 999);
    SPOIL(response_timeout_ns, 1);
    SPOIL(max_connections, TARGET_CONNECTIONS_MAX + 1);
    SPOIL(on_open, EINVAL);
    SPOIL(rules.failure_mask, UINT32_MAX);
    SPOIL(rules.http_failure_count, STATUS_RANGES_MAX + 1);
    SPOIL(rules.grpc_failures, 1);
    SPOIL(rules.http_failures[0].first, 99);
    SPOIL(rules.http_failures[1].last, 1000);
    SPOIL(rules.http_failures[1].first, 600);
    SPOIL(fleet_quorum, 0);
    SPOIL(fleet_quorum, QUORUM_SHARE | (PERMILLE + 1));
    SPOIL(fault_count, FAULTS_MAX + 1);
    SPOIL(faults[0].kind, FAULT_HTTP + 1);
    SPOIL(faults[0].kind, FAULT_NONE);
    SPOIL(faults[1].status, 399);
    SPOIL(faults[1].permille, 901);
    SPOIL_BYTES(&target_in(piece, 1)->mode, 0x77, sizeof(enum target_mode));
    SPOIL_BYTES(&target_in(piece, 1)->scope, 0xff, sizeof(enum target_scope));
    SPOIL_BYTES(&target_in(piece, 1)->http_read, 2, 1);
    SPOIL(rules.success, SUCCESS_CLOSE + 1);
    SPOIL_BYTES(target_in(piece, 1)->name, 'x', TARGET_NAME_MAX);
    SPOIL_BYTES(target_in(piece, 1)->fallback.host, 'x', HOST_NAME_SIZE);
    SPOIL_BYTES(&target_in(piece, 1)->fallback.at[1].family, 5, sizeof(enum endpoint_family));
    SPOIL_BYTES(&target_in(piece, 1)->fallback.at[1].abstract, 9, 1);
    SPOIL_BYTES(target_in(piece, 1)->fallback.at[0].path, 'x', ENDPOINT_PATH_MAX + 1);
}

static void no_pattern_can_be_what_none_is(void **state)
{
    struct piece *piece = *state;
    SPOIL_BYTES(&pattern_in(piece, 1, 0)->kind, 4, sizeof(enum pattern_kind));
    SPOIL_BYTES(&pattern_in(piece, 1, 1)->prefix, 33, 1);
    SPOIL_BYTES(&pattern_in(piece, 1, 2)->prefix, 129, 1);
    SPOIL_BYTES(&pattern_in(piece, 1, 5)->prefix, 1, 1);
    SPOIL_BYTES(&pattern_in(piece, 1, 1)->network.family, 1, 1);
    SPOIL_BYTES(&pattern_in(piece, 1, 1)->port_first, 0xff, 2);
    SPOIL_BYTES(&pattern_in(piece, 1, 0)->host, 0, sizeof(char *));
    SPOIL_BYTES(&pattern_in(piece, 2, 0)->host, 0, sizeof(char *));
    SPOIL_BYTES(&pattern_in(piece, 0, 0)->text, 0, sizeof(char *));
}

static void no_offset_can_lead_elsewhere(void **state)
{
    struct piece *piece = *state;
    const size_t offsets[] = {1, 8, sizeof(struct flat) - 8, piece->size, piece->size + 8, SIZE_MAX, SIZE_MAX / 2};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        void *at = offset(offsets[i]);
        mend(piece);
        flat_of(piece)->policy.targets = at;
        seal(piece);
        fault(piece);
        mend(piece);
        flat_of(piece)->policy.identity = at;
        seal(piece);
        fault(piece);
        mend(piece);
        flat_of(piece)->policy.path = at;
        seal(piece);
        fault(piece);
        SPOIL(patterns, at);
        mend(piece);
        pattern_in(piece, 1, 0)->text = at;
        seal(piece);
        fault(piece);
        mend(piece);
        pattern_in(piece, 1, 0)->host = at;
        seal(piece);
        fault(piece);
        mend(piece);
        flat_of(piece)->policy.target_count = offsets[i] > 4 ? offsets[i] : SIZE_MAX / sizeof(struct target) + 2;
        seal(piece);
        fault(piece);
        SPOIL(pattern_count, offsets[i] > 6 ? offsets[i] : SIZE_MAX / sizeof(struct pattern) + 3);
    }
    /* The last text has to end. */
    mend(piece);
    memset(piece->bytes + piece->size - 16, 'x', 16);
    seal(piece);
    fault(piece);
}

/* Whatever comes out can be used: random changes, sealed. */
static void what_comes_out_of_rubbish_can_be_used(void **state)
{
    struct piece *piece = *state;
    const struct endpoint endpoint = endpoint_of("10.1.2.3:8050");
    const char *const name = "api.example.com", *why;
    uint64_t seed = 20261129;
    unsigned int out = 0;
    for (unsigned int round = 0; round < 20000; round++) {
        mend(piece);
        for (unsigned int change = 0; change <= round % 3; change++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            size_t at = sizeof(uint64_t) * 4 + (size_t)(seed >> 20) % (piece->size - sizeof(uint64_t) * 4);
            piece->bytes[at] = (char)(round % 5 == 0 ? 0 : seed >> 50);
        }
        seal(piece);
        const struct policy *policy = unfold(piece->bytes, piece->size, piece->identity, &why);
        struct policy_match match;
        char text[DESTINATION_MAX];
        if (policy == NULL)
            continue;
        out++;
        if (policy_match(policy, &endpoint, &name, 1, &match))
            policy_destination(&match, &endpoint, &name, text, sizeof text);
        free(text_of(policy));
    }
    assert_in_range(out, 1, 20000); /* the test would show nothing if all were refused */
}

static void a_policy_of_ten_thousand_targets_is_one_piece(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length = 0, size;
    struct loaded loaded;
    const char *why;
    FILE *stream = open_memstream(&text, &length);
    for (unsigned int i = 0; i < 10000; i++)
        fprintf(stream, "[host%u.example.com:443]\n", i);
    fclose(stream);
    load_text(&loaded, text, NULL);
    char *identity = strdup(loaded.policy->identity);
    policy_problems_free(&loaded.problems);
    char *bytes = piece_of(loaded.policy, &size);
    const struct policy *out = unfold(bytes, size, identity, &why);
    assert_non_null(out);
    assert_int_equal(out->target_count, 10000);
    assert_string_equal(out->targets[9999].name, "host9999.example.com:443");
    free(bytes);
    free(identity);
    free(text);
}

#define PIECE_TEST(name) cmocka_unit_test_setup_teardown(name, piece_setup, piece_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_and_pattern_comes_out_as_it_went_in),
        cmocka_unit_test(each_key_alone_comes_out_as_it_went_in),
        cmocka_unit_test(a_destination_finds_the_same_target),
        cmocka_unit_test(what_a_policy_says_of_its_targets_is_looked_up_in_them),
        cmocka_unit_test(policies_without_a_file_or_targets_come_out_too),
        PIECE_TEST(a_piece_that_is_cut_short_is_none),
        PIECE_TEST(no_byte_can_be_another_one),
        PIECE_TEST(another_version_or_word_size_is_told_apart),
        PIECE_TEST(another_policys_piece_is_none_of_ours),
        PIECE_TEST(no_value_can_be_out_of_its_range),
        PIECE_TEST(no_pattern_can_be_what_none_is),
        PIECE_TEST(no_offset_can_lead_elsewhere),
        PIECE_TEST(what_comes_out_of_rubbish_can_be_used),
        cmocka_unit_test(a_policy_of_ten_thousand_targets_is_one_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
