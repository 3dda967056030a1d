/* The patterns of `match`: what each kind takes and leaves, and what is said of one that is none. */
#include "support_policy.h"

#include <fnmatch.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/glob.h"
#include "policy/pattern.h"

/* Whether a pattern takes a destination by its address or path. */
static bool takes(const char *text, const char *destination)
{
    struct pattern pattern;
    char why[300];
    if (!pattern_parse(&pattern, text, why, sizeof why))
        fail_msg("%s: %s", text, why);
    assert_string_equal(pattern.text, text);
    const struct endpoint endpoint = endpoint_of(destination);
    const bool taken = pattern_takes_endpoint(&pattern, &endpoint);
    pattern_release(&pattern);
    return taken;
}

static bool names(const char *text, const char *host)
{
    struct pattern pattern;
    char why[300];
    if (!pattern_parse(&pattern, text, why, sizeof why))
        fail_msg("%s: %s", text, why);
    const bool named = pattern_names_host(&pattern, host);
    pattern_release(&pattern);
    return named;
}

#define TAKES(text, destination)                                                                                       \
    if (!takes(text, destination))                                                                                     \
    fail_msg("%s should take %s", text, destination)
#define LEAVES(text, destination)                                                                                      \
    if (takes(text, destination))                                                                                      \
    fail_msg("%s should leave %s", text, destination)

static void an_address_takes_itself_on_its_port(void **state)
{
    (void)state;
    TAKES("10.0.3.7:443", "10.0.3.7:443");
    LEAVES("10.0.3.7:443", "10.0.3.7:444");
    LEAVES("10.0.3.7:443", "10.0.3.8:443");
    LEAVES("10.0.3.7:443", "[a00:307::]:443"); /* the same bytes, another family */
    TAKES("[2001:db8::1]:443", "[2001:DB8:0::1]:443");
    LEAVES("[2001:db8::1]:443", "[2001:db8::2]:443");
    LEAVES("[2001:db8::1]:443", "[2001:db8::1]:80");
    LEAVES("127.0.0.1:443", "unix:/127.0.0.1:443");
}

static void a_network_takes_what_its_prefix_covers(void **state)
{
    (void)state;
    TAKES("10.0.3.0/24:8443", "10.0.3.0:8443");
    TAKES("10.0.3.0/24:8443", "10.0.3.255:8443");
    LEAVES("10.0.3.0/24:8443", "10.0.4.0:8443");
    LEAVES("10.0.3.0/24:8443", "10.0.2.255:8443");
    TAKES("10.0.0.0/13:1", "10.7.255.255:1");
    LEAVES("10.0.0.0/13:1", "10.8.0.0:1");
    TAKES("10.0.0.128/25:1", "10.0.0.128:1");
    LEAVES("10.0.0.128/25:1", "10.0.0.127:1");
    TAKES("10.0.0.6/31:1", "10.0.0.7:1");
    TAKES("10.0.0.7/32:1", "10.0.0.7:1");
    LEAVES("10.0.0.7/32:1", "10.0.0.6:1");
    TAKES("0.0.0.0/0:1", "255.255.255.255:1");
    LEAVES("0.0.0.0/0:1", "[::1]:1");
    TAKES("128.0.0.0/1:1", "255.0.0.0:1");
    LEAVES("128.0.0.0/1:1", "127.0.0.1:1");
    TAKES("[2001:db8::]/32:443", "[2001:db8:ffff::1]:443");
    TAKES("[2001:db8::/32]:443", "[2001:db8:ffff::1]:443");
    LEAVES("[2001:db8::]/32:443", "[2001:db9::1]:443");
    TAKES("[2001:db8::1/128]:443", "[2001:db8::1]:443");
    LEAVES("[2001:db8::1/128]:443", "[2001:db8::2]:443");
    TAKES("[2001:db8::2/127]:443", "[2001:db8::3]:443");
    TAKES("[::]/0:443", "[fe80::1]:443");
    LEAVES("[::]/0:443", "1.2.3.4:443");
}

