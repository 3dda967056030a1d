/*
 * test_policy_index.c - which section takes a destination is found without a look at all patterns, and is the one that
 * a look at all patterns finds.
 */
#include "support_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/flat.h"
#include "policy/index.h"
#include "policy/pattern.h"
#include "policy/policy.h"

/* Brought in for who shadows whom. */
#define policy_check_order check_order
void policy_check_order(const struct policy *policy, struct policy_problems *problems);
#include "policy/shadow.c"

/* --- the same as by looking at all --- */

static uint32_t lot_state;

static uint32_t lot(uint32_t below)
{
    lot_state = lot_state * 1664525u + 1013904223u;
    return (lot_state >> 8) % below;
}

static const char *one_of(const char *const *list, uint32_t count)
{
    return list[lot(count)];
}
#define ONE_OF(list) one_of(list, sizeof(list) / sizeof *(list))

static const char *const hosts[] = {
    "*",           "10.1.2.3",        "10.0.0.0/8", "10.1.0.0/16",       "10.1.2.0/23", "0.0.0.0/0", "[fe80::1]",
    "[fe80::1%2]", "[2001:db8::/33]", "[::/0]",     "[::ffff:10.1.2.3]", "a.test",      "b.a.test",  "*.test",
    "*.a.test",    "*.b.a.test",      "test",
};
static const char *const ports[] = {"80", "443", "*", "80-90", "1-79", "443-444", "1-65535"};
static const char *const paths[] = {
    "/run/a", "/run/*", "/run/?", "/run/[ab]", "/run/a*", "*", "@a", "@*", "/r\\un/a", "/run/*/a", "/run/a?b", "/*b",
};

static void add_pattern(char *text)
{
    if (lot(4) == 0)
        sprintf(text + strlen(text), " unix:%s", ONE_OF(paths));
    else
        sprintf(text + strlen(text), " %s:%s", ONE_OF(hosts), ONE_OF(ports));
}

static struct policy *random_policy(void)
{
    char text[4096] = "";
    const uint32_t targets = 1 + lot(5);
    for (uint32_t i = 0; i < targets; i++) {
        sprintf(text + strlen(text), "[t%u]\nmatch =", i);
        for (uint32_t left = 1 + lot(4); left > 0; left--)
            add_pattern(text);
        strcat(text, "\n");
    }
    return good_policy(text);
}

/* As the manual words it. */
static bool match_by_looking_at_all(const struct policy *policy, const struct endpoint *endpoint,
                                    const char *const *names, size_t name_count, struct policy_match *match)
{
    int meant = -1;
    for (size_t n = 0; n < name_count && meant < 0; n++)
        for (size_t i = 0; i < policy->target_count; i++)
            for (size_t j = 0; j < policy->targets[i].pattern_count; j++)
                if (pattern_names_host(&policy->targets[i].patterns[j], names[n]) &&
                    pattern_has_port(&policy->targets[i].patterns[j], endpoint->port))
                    meant = (int)n;
    for (size_t i = 0; i < policy->target_count; i++) {
        for (size_t j = 0; j < policy->targets[i].pattern_count; j++) {
            const struct pattern *pattern = &policy->targets[i].patterns[j];
            const bool named = meant >= 0 && pattern_is_name(pattern) && pattern_has_port(pattern, endpoint->port) &&
                               pattern_names_host(pattern, names[meant]);
            if (named || pattern_takes_endpoint(pattern, endpoint)) {
                *match = (struct policy_match){&policy->targets[i], pattern, named ? meant : -1};
                return true;
            }
        }
    }
    return false;
}

static const char *const destinations[] = {
    "10.1.2.3:80",    "10.1.3.3:443",    "10.2.0.1:85",     "192.0.2.1:80",
    "[fe80::1%2]:80", "[fe80::1%3]:443", "[2001:db8::1]:1", "[2001:db9::1]:9000",
    "unix:/run/a",    "unix:/run/b",     "unix:/run/ab",    "unix:/run/x/a",
    "unix:@a",        "unix:@b",         "unix:/run/a?b",   "unix:/tmp/b",
    "unix:/run/*",    "10.1.2.3:0",
};
static const char *const called[] = {"a.test", "B.A.Test.", "c.b.a.test", "test", ".test", "other", "a.test.."};

static void check_destinations(const struct policy *policy)
{
    for (size_t i = 0; i < sizeof destinations / sizeof *destinations; i++) {
        struct endpoint endpoint = endpoint_of(destinations[i]);
        const bool has_names = endpoint.family != ENDPOINT_UNIX;
        const char *names[2] = {ONE_OF(called), ONE_OF(called)};
        const size_t count = has_names ? lot(3) : 0;
        struct policy_match found = {0}, expected = {0};
        assert_int_equal(policy_match(policy, &endpoint, names, count, &found),
                         match_by_looking_at_all(policy, &endpoint, names, count, &expected));
        assert_ptr_equal(found.pattern, expected.pattern);
        assert_ptr_equal(found.target, expected.target);
        if (found.target != NULL)
            assert_int_equal(found.name, expected.name);
    }
}

