/*
 * test_cli_top.c - the model of `sockfuse top`: what its page shows at any size, in which order, and what its keys do.
 *
 * No terminal, no segment, no clock. links: command
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cli/top_columns.h"
#include "cli/top_keys.h"
#include "cli/top_list.h"
#include "cli/top_page.h"
#include "policy/keys.h"

#define CIRCUITS 60u
#define NOW_NS (1000 * NS_PER_S)
#define WIDTH_MAX 250
#define HEIGHT_MAX 80

/* --- a scene ------------------------------------------------------------------------------------------------------ */

static struct row rows[CIRCUITS];
static struct top_row all[CIRCUITS];
static struct target target;
static struct top_sight sight;
static struct top_list list;
static struct top_view view;
static struct top_detail detail;
static struct canvas canvas;

/* So many closed circuits, called d0:1, d1:1, … of one policy. */
static void scene(size_t count)
{
    memset(rows, 0, sizeof rows);
    target_set_built_in(&target);
    for (size_t i = 0; i < count; i++) {
        rows[i].called = true;
        rows[i].target = &target;
        rows[i].view.state = CIRCUIT_CLOSED;
        snprintf(rows[i].destination, sizeof rows[i].destination, "d%zu:1", i);
        snprintf(rows[i].target_name, sizeof rows[i].target_name, "%s", rows[i].destination);
        all[i] = (struct top_row){.key = i + 1, .row = &rows[i], .policy = "/etc/shop.policy", .whose = "", .order = i};
    }
    outcomes_free(&sight.outcomes);
    top_list_free(&list);
    free(view.answer);
    canvas_free(&canvas);
    sight = (struct top_sight){
        .rows = all, .row_count = count, .now_ns = NOW_NS, .wall_ns = NOW_NS, .notes = "", .nothing = "Nothing."};
    view = (struct top_view){.interval_ns = NS_PER_S};
    detail = (struct top_detail){.program_names = (char *)""};
    canvas_start(&canvas, 80, 24);
}

static void open_circuit(size_t index)
{
    rows[index].view.state = CIRCUIT_OPEN;
    rows[index].view.retry_in_ns = 4200 * NS_PER_MS;
}

static void wait_in(size_t index, uint32_t calls, uint32_t overdue, uint64_t oldest_ns)
{
    rows[index].waiting = (struct waiting){.calls = calls, .overdue = overdue, .oldest_ns = oldest_ns};
}

static void arrange(void)
{
    top_list_make(&list, &sight, &view);
    top_check_questions(&view, &list);
}

static enum top_action press(uint32_t key)
{
    const int room = top_page_room(&view, canvas.height, sight.row_count);
    const enum top_action action = top_key(&view, key, &list, room > 0 ? (size_t)room : 0);
    arrange();
    return action;
}

static void type(const char *text)
{
    for (; *text != '\0'; text++)
        press((unsigned char)*text);
}

/* A line of the page, of ASCII; what is not becomes '?'. */
static const char *line(int row)
{
    static char text[WIDTH_MAX + 1];
    int length = 0;
    for (int column = 0; column < canvas.width && column < WIDTH_MAX; column++) {
        const struct canvas_cell *cell = canvas_at(&canvas, row, column);
        text[length++] = cell->character < 0x80 ? (char)cell->character : '?';
    }
    while (length > 0 && text[length - 1] == ' ')
        length--;
    text[length] = '\0';
    return text;
}

static void draw_at(int width, int height)
{
    canvas_clear(&canvas, width, height);
    arrange();
    top_page_put(&canvas, &sight, &list, &view, &detail);
}

static void draw(void)
{
    draw_at(canvas.width, canvas.height);
}

/* The line on which that stands; -1: none. */
static int line_with(const char *part)
{
    for (int row = 0; row < canvas.height; row++)
        if (strstr(line(row), part) != NULL)
            return row;
    return -1;
}

static void assert_shown(const char *part)
{
    if (line_with(part) >= 0)
        return;
    for (int row = 0; row < canvas.height; row++)
        print_error("%s\n", line(row));
    fail_msg("no '%s' on the page", part);
}

