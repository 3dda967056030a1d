/*
 * test_differential.c - without failures, the same program does the same to the byte, under every kind of policy.
 *
 * A play (differential/) makes calls by chance, from a seed, and writes a line of each. It runs without the library and
 * with it, under several policies, and the lines are compared. SEEDS is how many seeds are played (default 30), SEED
 * the first one (default 1); a difference names its seed, and `SEED=n SEEDS=1` plays it again. SHOW=1 writes all lines.
 */
/* links: core */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "differential/player.h"

#define SEEDS_BY_DEFAULT 30
#define OUTPUT (1 << 20)

#define NEVER_OPENS "[defaults]\nfailure_threshold = 60000\nfailure_rate = 0%\n"
#define EVERYTHING "match = *:* unix:*\n"

/* Each is a scene of its own, and so has a policy's file and circuits of its own. */
static const struct setting {
    const char *name, *policy;
} settings[] = {
    {"without", NULL},
    {"tracks-nothing", "[nowhere]\nmatch = 192.0.2.1:9\n"},
    {"tracks-everything", NEVER_OPENS "[everything]\n" EVERYTHING},
    {"observes", "[everything]\nmode = observe\nfailure_threshold = 1\nrecord = all\n" EVERYTHING},
    {"measures-answers",
     NEVER_OPENS "[everything]\ncircuit = address\nresponse_timeout = 1m\nslow_call = 1ms\nslow_call_rate = 0%\n"
                 "http_failures = 400-599\n" EVERYTHING},
    {"limits-waits", NEVER_OPENS "[everything]\nenforce_timeouts = yes\nconnect_timeout = 1m\nresponse_timeout = 1m\n"
                                 "max_connections = 1000\n" EVERYTHING},
    {"one-way", NEVER_OPENS "[everything]\nsuccess = connect\nhttp = off\nscope = process\n"
                            "circuit = target\n" EVERYTHING},
};
#define SETTINGS (sizeof settings / sizeof *settings)

static char lines[SETTINGS][OUTPUT];

static unsigned int number_from(const char *name, unsigned int otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned int)strtoul(text, NULL, 10) : otherwise;
}

/* Into a file, for all settings play side by side. */
static void write_to(void *file)
{
    dup2(*(int *)file, STDOUT_FILENO);
    dup2(*(int *)file, STDERR_FILENO);
}

static pid_t play(const char *seed, const struct setting *setting, int file)
{
    const struct scene_options how = {
        .policy = setting->policy,
        .preload = setting->policy ? NULL : "",
        .arguments = {seed},
        .before = write_to,
        .context = &file,
    };
    return scene_start(setting->name, &how);
}

/* The first line in which they differ. */
static void show_difference(const char *seed, const char *name, const char *expected, const char *seen)
{
    size_t at = 0, line = 0, number = 1;
    while (expected[at] && expected[at] == seen[at])
        if (expected[at++] == '\n') {
            line = at;
            number++;
        }
    print_error("seed %s, line %zu, %s:\n  without: %.*s\n  with:    %.*s\n", seed, number, name,
                (int)strcspn(expected + line, "\n"), expected + line, (int)strcspn(seen + line, "\n"), seen + line);
}

/* Plays a seed under all settings; returns under how many it went otherwise than without the library. */
static unsigned int differences(unsigned int number)
{
    char seed[16];
    int files[SETTINGS], status[SETTINGS];
    pid_t pids[SETTINGS];
    unsigned int different = 0;
    snprintf(seed, sizeof seed, "%u", number);
    for (size_t i = 0; i < SETTINGS; i++) {
        files[i] = memfd_create(settings[i].name, MFD_CLOEXEC);
        CHECK(files[i] >= 0);
        pids[i] = play(seed, &settings[i], files[i]);
    }
    for (size_t i = 0; i < SETTINGS; i++) {
        status[i] = actor_wait(pids[i]);
        ssize_t length = pread(files[i], lines[i], OUTPUT - 1, 0);
        lines[i][length < 0 ? 0 : length] = '\0';
        close(files[i]);
        if (getenv("SHOW"))
            printf("--- %s: status %x\n%s", settings[i].name, (unsigned int)status[i], lines[i]);
        bool same = exited_well(status[i]) && !strcmp(lines[0], lines[i]);
        if (!same) {
            show_difference(seed, settings[i].name, lines[0], lines[i]);
            print_error("  status %x\n", (unsigned int)status[i]);
            different++;
        }
    }
    return different;
}

static void every_program_does_the_same_under_every_policy(void **state)
{
    unsigned int first = number_from("SEED", 1), count = number_from("SEEDS", SEEDS_BY_DEFAULT), different = 0;
    (void)state;
    for (unsigned int i = first; i < first + count; i++)
        different += differences(i);
    assert_int_equal(different, 0);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_program_does_the_same_under_every_policy),
    };
    struct scene scenes[SETTINGS + 1] = {{NULL, NULL}};
    for (size_t i = 0; i < SETTINGS; i++)
        scenes[i] = (struct scene){settings[i].name, player_play};
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