static void check_names(const struct policy *policy)
{
    for (size_t n = 0; n < sizeof called / sizeof *called; n++) {
        bool wanted = false;
        for (size_t i = 0; i < policy->target_count; i++)
            for (size_t j = 0; j < policy->targets[i].pattern_count; j++)
                wanted = wanted || pattern_names_host(&policy->targets[i].patterns[j], called[n]);
        assert_int_equal(policy_wants_name(policy, called[n]), wanted);
    }
    for (size_t i = 0; i < policy->target_count; i++)
        assert_ptr_equal(policy_target_named(policy, policy->targets[i].name), &policy->targets[i]);
    assert_null(policy_target_named(policy, "t"));
}

static void the_first_pattern_that_takes_a_destination_is_found(void **state)
{
    (void)state;
    for (lot_state = 0; lot_state < 3000; lot_state++) {
        const uint32_t seed = lot_state;
        struct policy *policy = random_policy();
        check_destinations(policy);
        check_names(policy);
        policy_free(policy);
        lot_state = seed;
    }
}

static void it_is_found_in_a_policy_that_was_handed_over_too(void **state)
{
    (void)state;
    for (lot_state = 0; lot_state < 300; lot_state++) {
        const uint32_t seed = lot_state;
        struct policy *policy = random_policy();
        size_t size;
        const char *why;
        void *flat = policy_flatten(policy, &size);
        assert_non_null(flat);
        const struct policy *unfolded = policy_unfold(flat, size, policy->identity, &why);
        assert_non_null(unfolded);
        check_destinations(unfolded);
        check_names(unfolded);
        free(flat);
        policy_free(policy);
        lot_state = seed;
    }
}

static const struct pattern *shadow_by_looking_at_all(const struct policy *policy, const struct pattern *narrow)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        for (size_t j = 0; j < policy->targets[i].pattern_count; j++) {
            const struct pattern *wide = &policy->targets[i].patterns[j];
            if (wide == narrow)
                return NULL;
            if (covers(wide, narrow))
                return wide;
        }
    }
    return NULL;
}

static void the_first_pattern_that_takes_all_of_another_is_found(void **state)
{
    (void)state;
    for (lot_state = 0; lot_state < 3000; lot_state++) {
        const uint32_t seed = lot_state;
        struct policy *policy = random_policy();
        for (size_t i = 0; i < policy->target_count; i++)
            for (size_t j = 0; j < policy->targets[i].pattern_count; j++) {
                const struct pattern *pattern = &policy->targets[i].patterns[j];
                assert_ptr_equal(shadow_of(policy, pattern).pattern, shadow_by_looking_at_all(policy, pattern));
            }
        policy_free(policy);
        lot_state = seed;
    }
}

/* --- without a look at all --- */

static uint32_t looks;

static bool looks_only(const struct pattern *pattern, const void *context)
{
    (void)pattern;
    (void)context;
    looks++;
    return false;
}

#define MANY 20000u

static struct policy *many_patterns(const char *format)
{
    char *text = malloc(MANY * 64);
    assert_non_null(text);
    size_t length = (size_t)sprintf(text, "[t]\nmatch =");
    for (unsigned int i = 0; i < MANY; i++) {
        text[length++] = ' ';
        length += (size_t)sprintf(text + length, format, i >> 8, i & 255);
    }
    strcpy(text + length, "\n");
    struct policy *policy = good_policy(text);
    free(text);
    return policy;
}

static uint32_t looks_at(const struct policy *policy, const struct index_query *query)
{
    struct policy_match ignored;
    looks = 0;
    assert_false(index_search(policy, query, looks_only, NULL, &ignored));
    return looks;
}

static void a_search_looks_at_a_few_of_twenty_thousand_patterns(void **state)
{
    (void)state;
    static const uint8_t address[16] = {10, 39, 7, 1};
    static const struct index_query by_address = {
        .address = address, .family = ENDPOINT_IPV4, .prefix = 32, .anywhere = true, .port = 80};
    static const struct index_query by_name = {.name = "h39-7.example.com", .port = 80};
    static const struct index_query by_domain = {.name = "x.h39-7.example.com", .port = 80};
    static const struct index_query of_any_port = {.name = "h39-7.example.com", .any_port = true};
    static const struct index_query by_path = {.path = "/run/39-7-x"};
    static const struct {
        const char *format;
        const struct index_query *query;
    } cases[] = {
        {"10.%u.%u.1:80", &by_address},          {"10.%u.%u.0/24:*", &by_address},
        {"10.%u.%u.0/26:1-80", &by_address},     {"h%u-%u.example.com:80", &by_name},
        {"*.h%u-%u.example.com:80", &by_domain}, {"h%u-%u.example.com:*", &of_any_port},
        {"unix:/run/%u-%u-x", &by_path},         {"unix:/run/%u-%u-*", &by_path},
        {"unix:/run/%u-%u-?", &by_path},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy *policy = many_patterns(cases[i].format);
        print_message("%s: %u looks\n", cases[i].format, looks_at(policy, cases[i].query));
        assert_in_range(looks, 1, 3);
        policy_free(policy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pattern_that_takes_a_destination_is_found),
        cmocka_unit_test(it_is_found_in_a_policy_that_was_handed_over_too),
        cmocka_unit_test(the_first_pattern_that_takes_all_of_another_is_found),
        cmocka_unit_test(a_search_looks_at_a_few_of_twenty_thousand_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