static void assert_order(const char *names)
{
    char got[4096] = "";
    arrange();
    for (size_t i = 0; i < list.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? " " : "", list.at[i]->row->destination);
    assert_string_equal(got, names);
}

/* --- the order ---------------------------------------------------------------------------------------------------- */

static void the_worst_circuit_comes_first(void **state)
{
    (void)state;
    scene(6);
    wait_in(1, 1, 0, 2 * NS_PER_S);
    wait_in(2, 1, 1, NS_PER_S);
    rows[3].view.state = CIRCUIT_HALF_OPEN;
    open_circuit(4);
    open_circuit(5);
    rows[5].ended = ENDED_PROGRAMS;
    assert_order("d4:1 d3:1 d2:1 d1:1 d0:1 d5:1");
    press('r');
    assert_order("d0:1 d5:1 d1:1 d2:1 d3:1 d4:1");
}

static void each_order_goes_by_what_it_is_called(void **state)
{
    (void)state;
    scene(3);
    rows[1].waits = (struct row_waits){.recent_calls = 90, .recent_span_ns = 60 * NS_PER_S};
    rows[2].waits.recent.p95_ns = 5;
    rows[0].counts[COUNT_REFUSED] = 3;
    rows[2].counts[COUNT_FAILED] = 4;
    wait_in(1, 7, 0, 5);
    wait_in(0, 1, 0, 9);
    static const char *const orders[SORTS] = {
        [SORT_WORST] = "d0:1 d1:1 d2:1",  [SORT_NAME] = "d0:1 d1:1 d2:1",    [SORT_WAITING] = "d1:1 d0:1 d2:1",
        [SORT_OLDEST] = "d0:1 d1:1 d2:1", [SORT_RATE] = "d1:1 d0:1 d2:1",    [SORT_P95] = "d2:1 d0:1 d1:1",
        [SORT_FAILED] = "d2:1 d0:1 d1:1", [SORT_REFUSED] = "d0:1 d1:1 d2:1",
    };
    for (unsigned int sort = 0; sort < SORTS; sort++) {
        enum top_sort named;
        press('1' + sort);
        assert_int_equal(view.sort, sort);
        assert_order(orders[sort]);
        assert_true(top_sort_named(top_sort_name((enum top_sort)sort), &named) && named == (enum top_sort)sort);
    }
    press('s');
    assert_int_equal(view.sort, SORT_WORST);
    press('S');
    assert_int_equal(view.sort, SORT_REFUSED);
    enum top_sort none;
    assert_false(top_sort_named("best", &none));
}

static void names_are_sorted_as_people_count(void **state)
{
    (void)state;
    scene(12);
    press('2');
    arrange();
    assert_string_equal(list.at[2]->row->destination, "d2:1");
    assert_string_equal(list.at[11]->row->destination, "d11:1");
}

/* --- the chosen one ----------------------------------------------------------------------------------------------- */

static void the_one_at_the_top_is_chosen_until_somebody_chooses(void **state)
{
    (void)state;
    scene(3);
    arrange();
    assert_string_equal(top_chosen(&list, &view)->row->destination, "d0:1");
    open_circuit(2);
    arrange();
    assert_string_equal(top_chosen(&list, &view)->row->destination, "d2:1");
    press(TOP_KEY_DOWN);
    assert_string_equal(top_chosen(&list, &view)->row->destination, "d0:1");
    open_circuit(1);
    arrange();
    assert_string_equal(top_chosen(&list, &view)->row->destination, "d0:1");
    assert_int_equal(view.chosen_index, 2);
    press(TOP_KEY_HOME);
    assert_string_equal(top_chosen(&list, &view)->row->destination, "d1:1");
}

static void when_the_chosen_one_is_gone_its_neighbour_is_chosen(void **state)
{
    (void)state;
    scene(3);
    arrange();
    press(TOP_KEY_END);
    sight.row_count = 2;
    arrange();
    assert_string_equal(top_chosen(&list, &view)->row->destination, "d1:1");
    sight.row_count = 0;
    arrange();
    assert_null(top_chosen(&list, &view));
    for (uint32_t key = TOP_KEY_UP; key <= TOP_KEY_END; key++)
        press(key);
    type("ocak");
    draw();
}

