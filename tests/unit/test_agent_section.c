/*
 * The section [agent] of a policy: what it says, what is wrong in it, and that the manual has each of its keys.
 */
#include "support_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "policy/agent_section.h"

#define PAGE "src/man/sockfuse.policy.5"

static void a_policy_without_the_section_has_no_settings_of_the_agents(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\n");
    assert_null(policy->agent);
    policy_free(policy);
}

static void a_file_with_the_section_alone_is_good(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[agent]\nlook_every = 250ms\nsweep = no\n");
    assert_non_null(policy->agent);
    assert_int_equal(policy->agent->settings.look_every_ns, 250 * NS_PER_MS);
    assert_false(policy->agent->settings.sweep);
    assert_int_equal(policy->agent->line, 1);
    policy_free(policy);
}

static void the_section_is_no_target_and_what_it_does_not_say_is_built_in(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[a:1]\n[agent]\n[b:1]\n");
    assert_int_equal(policy->target_count, 2);
    assert_int_equal(policy->agent->settings.look_every_ns, NS_PER_S);
    assert_true(policy->agent->settings.sweep);
    policy_free(policy);
}

static void what_is_wrong_in_it_is_told_with_its_line(void **state)
{
    (void)state;
    expect_error("[agent]\nlook_evry = 1s\n", 2, "did you mean `look_every`?");
    expect_error("[agent]\nlook_every = 1ms\n", 2, "look_every = 1ms");
    expect_error("[agent]\nsweep = no\nsweep = no\n", 3, "key `sweep` again");
    expect_error("[agent]\n[a:1]\n[agent]\n", 3, "the first stands in line 1");
    expect_error("[agent]\nmatch = a:1\n", 2, "unknown key `match`|is no target");
    expect_error("[a:1]\nlook_every = 1s\n", 2, "unknown key `look_every`");
}

/* Who looks at a policy sees where its Redis is, and no password. */
static void a_password_is_neither_shown_nor_repeated(void **state)
{
    char text[VALUE_TEXT_MAX];

    (void)state;
    struct policy *policy = good_policy("[agent]\nfleet = redis://:s3cret@cache:6379/2\nfleet_password = file /p\n");
    agent_key_format(&policy->agent->settings, AGENT_FLEET, text, sizeof text);
    assert_string_equal(text, "redis://:***@cache:6379/2");
    policy_free(policy);
    struct loaded loaded;
    load_text(&loaded, "[agent]\nfleet = rediz://:s3cret@cache\n", NULL);
    assert_int_equal(loaded.problems.errors, 1);
    assert_null(strstr(loaded.problems.at[0].text, "s3cret"));
    assert_non_null(strstr(loaded.problems.at[0].text, "`fleet = ...`: expected `redis://"));
    policy_problems_free(&loaded.problems);
    policy_free(loaded.policy);
    expect_error("[agent]\nfleet_ca = ca.pem\n", 2, "which begins with `/`");
    expect_error("[agent]\nfleet_name = a host\n", 2, "without blanks");
    expect_error("[agent]\nfleet_password = s3cret\n", 2, "expected `file /PATH` or `environment NAME`");
}

static char *page;

static void read_page(void)
{
    size_t size = 0;
    FILE *file = fopen(PAGE, "r");
    assert_non_null(file);
    assert_true(getdelim(&page, &size, EOF, file) > 0);
    fclose(file);
}

static void the_manual_has_each_key_with_its_default_and_an_example_that_works(void **state)
{
    (void)state;
    read_page();
    for (unsigned int key = 0; key < AGENT_KEYS; key++) {
        const char *name = agent_keys[key].name, *built_in = agent_keys[key].built_in;
        char head[128], example[128], text[256];
        snprintf(head, sizeof head, "\n.It Cm %s No = ", name);
        const char *item = strstr(page, head);
        if (item == NULL)
            fail_msg("%s has no item for `%s` of [agent]", PAGE, name);
        snprintf(head, sizeof head, "default: %s%s\n", built_in[0] != '\0' ? "Ql " : "none", built_in);
        const char *value = strstr(item, head);
        if (value == NULL || value > strchr(item + 1, '\n'))
            fail_msg("%s: the item of `%s` does not say %s", PAGE, name, head);
        snprintf(example, sizeof example, "\n.Dl %s = ", name);
        const char *at = strstr(item, example);
        if (at == NULL)
            fail_msg("%s: the item of `%s` has no example", PAGE, name);
        at += strlen("\n.Dl ");
        snprintf(text, sizeof text, "[agent]\n%.*s\n", (int)strcspn(at, "\n"), at);
        struct policy *policy = good_policy(text);
        assert_int_equal(policy->agent->keys_set, UINT64_C(1) << key);
        policy_free(policy);
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_without_the_section_has_no_settings_of_the_agents),
        cmocka_unit_test(a_file_with_the_section_alone_is_good),
        cmocka_unit_test(the_section_is_no_target_and_what_it_does_not_say_is_built_in),
        cmocka_unit_test(what_is_wrong_in_it_is_told_with_its_line),
        cmocka_unit_test(a_password_is_neither_shown_nor_repeated),
        cmocka_unit_test(the_manual_has_each_key_with_its_default_and_an_example_that_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
