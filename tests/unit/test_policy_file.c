/* The form of a policy file: sections, lines and their numbers, odd bytes, odd files. */
#include "support_breaker.h"
#include "support_policy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LOAD(loaded, literal) load_bytes(loaded, literal, sizeof literal - 1, NULL)

static void a_whole_policy_is_read_in_order(void **state)
{
    (void)state;
    struct policy *policy = good_policy("# a comment\n"
                                        "\n"
                                        "[payments]   # trailing\n"
                                        "match = payments.internal:443 10.0.3.0/24:8443\n"
                                        "\treset_timeout=30s# tight\n"
                                        "[defaults]\n"
                                        "failure_threshold = 3\n"
                                        "  [ 127.0.0.1:5432 ]  \n"
                                        "success = connect\n");
    assert_int_equal(policy->target_count, 2);
    assert_string_equal(policy->targets[0].name, "payments");
    assert_int_equal(policy->targets[0].line, 3);
    assert_int_equal(policy->targets[0].pattern_count, 2);
    assert_string_equal(policy->targets[0].patterns[1].text, "10.0.3.0/24:8443");
    assert_string_equal(policy->targets[1].name, "127.0.0.1:5432");
    assert_int_equal(policy->targets[1].line, 8);
    assert_string_equal(described(&policy->targets[0], "reset_timeout").value, "30s");
    assert_string_equal(described(&policy->targets[0], "reset_timeout").origin, "section");
    /* [defaults] stands behind the section and holds all the same */
    assert_string_equal(described(&policy->targets[0], "failure_threshold").value, "3");
    assert_string_equal(described(&policy->targets[0], "failure_threshold").origin, "[defaults]");
    assert_string_equal(described(&policy->targets[0], "match").origin, "section");
    policy_free(policy);
}

static void faults_of_form_are_told_with_their_line_and_remedy(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned int line;
        const char *fragments;
    } faults[] = {
        {"[a:1\n", 1, "`[a:1`|`]` is missing"},
        {"\n[a:1] b\n", 2, "text behind the section's `]`"},
        {"[::1]:443\n", 1, "`[[::1]:443]`"},
        {"[]\n", 1, "no name|`[TARGET]`"},
        {"[  ]\n", 1, "no name"},
        {"[a\033[1m:1]\n", 1, "control character"},
        {"[Defaults]\n", 1, "did you mean `[defaults]`?"},
        {"[payments]\nmode = off\n", 1, "no `match`|no pattern|`match = HOST:PORT`"},
        {"[pay:ments:1]\n", 1, "no `match`|more than one `:`"},
        {"[a:1]\nmode off\n", 2, "no `=`|write `mode = off`"},
        {"[a:1]\nmode: off\n", 2, "write `mode = off`"},
        {"[a:1]\nmode\n", 2, "expected `KEY = VALUE` or `[TARGET]`"},
        {"[a:1]\nhello world\n", 2, "`hello world`|expected `KEY = VALUE`"},
        {"[a:1]\n= 3\n", 2, "key is missing"},
        {"[a:1]\nmode =\n", 2, "`mode` has no value"},
        {"[a:1]\nmode = # off\n", 2, "`mode` has no value"},
        {"[a:1]\nmatch =\n", 2, "`match` has no value"},
        {"[a:1]\nmode = off \\ \n", 2, "very last character"},
        {"mode = off\n[a:1]\n", 1, "before the first section|`[defaults]`"},
        {"colour = red\n[a:1]\n", 1, "before the first section"},
        {"[a:1]\n[b:1]\n\n[a:1]\n", 4, "`[a:1]` again|line 1"},
        {"[defaults]\nmode = off\n[a:1]\n[defaults]\nmode = off\n", 4, "`[defaults]` again|line 1"},
        {"[defaults]\nmatch = a:1\n[a:1]\n", 2, "can't stand in `[defaults]`"},
        {"[a:1]\nmode = off\njitter = 1%\nmode = off\n", 4, "`mode` again|line 2"},
        {"[x]\nmatch = a:1\nmatch = b:1\n", 3, "`match` again|line 2|separated by blanks"},
        {"[x]\nmatch = a:1, b:1\n", 2, "not by commas"},
        {"[a:1]\nmode = offf", 2, "did you mean `off`?"},
        {"# a\n# b\n[a:1]\n# c\n#d\nmode = x\n", 6, "`x` is not known"},
        {"# a\n#b\n[a:1\n", 3, "`]` is missing"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        expect_error(faults[i].text, faults[i].line, faults[i].fragments);
}

static void the_first_of_three_equal_sections_is_named(void **state)
{
    (void)state;
    struct loaded loaded;
    load_text(&loaded, "[b:1]\n[a:1]\n[b:1]\n[a:1]\n[b:1]\n", NULL);
    static const unsigned int lines[] = {3, 4, 5}, first[] = {1, 2, 1};
    assert_int_equal(loaded.problems.count, 3);
    for (size_t i = 0; i < 3; i++) {
        char place[32];
        snprintf(place, sizeof place, "in line %u", first[i]);
        assert_int_equal(loaded.problems.at[i].line, lines[i]);
        assert_non_null(strstr(loaded.problems.at[i].text, place));
    }
    unload(&loaded);
}

static void all_faults_are_told_in_the_order_of_lines(void **state)
{
    (void)state;
    struct loaded loaded;
    load_text(&loaded,
              "[a:1]\nmode = x\nwindow = 3\n[nothing]\ncolour = red\n[b:1]\nprobe_timeout = 1s\n"
              "connect_timeout = 2s\nmatch = 1:2:3 4.5:6\n",
              (const char *const[]){"jitter=x", NULL});
    static const unsigned int lines[] = {0, 2, 3, 4, 5, 7, 9, 9};
    assert_int_equal(loaded.problems.count, 8);
    assert_int_equal(loaded.problems.errors, 7);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(loaded.problems.at[i].line, lines[i]);
        assert_int_equal(loaded.problems.at[i].is_error, lines[i] != 7);
    }
    assert_non_null(strstr(loaded.problems.at[6].text, "`1:2:3`")); /* in the order of the words */
    assert_non_null(strstr(loaded.problems.at[7].text, "`4.5:6`"));
    assert_null(loaded.policy);
    unload(&loaded);
}