static void a_long_list_moves_with_the_chosen_one(void **state)
{
    (void)state;
    scene(CIRCUITS);
    draw();
    assert_shown("d0:1");
    for (unsigned int i = 0; i < CIRCUITS + 3; i++) {
        press('j');
        draw();
        assert_true(line(3 + (int)(view.chosen_index - view.first))[0] == '>');
    }
    assert_int_equal(view.chosen_index, CIRCUITS - 1);
    assert_shown("60 of 60");
    press(TOP_KEY_PAGE_UP);
    draw();
    assert_int_equal(view.chosen_index, CIRCUITS - 1 - 9);
    press('g');
    draw();
    assert_int_equal(view.first, 0);
}

/* What is shown first, of so many in so much room, when that one is chosen and this one was first. */
static size_t first_of(size_t count, size_t room, size_t chosen, size_t first)
{
    const struct top_list some = {.count = count};
    struct top_view seen = {.chosen_index = chosen, .first = first};
    top_scroll(&some, &seen, room);
    return seen.first;
}

static void a_list_moves_no_farther_than_the_chosen_one_asks_and_shows_as_many_as_it_can(void **state)
{
    (void)state;
    assert_int_equal(first_of(10, 4, 2, 5), 2);
    assert_int_equal(first_of(10, 4, 4, 5), 4);
    assert_int_equal(first_of(10, 4, 5, 5), 5);
    assert_int_equal(first_of(10, 4, 6, 2), 3);
    assert_int_equal(first_of(10, 4, 8, 5), 5);
    assert_int_equal(first_of(10, 4, 9, 5), 6);
    assert_int_equal(first_of(10, 4, 9, 9), 6); /* there is more room than was */
    assert_int_equal(first_of(10, 10, 9, 3), 0);
    assert_int_equal(first_of(3, 4, 1, 1), 0);
    assert_int_equal(first_of(10, 0, 7, 2), 2);
    assert_int_equal(first_of(0, 4, 0, 0), 0);
}

/* --- the filter --------------------------------------------------------------------------------------------------- */

static void the_filter_takes_part_of_any_name_and_of_the_state(void **state)
{
    (void)state;
    scene(4);
    strcpy(rows[1].target_name, "Ledger");
    open_circuit(2);
    all[3].policy = "/etc/bank.policy";
    press('/');
    type("ledg");
    assert_order("d1:1");
    draw();
    assert_shown("/ledg   Enter keeps it");
    press(TOP_KEY_ENTER);
    assert_int_equal(view.mode, TOP_LIST);
    draw();
    assert_shown("/ledg, worst first");
    press(TOP_KEY_ESCAPE);
    assert_int_equal(list.count, 4);
    press('/');
    type("opeq");
    assert_int_equal(list.count, 0);
    draw();
    assert_shown("No circuit is called so");
    press(TOP_KEY_BACKSPACE);
    assert_order("d2:1");
    for (unsigned int i = 0; i < 9; i++)
        press(TOP_KEY_BACKSPACE);
    type("bank");
    assert_order("d3:1");
}

static void a_filter_is_whole_characters_and_never_too_long(void **state)
{
    (void)state;
    scene(1);
    press('/');
    press(0xfc);
    press(0x20ac);
    press(0x1f600);
    assert_string_equal(view.filter, "\u00fc\u20ac\U0001f600");
    press(TOP_KEY_BACKSPACE);
    press(TOP_KEY_BACKSPACE);
    assert_string_equal(view.filter, "\u00fc");
    for (unsigned int i = 0; i < 200; i++)
        press(0x20ac);
    assert_true(strlen(view.filter) < TOP_TEXT_MAX && strlen(view.filter) % 3 == 2);
    press(0x1b - 1); /* a control character is no text */
    assert_true(strlen(view.filter) % 3 == 2);
}

/* --- forcing ------------------------------------------------------------------------------------------------------ */