static void mapped_addresses_are_ipv4_on_both_sides(void **state)
{
    (void)state;
    TAKES("127.0.0.1:80", "[::ffff:127.0.0.1]:80");
    TAKES("[::ffff:127.0.0.1]:80", "127.0.0.1:80");
    TAKES("[::ffff:10.0.3.0]/120:80", "10.0.3.9:80");
    LEAVES("[::ffff:10.0.3.0]/120:80", "10.0.4.9:80");
    TAKES("[::ffff:0:0/96]:80", "1.2.3.4:80");
    TAKES("10.0.3.0/24:80", "[::ffff:a00:301]:80");
}

static void a_zone_counts_only_where_the_pattern_has_one(void **state)
{
    (void)state;
    TAKES("[fe80::1]:80", "[fe80::1%3]:80");
    TAKES("[fe80::1%3]:80", "[fe80::1%3]:80");
    LEAVES("[fe80::1%3]:80", "[fe80::1%4]:80");
    LEAVES("[fe80::1%3]:80", "[fe80::1]:80");
    TAKES("[fe80::%3]/10:80", "[febf::1%3]:80");
}

static void a_port_is_a_number_a_range_a_service_or_any(void **state)
{
    (void)state;
    TAKES("1.1.1.1:1", "1.1.1.1:1");
    TAKES("1.1.1.1:65535", "1.1.1.1:65535");
    TAKES("1.1.1.1:8000-8099", "1.1.1.1:8000");
    TAKES("1.1.1.1:8000-8099", "1.1.1.1:8099");
    LEAVES("1.1.1.1:8000-8099", "1.1.1.1:7999");
    LEAVES("1.1.1.1:8000-8099", "1.1.1.1:8100");
    TAKES("1.1.1.1:80-80", "1.1.1.1:80");
    TAKES("1.1.1.1:*", "1.1.1.1:65535");
    TAKES("1.1.1.1:*", "1.1.1.1:0");
    const struct servent *https = getservbyname("https", "tcp");
    if (https == NULL)
        return; /* a system without /etc/services */
    TAKES("1.1.1.1:https", "1.1.1.1:443");
    LEAVES("1.1.1.1:https", "1.1.1.1:80");
}

static void a_star_takes_every_host_and_address_but_no_path(void **state)
{
    (void)state;
    TAKES("*:443", "1.2.3.4:443");
    TAKES("*:443", "[2001:db8::1]:443");
    LEAVES("*:443", "1.2.3.4:80");
    TAKES("*:*", "[::]:0");
    LEAVES("*:*", "unix:/run/x");
    LEAVES("*:*", "unix:@x");
    struct pattern pattern;
    char why[300];
    assert_true(pattern_parse(&pattern, "*:443", why, sizeof why));
    assert_int_equal(pattern.kind, PATTERN_NETWORK);
    assert_int_equal(pattern.network.family, ENDPOINT_NONE);
    assert_int_equal(pattern.prefix, 0);
    const struct endpoint some_address = {.family = ENDPOINT_NONE, .port = 443};
    assert_true(pattern_takes_endpoint(&pattern, &some_address));
    pattern_release(&pattern);
}

static void a_host_is_known_by_name_in_any_case_with_or_without_its_dot(void **state)
{
    (void)state;
    assert_true(names("payments.internal:443", "payments.internal"));
    assert_true(names("Payments.INTERNAL:443", "payments.internal"));
    assert_true(names("payments.internal:443", "PAYMENTS.internal."));
    assert_true(names("payments.internal.:443", "payments.internal"));
    assert_true(names("localhost:*", "localhost"));
    assert_true(names("a_b-c9:1", "a_b-c9"));
    assert_false(names("payments.internal:443", "payments.internal.."));
    assert_false(names("payments.internal:443", "payments.interna"));
    assert_false(names("payments.internal:443", "payments.internals"));
    assert_false(names("payments.internal:443", "x.payments.internal"));
    assert_false(names("payments.internal:443", ""));
    assert_false(names("1.2.3.4:443", "1.2.3.4")); /* a number is no name */
    LEAVES("localhost:80", "127.0.0.1:80");        /* nor is a name its address */
}

