/*
 * test_check_commands.c - what `sockfuse check` says of the commands that a policy names for the agent.
 *
 * links: command
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/check_commands.h"
#include "support_policy.h"

struct place {
    char folder[32], said[2048];
};

static void write_command(const struct place *place, const char *name, mode_t mode)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int make_place(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->folder, "/tmp/sf-commands.XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    write_command(place, "good", 0755);
    write_command(place, "plain", 0644);
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    char path[64];
    const char *const names[] = {"good", "plain", "said"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", place->folder, names[i]);
        unlink(path);
    }
    rmdir(place->folder);
    free(place);
    return 0;
}

/* What it warns of; `@` of the text is the place's folder. */
static const char *warnings(struct place *place, const char *text)
{
    char path[64], policy_text[1024], *at = policy_text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from == '@')
            at = stpcpy(at, place->folder);
        else
            *at++ = *from;
    }
    *at = '\0';
    struct policy *policy = good_policy(policy_text);
    snprintf(path, sizeof path, "%s/said", place->folder);
    const int said = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), kept = dup(STDERR_FILENO);
    assert_true(said >= 0 && kept >= 0);
    dup2(said, STDERR_FILENO);
    check_commands("shop.policy", policy);
    dup2(kept, STDERR_FILENO);
    const ssize_t length = pread(said, place->said, sizeof place->said - 1, 0);
    assert_true(length >= 0);
    place->said[length] = '\0';
    close(said);
    close(kept);
    policy_free(policy);
    return place->said;
}

static unsigned int lines_of(const char *text)
{
    unsigned int lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static void of_commands_that_are_here_nothing_is_said(void **state)
{
    assert_string_equal(warnings(*state, "[a]\nmatch = 127.0.0.1:80\n"), "");
    assert_string_equal(warnings(*state, "[a]\nmatch = 127.0.0.1:80\nalert = @/good to me\n"
                                         "health_check = command @/good\n"),
                        "");
    assert_string_equal(warnings(*state, "[a]\nmatch = 127.0.0.1:80\nalert = sh -c true\nhealth_check = connect\n"),
                        "");
}

static void a_command_that_is_missing_is_told_with_its_place(void **state)
{
    const char *said = warnings(*state, "[a]\nmatch = 127.0.0.1:80\nalert = @/none\n");
    assert_non_null(strstr(said, "shop.policy:1: warning: `alert` of [a]: there is no command /tmp/"));
    assert_non_null(strstr(said, "/none; its full path is expected\n"));
    said = warnings(*state, "[a]\nmatch = 127.0.0.1:80\nhealth_check = command no-such-command -q\n");
    assert_non_null(strstr(said, "`health_check` of [a]: there is no command no-such-command in /"));
    assert_non_null(strstr(said, "where the agent looks; name it by its full path\n"));
}

static void what_is_no_program_is_told_with_the_reason(void **state)
{
    const char *said = warnings(*state, "[a]\nmatch = 127.0.0.1:80\nalert = @/plain\n");
    assert_non_null(strstr(said, "/plain can't be executed: Permission denied; chmod +x makes it a command\n"));
    said = warnings(*state, "[a]\nmatch = 127.0.0.1:80\nalert = @\n");
    assert_non_null(strstr(said, "can't be executed: Permission denied"));
    said = warnings(*state, "[a]\nmatch = 127.0.0.1:80\nalert = @/good/below\n");
    assert_non_null(strstr(said, "/good/below; its full path is expected\n"));
}

static void what_all_targets_have_of_the_defaults_is_told_once(void **state)
{
    const char *said = warnings(*state, "[defaults]\nalert = @/none\n[a]\nmatch = 127.0.0.1:80\n"
                                        "[b]\nmatch = 127.0.0.1:81\n[c]\nmatch = 127.0.0.1:82\nalert = @/other\n");
    assert_int_equal(lines_of(said), 2);
    assert_non_null(strstr(said, "of [a]: "));
    assert_non_null(strstr(said, "of [c]: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_commands_that_are_here_nothing_is_said),
        cmocka_unit_test(a_command_that_is_missing_is_told_with_its_place),
        cmocka_unit_test(what_is_no_program_is_told_with_the_reason),
        cmocka_unit_test(what_all_targets_have_of_the_defaults_is_told_once),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