static void a_name_too_long_for_a_target_needs_a_match(void **state)
{
    (void)state;
    char name[TARGET_NAME_MAX + 1], text[2 * TARGET_NAME_MAX + 32];
    memset(name, 'a', sizeof name);
    memcpy(name + 62, ".", 1);
    strcpy(name + TARGET_NAME_MAX - 3, ":1");
    snprintf(text, sizeof text, "[%s]\n", name);
    struct policy *policy = good_policy(text);
    assert_string_equal(policy->targets[0].name, name);
    policy_free(policy);
    snprintf(text, sizeof text, "[%s0]\n", name);
    expect_error(text, 1, "more than 127 bytes|`match`");
}

static void continued_lines_count_and_their_words_know_their_own_line(void **state)
{
    (void)state;
    struct policy *policy = good_policy("# one\n# two\n[x]\nmatch = a:10 \\\n  a:1 ab:2 \\\n\tb:2 \\\n"
                                        "   unix:/run/\\#x # end\nmode = off\n[y:1]\n");
    static const unsigned int lines[] = {4, 5, 5, 6, 7};
    assert_int_equal(policy->targets[0].pattern_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(policy->targets[0].patterns[i].line, lines[i]);
    assert_string_equal(policy->targets[0].patterns[4].text, "unix:/run/#x");
    assert_int_equal(policy->targets[1].line, 9);
    policy_free(policy);
    expect_error("[x]\nmatch = a:1 \\\n  b \\\n  c:1\n", 3, "pattern `b`|no port");
    expect_error("# c\n\n# d\n[x:1]\n# e\n\n# f\nmatch = a:1 \\\n  b:1\nmode = x\n", 10, "`x` is not known");
    expect_error("[x:1]\nmode \\\n = \\\n o\\\nn\n", 2, "`on` is not known");
    expect_error("[x]\nmatch = a:1\nmode = \\", 3, "no value");
    expect_error("[a:1]\nmode = x # \\\njitter = 1%\n", 2, "`x` is not known");
}

static void a_hash_in_a_path_is_written_with_a_backslash(void **state)
{
    (void)state;
    struct policy *policy = good_policy("[x]\nmatch = unix:/a\\#b unix:/c\\*d unix:/e\\ f # not this:1\n"
                                        "[y]\nmatch = unix:/g\\\\\n");
    assert_int_equal(policy->target_count, 2);
    assert_int_equal(policy->targets[0].pattern_count, 3);
    struct policy_match match;
    struct endpoint endpoint = endpoint_of("unix:/a#b");
    assert_true(policy_match(policy, &endpoint, NULL, 0, &match));
    endpoint = endpoint_of("unix:/c*d");
    assert_true(policy_match(policy, &endpoint, NULL, 0, &match));
    endpoint = endpoint_of("unix:/c/d");
    assert_false(policy_match(policy, &endpoint, NULL, 0, &match));
    endpoint = endpoint_of("unix:/e f");
    assert_true(policy_match(policy, &endpoint, NULL, 0, &match));
    endpoint = endpoint_of("unix:/g\\"); /* two backslashes at a line's end are one, and continue nothing */
    assert_true(policy_match(policy, &endpoint, NULL, 0, &match));
    assert_string_equal(described(&policy->targets[0], "match").value, "unix:/a\\#b unix:/c\\*d unix:/e\\ f");
    policy_free(policy);
}

static void what_is_written_back_reads_the_same(void **state)
{
    (void)state;
    static const char *const keys[] = {"match", "mode", "jitter", "backoff_multiplier", "response_timeout", "failures"};
    struct policy *first = good_policy("[x]\nmatch = unix:/a\\#b unix:/c\\ d *.x:https [::1]:1-2\nmode = observe\n"
                                       "jitter = 0.5%\nbackoff_multiplier = 1.25\nresponse_timeout = 2.5s\n"
                                       "failures = reset response-timeout\n");
    char text[32768] = "[x]\n";
    for (size_t i = 0; i < 6; i++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s = %s\n", keys[i],
                 described(&first->targets[0], keys[i]).value);
    }
    struct policy *second = good_policy(text);
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(described(&second->targets[0], keys[i]).value,
                            described(&first->targets[0], keys[i]).value);
    policy_free(first);
    policy_free(second);
}