static void a_suffix_takes_any_depth_below_but_not_the_domain_itself(void **state)
{
    (void)state;
    assert_true(names("*.example.com:443", "api.example.com"));
    assert_true(names("*.Example.com.:443", "a.b.EXAMPLE.com."));
    assert_false(names("*.example.com:443", "example.com"));
    assert_false(names("*.example.com:443", ".example.com"));
    assert_false(names("*.example.com:443", "badexample.com"));
    assert_false(names("*.example.com:443", "api.example.com.evil"));
    assert_false(names("*.example.com:443", "com"));
    assert_false(names("*.example.com:443", "."));
    assert_false(names("*.example.com:443", ""));
    LEAVES("*.example.com:443", "1.2.3.4:443");
    assert_true(names("*.:443", "localhost"));
    assert_true(names("*.:443", "api.example.com."));
    assert_true(names("*.:443", "host-1"));
    assert_false(names("*.:443", "127.0.0.1"));
    assert_false(names("*.:443", "::1"));
    assert_false(names("*.:443", "2130706433"));
    assert_false(names("*.:443", "."));
    assert_false(names("*.:443", ""));
    LEAVES("*.:443", "1.2.3.4:443");
}

static void paths_match_like_in_a_shell_without_its_slash_rule(void **state)
{
    (void)state;
    TAKES("unix:/run/x.sock", "unix:/run/x.sock");
    LEAVES("unix:/run/x.sock", "unix:/run/x.sock2");
    TAKES("unix:/run/*.sock", "unix:/run/a/b.sock");
    TAKES("unix:/run/postgresql/.s.PGSQL.*", "unix:/run/postgresql/.s.PGSQL.5432");
    TAKES("unix:/run/*", "unix:/run/.hidden");
    TAKES("unix:run/app.sock", "unix:run/app.sock");
    LEAVES("unix:run/app.sock", "unix:/run/app.sock");
    TAKES("unix:*", "unix:/x");
    LEAVES("unix:*", "unix:@x");
    TAKES("unix:@app-*", "unix:@app-7");
    LEAVES("unix:@app-*", "unix:/app-7");
    LEAVES("unix:/app", "unix:@/app");
    TAKES("unix:@*", "unix:@");
    LEAVES("unix:/run/x", "1.2.3.4:80");
    TAKES("unix:/a b", "unix:/a b");
    TAKES("unix:/a\\ b", "unix:/a b");
}

static void globs_match_what_they_say(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *text;
        bool matches;
    } globs[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "abc", true},
        {"?", "", false},
        {"?", "a", true},
        {"?", "ab", false},
        {"a*c", "abbbc", true},
        {"a*c", "abcb", false},
        {"a*b*c", "a1b2b3c", true},
        {"**", "x", true},
        {"*a", "aaab", false},
        {"[abc]", "b", true},
        {"[abc]", "d", false},
        {"[!abc]", "d", true},
        {"[^abc]", "a", false},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[]x]", "]", true},
        {"[!]x]", "]", false},
        {"[a-]", "-", true},
        {"[a\\]b]", "]", true},
        {"[\\a-c]", "b", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"\\?x", "?x", true},
        {"[ab", "[ab", true},
        {"[ab", "a", false},
        {"*[0-9]", "ab7", true},
        {"*[0-9]", "ab", false},
        {"\\", "\\", true},
        {"[c-a]", "b", false},
        {"[a-c-e]", "-", true},
        {"*.s", ".s", true},
        {"\xc3\xa9*", "\xc3\xa9t", true},
    };
    for (size_t i = 0; i < sizeof globs / sizeof *globs; i++) {
        if (glob_match(globs[i].glob, globs[i].text) != globs[i].matches)
            fail_msg("`%s` and `%s`", globs[i].glob, globs[i].text);
    }
}