static void a_word_is_said_only_after_both_questions(void **state)
{
    static const struct {
        char key;
        enum forced word;
    } words[] = {{'o', FORCED_OPEN}, {'c', FORCED_CLOSED}, {'a', FORCED_NONE}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        scene(3);
        arrange();
        press(TOP_KEY_DOWN);
        assert_int_equal(press((unsigned char)words[i].key), TOP_NOTHING);
        draw();
        assert_shown("d1:1 ");
        assert_int_equal(view.mode, TOP_HOW_LONG);
        assert_int_equal(press(TOP_KEY_ENTER), TOP_NOTHING);
        draw();
        assert_shown("Sure? y does it");
        assert_shown("No program runs under its policy now");
        assert_int_equal(press('y'), TOP_FORCE);
        assert_int_equal(view.word, words[i].word);
        assert_int_equal(view.for_ns, 0);
        assert_int_equal(view.mode, TOP_LIST);
    }
}

static void any_other_key_leaves_all_as_it_is(void **state)
{
    static const uint32_t keys[] = {'n', 'o', ' ', TOP_KEY_ENTER, TOP_KEY_ESCAPE, TOP_KEY_UP, 'q'};
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        scene(2);
        arrange();
        press('o');
        press(TOP_KEY_ENTER);
        assert_int_equal(press(keys[i]), TOP_NOTHING);
        assert_int_equal(view.mode, TOP_LIST);
    }
    press('o');
    assert_int_equal(press(TOP_KEY_ESCAPE), TOP_NOTHING);
    assert_int_equal(view.mode, TOP_LIST);
    press('a'); /* no time is asked for, so what is typed is no answer */
    press('y');
    assert_int_equal(view.mode, TOP_LIST);
}

static void a_time_is_asked_for_until_it_is_one(void **state)
{
    (void)state;
    scene(1);
    arrange();
    press('c');
    type("soon");
    press(TOP_KEY_ENTER);
    assert_int_equal(view.mode, TOP_HOW_LONG);
    draw();
    assert_shown("That is no time");
    for (unsigned int i = 0; i < 4; i++)
        press(TOP_KEY_BACKSPACE);
    type("90s");
    press(TOP_KEY_ENTER);
    assert_int_equal(view.mode, TOP_SURE);
    draw();
    assert_shown("For 1m30s.");
    assert_int_equal(press('y'), TOP_FORCE);
    assert_int_equal(view.for_ns, 90 * NS_PER_S);
}

static void who_obeys_is_shown_before(void **state)
{
    (void)state;
    scene(1);
    detail.programs = 2;
    detail.program_names = (char *)"pid 12 (curl), 14 (nginx)";
    arrange();
    press('o');
    press(TOP_KEY_ENTER);
    draw();
    assert_shown("2 programs run under its policy, and obey with the next call: pid 12 (curl)");
}

/* Whatever comes to stand in its place must not be forced for it. */
static void a_question_ends_with_its_circuit(void **state)
{
    (void)state;
    for (int questions = 1; questions <= 2; questions++) {
        scene(3);
        arrange();
        press(TOP_KEY_END);
        press('o');
        if (questions == 2)
            press(TOP_KEY_ENTER);
        sight.row_count = 2;
        arrange();
        assert_int_equal(view.mode, TOP_ANSWER);
        draw();
        assert_shown("nothing was done");
        assert_int_equal(press('y'), TOP_NOTHING);
        assert_int_equal(view.mode, TOP_LIST);
    }
}

static void what_came_of_it_is_shown_until_a_key(void **state)
{
    (void)state;
    scene(1);
    arrange();
    top_answer(&view, strdup("d0:1: forced open; reached 3 programs\nd0:1: not reached: pid 7 (x), for it is off\n"));
    draw();
    assert_shown("reached 3 programs");
    assert_shown("not reached: pid 7");
    assert_int_equal(press('q'), TOP_NOTHING);
    assert_int_equal(press('q'), TOP_QUIT);
}