static void lines_of_windows_and_of_editors_are_read(void **state)
{
    (void)state;
    struct policy *policy = good_policy("\xef\xbb\xbf# caf\xc3\xa9\r\n[caf\xc3\xa9]\r\nmatch = a:1 \\\r\n b:2\r\n"
                                        "mode\t=\toff\r\n\r\n[b:1]\r");
    assert_int_equal(policy->target_count, 2);
    assert_string_equal(policy->targets[0].name, "caf\xc3\xa9");
    assert_int_equal(policy->targets[0].pattern_count, 2);
    assert_int_equal(policy->targets[0].mode, MODE_OFF);
    assert_int_equal(policy->targets[1].line, 7);
    policy_free(policy);
    expect_error("[a:1]\r\nmode = no\r\n", 2, "`no` is not known");
    expect_error("\xef\xbb\xbfmode = off\n[a:1]\n", 1, "key `mode` stands before");
}

static void zero_bytes_and_other_encodings_are_no_text(void **state)
{
    (void)state;
    struct loaded loaded;
    LOAD(&loaded, "[a:1]\nmo\0de = off\n");
    expect_problem_of(&loaded, true, 2, "zero byte|UTF-8");
    unload(&loaded);
    LOAD(&loaded, "\xff\xfe[\0a\0:\0001\0]\0\n\0");
    assert_true(loaded.problems.errors > 0);
    assert_int_equal(loaded.problems.at[0].line, 1);
    unload(&loaded);
    /* what is shown of a file can't move the reader's cursor, and no character is cut in half */
    expect_error("[a:1]\n\x1b[2Jcolour = \x07\n", 2, "`?[2Jcolour`");
    char text[1000] = "[a:1]\nm";
    for (size_t i = 0; i < 400; i++)
        strcat(text, "\xc3\xa9");
    load_text(&loaded, text, NULL);
    assert_int_equal(loaded.problems.count, 1);
    for (const char *at = loaded.problems.at[0].text; *at != '\0'; at++)
        assert_true((unsigned char)*at != 0xc3 || (unsigned char)at[1] == 0xa9);
    unload(&loaded);
}

static void a_file_without_targets_is_a_warning(void **state)
{
    (void)state;
    expect_warning("", 0, "no targets");
    expect_warning("# nothing", 0, "no targets");
    expect_warning("\xef\xbb\xbf", 0, "no targets");
    expect_warning("[defaults]\nmode = off\n", 0, "no targets");
    struct loaded loaded;
    loaded.policy = policy_load("/dev/null", NULL, &loaded.problems);
    expect_problem_of(&loaded, false, 0, "no targets");
    unload(&loaded);
}