static void random_globs_match_as_fnmatch_says(void **state)
{
    (void)state;
    static const char in_globs[] = "aab*?\\[]-!c", in_texts[] = "aabc-]";
    unsigned int seed = 20, matched = 0;
    for (unsigned int round = 0; round < 200000; round++) {
        char glob[9], text[7];
        const unsigned int glob_length = (unsigned int)rand_r(&seed) % 8, text_length = (unsigned int)rand_r(&seed) % 6;
        for (unsigned int i = 0; i < glob_length; i++)
            glob[i] = in_globs[(unsigned int)rand_r(&seed) % (sizeof in_globs - 1)];
        for (unsigned int i = 0; i < text_length; i++)
            text[i] = in_texts[(unsigned int)rand_r(&seed) % (sizeof in_texts - 1)];
        glob[glob_length] = text[text_length] = '\0';
        if (glob_complaint(glob) != NULL)
            continue;
        const bool expected = fnmatch(glob, text, 0) == 0;
        if (glob_match(glob, text) != expected)
            fail_msg("`%s` and `%s`", glob, text);
        matched += expected;
    }
    assert_true(matched > 1000);
}

static void a_wicked_glob_ends_soon(void **state)
{
    (void)state;
    char glob[109], text[109];
    for (size_t i = 0; i < 108; i++) {
        glob[i] = i % 2 == 0 ? '*' : 'a';
        text[i] = 'a';
    }
    glob[107] = 'b';
    glob[108] = text[108] = '\0';
    assert_false(glob_match(glob, text));
}

static void what_is_no_pattern_is_told_with_a_remedy(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"", "no port"},
        {"*", "write `*:*`"},
        {"example.com", "`example.com:443`|`example.com:*`"},
        {"10.0.0.0/8", "`10.0.0.0/8:443`"},
        {"[::1]", "`[::1]:443`"},
        {"[::1]/64", "no port"},
        {"example.com:", "port is missing"},
        {":443", "host is missing|`*`"},
        {"a:0", "`0`|1 and 65535"},
        {"a:65536", "1 and 65535"},
        {"a:99999", "1 and 65535"},
        {"a:4294967377", "1 and 65535"},
        {"a:-1", "range"},
        {"a:1-", "range"},
        {"a:0-5", "1 to 65535"},
        {"a:1-65536", "1 to 65535"},
        {"a:1-2-3", "range"},
        {"a:123456789-5", "range"},
        {"a:8099-8000", "wrong way round|`8000-8099`"},
        {"a:no-such-service", "no TCP service `no-such-service`|number"},
        {"a:**", "no TCP service"},
        {"2001:db8::1", "`[2001:db8::1]:443`"},
        {"::1:80", "`[::1:80]:443`"},
        {"fe80::1::2:80", "more than one `:`"},
        {"2001:db8:1:2:3:4:5:6:443", "`[2001:db8:1:2:3:4:5:6]:443`"},
        {"[::1:443", "no `]`"},
        {"[::1]x:443", "neither"},
        {"[::1]443:", "neither"},
        {"[1.2.3.4]:80", "`1.2.3.4` is no IPv6 address"},
        {"[example.com]:80", "no IPv6 address"},
        {"[::1/129]:80", "between 0 and 128"},
        {"[::1]/:80", "between 0 and 128"},
        {"[::/0]/0:80", "two prefix lengths"},
        {"[fe80::1%eth0]:80", "zone `%eth0`"},
        {"[2001:db8::1]/32:80", "`2001:db8::/32`"},
        {"[::ffff:10.0.3.7]/120:80", "`::ffff:10.0.3.0/120`"},
        {"10.0.3.7/24:80", "`10.0.3.7/24`|`10.0.3.0/24`"},
        {"10.0.0.1/0:80", "`0.0.0.0/0`"},
        {"10.0.0.0/33:80", "between 0 and 32"},
        {"10.0.0.0/:80", "between 0 and 32"},
        {"10.0.0.0/8/8:80", "between 0 and 32"},
        {"10.0.0.0/0000:80", "between 0 and 32"},
        {"host/24:80", "`host` is no IPv4 address"},
        {"10.0.3:80", "`10.0.3` is no IPv4 address"},
        {"300.1.1.1:80", "no IPv4 address"},
        {"010.0.0.1:80", "no IPv4 address"},
        {"1.2.3.4.5:80", "no IPv4 address"},
        {"*.3:80", "no IPv4 address"},
        {"a..b:80", "empty part"},
        {".a:80", "empty part"},
        {".:80", "empty part"},
        {"a.b..:80", "empty part"},
        {"api-*.example.com:443", "only at its front|`*.example.com:443`"},
        {"*example.com:443", "only at its front"},
        {"a.*:443", "only at its front"},
        {"*.*.com:443", "only at its front"},
        {"caf\xc3\xa9.fr:80", "xn--"},
        {"a b:80", "blank"},
        {"\"a\":80", "`\"` can't be"},
        {"a@b:80", "`@` can't be"},
        {"https://example.com/", "URL|`HOST:PORT`"},
        {"/run/x.sock", "`unix:/run/x.sock`"},
        {"@name", "`unix:@name`"},
        {"unix:", "path is missing"},
        {"unix:/a[b", "no `]`"},
        {"unix:/a\\", "single backslash"},
        {"unix:/a[[:digit:]]", "`[0-9]`"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pattern pattern;
        char why[300] = "", copy[128], *place;
        if (pattern_parse(&pattern, bad[i][0], why, sizeof why))
            fail_msg("`%s` was taken for a pattern", bad[i][0]);
        assert_null(pattern.text);
        assert_null(pattern.host);
        snprintf(copy, sizeof copy, "%s", bad[i][1]);
        for (char *word = strtok_r(copy, "|", &place); word != NULL; word = strtok_r(NULL, "|", &place)) {
            if (strstr(why, word) == NULL)
                fail_msg("`%s`: no `%s` in: %s", bad[i][0], word, why);
        }
    }
}