/* Whatever is pressed while circuits come, go and change: all fits the page, and a word needs its two answers. */
static void any_keys_in_any_order_are_borne(void **state)
{
    static const uint32_t keys[] = {'j',
                                    'k',
                                    'g',
                                    'G',
                                    's',
                                    'S',
                                    'r',
                                    '/',
                                    '?',
                                    'n',
                                    'o',
                                    'c',
                                    'a',
                                    'y',
                                    'm',
                                    '1',
                                    '8',
                                    ' ',
                                    'q',
                                    0x20ac,
                                    TOP_KEY_UP,
                                    TOP_KEY_DOWN,
                                    TOP_KEY_PAGE_UP,
                                    TOP_KEY_PAGE_DOWN,
                                    TOP_KEY_HOME,
                                    TOP_KEY_END,
                                    TOP_KEY_ENTER,
                                    TOP_KEY_ENTER,
                                    TOP_KEY_ESCAPE,
                                    TOP_KEY_BACKSPACE,
                                    TOP_KEY_REDRAW,
                                    TOP_KEY_OTHER,
                                    TOP_KEY_NONE};
    unsigned int forced = 0;
    (void)state;
    scene(CIRCUITS);
    srandom(7);
    arrange();
    for (unsigned int i = 0; i < 40000; i++) {
        const enum top_mode before = view.mode;
        uint32_t key = keys[(size_t)random() % (sizeof keys / sizeof *keys)];
        if (before >= TOP_HOW_LONG && random() % 2 == 0)
            key = before == TOP_HOW_LONG ? TOP_KEY_ENTER : 'y';
        if (press(key) == TOP_FORCE) {
            assert_true(before == TOP_SURE && key == 'y');
            assert_int_equal(top_chosen(&list, &view)->key, view.asked);
            forced++;
        }
        rows[(size_t)random() % CIRCUITS].view.state = random() % 3 == 0 ? CIRCUIT_OPEN : CIRCUIT_CLOSED;
        if (random() % 16 == 0)
            sight.row_count = (size_t)random() % (CIRCUITS + 1);
        arrange();
        if (random() % 16 == 0)
            draw_at(1 + (int)(random() % 130), 1 + (int)(random() % 50));
    }
    assert_true(forced > 10);
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

static void all_is_on_80_columns_and_24_lines(void **state)
{
    (void)state;
    scene(3);
    open_circuit(1);
    wait_in(2, 22, 6, 9800 * NS_PER_MS);
    rows[1].has_failure = true;
    rows[1].last_failure = (struct event){.kind = FAILURE_REFUSED, .pid = 812, .program = "gunicorn"};
    draw();
    assert_shown("sockfuse top  3 circuits, 1 open");
    rows[0].ended = ENDED_PROGRAMS;
    draw();
    assert_shown("sockfuse top  2 circuits, 1 open, 1 ended");
    rows[0].ended = ENDED_NOT;
    draw();
    assert_shown("22 calls wait, 6 overdue, the oldest 9.8s");
    assert_shown("worst first, every 1s");
    assert_string_equal(line(2), " DESTINATION           STATE             PAUSE  WAIT OLDEST CALLS/S OUTCOMES");
    assert_string_equal(line(3), ">d1:1                  open               4.2s");
    assert_string_equal(line(4), " d2:1                  closed                     22   9.8s");
    assert_shown("open, a probe in 4.2s");
    assert_shown("last failure: refused, 16m40s ago, pid 812 (gunicorn)");
    assert_string_equal(line(23), "? help  q quit  / filter  s sort  o open  c close  a auto  Enter more");
}

static void where_a_column_stands_goes_by_the_width_alone(void **state)
{
    char titles[WIDTH_MAX + 1];
    (void)state;
    scene(2);
    draw_at(132, 40);
    strcpy(titles, line(2));
    strcpy(rows[0].destination, "a-very-long-name-of-a-host.in-some-place.example.com:5432");
    wait_in(0, 4000000000u, 4000000000u, UINT64_MAX / 2);
    rows[0].counts[COUNT_FAILED] = rows[0].counts[COUNT_REFUSED] = UINT64_MAX;
    rows[0].waits = (struct row_waits){
        .recent_calls = UINT32_MAX, .recent_span_ns = NS_PER_S, .recent = {.count = 1, .p95_ns = UINT64_MAX}};
    rows[0].forced_left_ns = UINT64_MAX;
    rows[0].forced = FORCED_OPEN;
    draw_at(132, 40);
    assert_string_equal(line(2), titles);
    assert_shown("IN ROW");
    assert_shown("REFUSED");
    draw_at(200, 40);
    assert_shown("POLICY");
    assert_shown("shop.policy");
}

/* Each size, with everything that can be on it: nothing is written outside, which canvas_at and the sanitizers see. */
static void any_size_has_a_page(void **state)
{
    static const enum top_mode modes[] = {TOP_LIST,     TOP_FILTER, TOP_HELP,  TOP_NOTES,
                                          TOP_HOW_LONG, TOP_SURE,   TOP_ANSWER};
    (void)state;
    scene(CIRCUITS);
    sight.notes = "one: can't be read\ntwo: neither\n";
    open_circuit(7);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        for (int width = 1; width <= WIDTH_MAX; width += width < 50 ? 1 : 17) {
            for (int height = 1; height <= HEIGHT_MAX; height += height < 30 ? 1 : 13) {
                arrange();
                view.mode = modes[i];
                view.asked = top_chosen(&list, &view)->key;
                draw_at(width, height);
                const bool is_small = width < TOP_LEAST_WIDTH || height < TOP_LEAST_HEIGHT;
                assert_true((strncmp(line(0), "too", width < 3 ? (size_t)width : 3) == 0) == is_small);
            }
        }
    }
}