static void expect_unreadable(const char *path, const char *fragments)
{
    struct loaded loaded = {.policy = policy_load(path, NULL, &loaded.problems)};
    expect_problem_of(&loaded, true, 0, fragments);
    assert_null(loaded.policy);
    unload(&loaded);
}

static void what_is_no_file_is_told_and_nobody_waits_for_it(void **state)
{
    (void)state;
    char folder[] = "/tmp/sockfuse-folder-XXXXXX", fifo[64];
    assert_non_null(mkdtemp(folder));
    expect_unreadable(folder, "can't read|Is a directory");
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    expect_unreadable(fifo, "No such file");
    expect_unreadable("", "No such file");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_unreadable(fifo, "pipe");
    unlink(fifo);
    assert_int_equal(symlink("fifo", fifo), 0);
    expect_unreadable(fifo, "symbolic links");
    unlink(fifo);
    expect_unreadable("/dev/zero", "16 MiB");
    rmdir(folder);
}

static int lowest_free_descriptor(void)
{
    const int fd = dup(1);
    close(fd);
    return fd;
}

static void no_descriptor_is_left_behind_even_where_standard_input_is_closed(void **state)
{
    (void)state;
    const int saved = dup(0);
    close(0);
    struct policy *policy = good_policy("[a:1]\n");
    assert_int_equal(lowest_free_descriptor(), 0);
    policy_free(policy);
    expect_unreadable("/", "directory");
    expect_error("[a:1]\nmode = x\n", 2, "not known");
    assert_int_equal(lowest_free_descriptor(), 0);
    assert_int_equal(dup2(saved, 0), 0);
    close(saved);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static char *many_sections(char *at, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        at += sprintf(at, "[host-%u.example.com:443]\nreset_timeout = %us\n", i, i % 50 + 1);
    return at;
}

/* One section with as many patterns, in one line or in as many. */
static char *many_patterns(char *at, unsigned int count, const char *format)
{
    at += sprintf(at, "[many]\nmatch = first:1");
    for (unsigned int i = 0; i < count; i++)
        at += sprintf(at, format, i >> 8, i & 255);
    return at + sprintf(at, "\n");
}

static uint64_t time_to_read(const char *text)
{
    const uint64_t start = cpu_ns();
    struct policy *policy = good_policy(text);
    struct policy_problems problems = {0};
    policy_check_order(policy, &problems);
    const uint64_t took = cpu_ns() - start;
    policy_problems_free(&problems);
    policy_free(policy);
    return took;
}

/* Measured side by side, for machines and sanitizers differ: twenty times the text takes about twenty times as long,
 * or some times that where the smaller one fits a cache, or a sanitizer keeps what was freed. */
static void expect_linear_time(const char *few, const char *many)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    /* They look at all of a string whenever a part of it is searched: then a long line takes quadratic time. */
    time_to_read(few);
    (void)many;
    return;
#endif
    uint64_t least_few = UINT64_MAX, least_many = UINT64_MAX;
    for (unsigned int round = 0; round < 5; round++) {
        const uint64_t took_few = time_to_read(few), took_many = time_to_read(many);
        least_few = took_few < least_few ? took_few : least_few;
        least_many = took_many < least_many ? took_many : least_many;
    }
    assert_true(least_many < 150 * least_few); /* a quadratic search takes four hundred times as long */
}

static void many_patterns_of_a_section_are_read_in_linear_time(void **state)
{
    (void)state;
    static const char *const formats[] = {" 10.%u.%u.1:80",
                                          " 10.%u.%u.0/24:80",
                                          " \\\n host-%u-%u.example.com:1-80",
                                          " \\\n*.host-%u-%u.example.com:80",
                                          " \\\n  unix:/run/a\\#%u-%u",
                                          " unix:/run/%u-%u-*",
                                          " unix:/run/%u-%u/?"};
    char *few = malloc(2000000), *many = malloc(2000000);
    assert_non_null(few);
    assert_non_null(many);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        many_patterns(few, 1000, formats[i]);
        many_patterns(many, 20000, formats[i]);
        expect_linear_time(few, many);
    }
    free(few);
    free(many);
}