static void names_of_all_lengths_that_dns_has_are_taken(void **state)
{
    (void)state;
    struct pattern pattern;
    char why[300], text[300];
    memset(text, 'a', sizeof text);
    text[63] = text[127] = text[191] = '.';
    strcpy(text + 253, ":1");
    assert_true(pattern_parse(&pattern, text, why, sizeof why));
    pattern_release(&pattern);
    strcpy(text + 254, ":1");
    text[253] = 'a';
    assert_false(pattern_parse(&pattern, text, why, sizeof why));
    assert_non_null(strstr(why, "254 bytes; 253"));
    text[63] = 'a';
    strcpy(text + 200, ":1");
    assert_false(pattern_parse(&pattern, text, why, sizeof why));
    assert_non_null(strstr(why, "127 bytes; 63"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_takes_itself_on_its_port),
        cmocka_unit_test(a_network_takes_what_its_prefix_covers),
        cmocka_unit_test(mapped_addresses_are_ipv4_on_both_sides),
        cmocka_unit_test(a_zone_counts_only_where_the_pattern_has_one),
        cmocka_unit_test(a_port_is_a_number_a_range_a_service_or_any),
        cmocka_unit_test(a_star_takes_every_host_and_address_but_no_path),
        cmocka_unit_test(a_host_is_known_by_name_in_any_case_with_or_without_its_dot),
        cmocka_unit_test(a_suffix_takes_any_depth_below_but_not_the_domain_itself),
        cmocka_unit_test(paths_match_like_in_a_shell_without_its_slash_rule),
        cmocka_unit_test(globs_match_what_they_say),
        cmocka_unit_test(random_globs_match_as_fnmatch_says),
        cmocka_unit_test(a_wicked_glob_ends_soon),
        cmocka_unit_test(what_is_no_pattern_is_told_with_a_remedy),
        cmocka_unit_test(names_of_all_lengths_that_dns_has_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