static void what_could_not_be_read_is_told_in_the_last_line(void **state)
{
    (void)state;
    scene(1);
    sight.notes = "/run/x can't be read: Permission denied\nand more\n";
    draw();
    assert_string_equal(line(23), "n  /run/x can't be read: Permission denied");
    press('n');
    draw();
    assert_shown("and more");
}

static void nothing_in_use_is_told_with_its_remedy(void **state)
{
    (void)state;
    scene(0);
    sight.nothing = "No policy is in use.\nStart a program under one: sockfuse run -p FILE -- CMD\n";
    draw();
    assert_shown("0 circuits");
    assert_shown("No policy is in use.");
    assert_shown("sockfuse run -p FILE");
}

static void the_help_names_every_key(void **state)
{
    (void)state;
    scene(1);
    arrange();
    press('?');
    draw();
    for (const char *key = "jksSr/ocanq"; *key != '\0'; key++) {
        char word[] = {' ', *key, '\0'};
        assert_shown(word);
    }
    assert_shown("OUTCOMES");
    assert_shown("refused at once");
    assert_int_equal(press('q'), TOP_NOTHING);
}

static void states_are_told_as_status_tells_them(void **state)
{
    (void)state;
    scene(1);
    assert_string_equal(top_state(&all[0]), "closed");
    rows[0].forced = FORCED_OPEN;
    assert_string_equal(top_state(&all[0]), "open, forced");
    rows[0].forced = FORCED_NONE;
    target.mode = MODE_OBSERVE;
    assert_string_equal(top_state(&all[0]), "closed, observed");
    rows[0].view.state = CIRCUIT_OPEN;
    rows[0].view.probe_due = true;
    assert_string_equal(top_state(&all[0]), "probe due, observed");
    target.mode = MODE_OPEN;
    assert_string_equal(top_state(&all[0]), "open, by mode");
    target.mode = MODE_OFF;
    assert_string_equal(top_state(&all[0]), "off");
    target.mode = MODE_ENFORCE;
    rows[0].ended = ENDED_PROGRAMS;
    assert_string_equal(top_state(&all[0]), "open, ended");
    rows[0].ended = ENDED_NOT;
    rows[0].called = false;
    target.scope = SCOPE_PROCESS;
    assert_string_equal(top_state(&all[0]), "in each process");
    target.scope = SCOPE_HOST;
    rows[0].destination[0] = '\0';
    assert_string_equal(top_state(&all[0]), "no calls yet");
}

/* --- more of one -------------------------------------------------------------------------------------------------- */