static void ten_thousand_lines_are_read_in_linear_time(void **state)
{
    (void)state;
    char *text = malloc(2000000), *few = malloc(200000);
    assert_non_null(text);
    assert_non_null(few);
    many_sections(few, 250);
    char *at = many_sections(text, 5000);
    expect_linear_time(few, text);
    free(few);
    struct policy *policy = good_policy(text);
    assert_int_equal(policy->target_count, 5000);
    assert_int_equal(policy->targets[4999].line, 9999);
    policy_free(policy);
    sprintf(at, "mode = x");
    expect_error(text, 10001, "`x` is not known");
    free(text);
}

static void a_file_that_is_no_policy_has_so_many_errors_and_no_more(void **state)
{
    (void)state;
    char *text = calloc(10001, 10);
    for (unsigned int i = 0; i < 10000; i++)
        memcpy(text + 9 * i, "nonsense\n", 9);
    struct loaded loaded;
    load_text(&loaded, text, NULL);
    assert_int_equal(loaded.problems.errors, 10000);
    assert_int_equal(loaded.problems.count, 200);
    unload(&loaded);
    free(text);
}

/* A backslash in one line makes all of them be read by fparseln. */
static void a_policy_is_read_alike_with_fparseln_and_without(void **state)
{
    static const char *const parts[] = {
        "[a]", "[b", "]",         "match",      " = ", "10.0.0.1:1", "#",
        "# x", "\n", "\n",        "\n",         " ",   "\t",         "failure_threshold",
        "=",   "3",  "jitter=5%", "[defaults]", "\r",  "\r\n"};
    (void)state;
    uint64_t random = 7;
    for (unsigned int round = 0; round < 3000; round++) {
        char text[512] = "", other[600];
        for (uint64_t left = breaker_random(&random) % 40; left > 0; left--)
            strcat(text, parts[breaker_random(&random) % (sizeof parts / sizeof *parts)]);
        snprintf(other, sizeof other, "%s\n[last]\nmatch = unix:/%s\n", text, "a");
        strcat(text, "\n[last]\nmatch = unix:/\\a\n");
        struct policy_problems plain, escaped;
        struct policy *one = policy_from_text("/x.policy", other, 1, &plain);
        struct policy *two = policy_from_text("/x.policy", text, 1, &escaped);
        assert_int_equal(one == NULL, two == NULL);
        assert_int_equal(plain.count, escaped.count);
        for (size_t i = 0; i < plain.count; i++) {
            assert_int_equal(plain.at[i].line, escaped.at[i].line);
            if (strcmp(plain.at[i].text, escaped.at[i].text) != 0)
                fail_msg("%s: %s / %s", other, plain.at[i].text, escaped.at[i].text);
        }
        for (size_t i = 0; one != NULL && i < one->target_count; i++) {
            assert_string_equal(one->targets[i].name, two->targets[i].name);
            assert_int_equal(one->targets[i].line, two->targets[i].line);
            assert_int_equal(one->targets[i].keys_set, two->targets[i].keys_set);
            assert_int_equal(one->targets[i].pattern_count, two->targets[i].pattern_count);
        }
        policy_free(one);
        policy_free(two);
        policy_problems_free(&plain);
        policy_problems_free(&escaped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_policy_is_read_in_order),
        cmocka_unit_test(faults_of_form_are_told_with_their_line_and_remedy),
        cmocka_unit_test(the_first_of_three_equal_sections_is_named),
        cmocka_unit_test(all_faults_are_told_in_the_order_of_lines),
        cmocka_unit_test(a_name_too_long_for_a_target_needs_a_match),
        cmocka_unit_test(continued_lines_count_and_their_words_know_their_own_line),
        cmocka_unit_test(a_hash_in_a_path_is_written_with_a_backslash),
        cmocka_unit_test(what_is_written_back_reads_the_same),
        cmocka_unit_test(lines_of_windows_and_of_editors_are_read),
        cmocka_unit_test(zero_bytes_and_other_encodings_are_no_text),
        cmocka_unit_test(a_file_without_targets_is_a_warning),
        cmocka_unit_test(what_is_no_file_is_told_and_nobody_waits_for_it),
        cmocka_unit_test(no_descriptor_is_left_behind_even_where_standard_input_is_closed),
        cmocka_unit_test(many_patterns_of_a_section_are_read_in_linear_time),
        cmocka_unit_test(ten_thousand_lines_are_read_in_linear_time),
        cmocka_unit_test(a_file_that_is_no_policy_has_so_many_errors_and_no_more),
        cmocka_unit_test(a_policy_is_read_alike_with_fparseln_and_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