static void calls_and_events_stand_below_each_other_or_side_by_side(void **state)
{
    static struct inflight_owner owner = {.process = {.pid = 812, .is_near = true, .program = "gunicorn"},
                                          .is_alive = true};
    static struct inflight_call calls[5];
    static struct event events[3];
    (void)state;
    scene(1);
    owner.uid = (uint32_t)geteuid();
    for (size_t i = 0; i < 5; i++)
        calls[i] = (struct inflight_call){.owner = &owner,
                                          .phase = PHASE_REQUESTED,
                                          .waited_ns = (9 - i) * NS_PER_S,
                                          .limit_ns = 7 * NS_PER_S,
                                          .is_overdue = i < 2};
    for (size_t i = 0; i < 3; i++)
        events[i] = (struct event){.type = EVENT_FAILURE, .kind = FAILURE_REFUSED, .pid = 7, .program = "curl"};
    detail = (struct top_detail){.key = 1, .calls = {.at = calls, .count = 5}, .events = events, .event_count = 3};
    draw();
    assert_shown("CALLS IN FLIGHT  5, 2 overdue; at most 0 at once");
    assert_shown("9.0s of 7.0s   answer   OVERDUE  gunicorn[812]");
    assert_true(line_with("LAST EVENTS") > line_with("CALLS IN FLIGHT"));
    assert_shown("failure   refused after 0ms  curl[7]");
    draw_at(120, 24);
    assert_int_equal(line_with("LAST EVENTS"), line_with("CALLS IN FLIGHT"));
    draw_at(80, 15);
    assert_shown("CALLS IN FLIGHT  5");
    detail.key = 2; /* of another circuit */
    draw();
    assert_int_equal(line_with("CALLS IN FLIGHT"), -1);
    detail = (struct top_detail){.key = 0};
}

static void enter_gives_the_pane_most_of_the_page(void **state)
{
    (void)state;
    scene(CIRCUITS);
    draw();
    const int before = line_with("-- d0:1");
    press(TOP_KEY_ENTER);
    draw();
    assert_true(line_with("-- d0:1") < before && line_with("-- d0:1") > 0);
    press(TOP_KEY_ENTER);
    draw();
    assert_int_equal(line_with("-- d0:1"), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_circuit_comes_first),
        cmocka_unit_test(each_order_goes_by_what_it_is_called),
        cmocka_unit_test(names_are_sorted_as_people_count),
        cmocka_unit_test(the_one_at_the_top_is_chosen_until_somebody_chooses),
        cmocka_unit_test(when_the_chosen_one_is_gone_its_neighbour_is_chosen),
        cmocka_unit_test(a_long_list_moves_with_the_chosen_one),
        cmocka_unit_test(a_list_moves_no_farther_than_the_chosen_one_asks_and_shows_as_many_as_it_can),
        cmocka_unit_test(the_filter_takes_part_of_any_name_and_of_the_state),
        cmocka_unit_test(a_filter_is_whole_characters_and_never_too_long),
        cmocka_unit_test(a_word_is_said_only_after_both_questions),
        cmocka_unit_test(any_other_key_leaves_all_as_it_is),
        cmocka_unit_test(a_time_is_asked_for_until_it_is_one),
        cmocka_unit_test(who_obeys_is_shown_before),
        cmocka_unit_test(a_question_ends_with_its_circuit),
        cmocka_unit_test(what_came_of_it_is_shown_until_a_key),
        cmocka_unit_test(any_keys_in_any_order_are_borne),
        cmocka_unit_test(all_is_on_80_columns_and_24_lines),
        cmocka_unit_test(where_a_column_stands_goes_by_the_width_alone),
        cmocka_unit_test(any_size_has_a_page),
        cmocka_unit_test(what_could_not_be_read_is_told_in_the_last_line),
        cmocka_unit_test(nothing_in_use_is_told_with_its_remedy),
        cmocka_unit_test(the_help_names_every_key),
        cmocka_unit_test(states_are_told_as_status_tells_them),
        cmocka_unit_test(calls_and_events_stand_below_each_other_or_side_by_side),
        cmocka_unit_test(enter_gives_the_pane_most_of_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
