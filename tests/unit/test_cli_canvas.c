/*
 * test_cli_canvas.c - what is put on a page of cells stays in its room and can drive no terminal; and the sparkline of
 * outcomes. links: command
 */
#define _GNU_SOURCE
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/canvas.h"
#include "cli/top_outcomes.h"

static struct canvas canvas;

static void start(int width, int height, bool takes_utf8)
{
    canvas_free(&canvas);
    canvas_start(&canvas, width, height);
    canvas.takes_utf8 = canvas.takes_colour = takes_utf8;
}

static void assert_row(int row, const char *wanted)
{
    char text[256];
    int length = 0;
    for (int column = 0; column < canvas.width; column++) {
        const uint32_t character = canvas_at(&canvas, row, column)->character;
        text[length++] = character == 0 ? '_' : character < 0x80 ? (char)character : '?';
    }
    text[length] = '\0';
    assert_string_equal(text, wanted);
}

static uint32_t at(int column)
{
    return canvas_at(&canvas, 0, column)->character;
}

static void a_text_that_is_too_long_says_so(void **state)
{
    (void)state;
    start(10, 1, false);
    assert_int_equal(canvas_put(&canvas, 0, 2, 6, STYLE_PLAIN, "abcdef"), 6);
    assert_row(0, "  abcdef  ");
    assert_int_equal(canvas_put(&canvas, 0, 2, 6, STYLE_PLAIN, "ghijklm"), 6);
    assert_row(0, "  ghijk~  ");
    assert_int_equal(canvas_put(&canvas, 0, 8, 100, STYLE_PLAIN, "xyz"), 2);
    assert_row(0, "  ghijk~x~");
    canvas_put_right(&canvas, 0, 0, 5, STYLE_PLAIN, "9");
    assert_row(0, "  gh9jk~x~");
    assert_int_equal(canvas_put(&canvas, 0, 5, 0, STYLE_PLAIN, "z"), 0);
    start(4, 1, true);
    canvas_put(&canvas, 0, 0, 3, STYLE_PLAIN, "abcd");
    assert_int_equal(at(2), 0x2026);
}

static void nothing_is_written_outside(void **state)
{
    (void)state;
    start(4, 2, true);
    for (int row = -2; row < 5; row++) {
        for (int column = -6; column < 8; column++) {
            canvas_put(&canvas, row, column, 9, STYLE_PLAIN, "abc");
            canvas_put_sign(&canvas, row, column, STYLE_RED, 0x2588, '#');
            canvas_rule(&canvas, row, column, 9, STYLE_DIM);
            canvas_mark(&canvas, row, column, 9, STYLE_REVERSE);
            canvas_put_lines(&canvas, row, column, 3, 4, STYLE_PLAIN, "ab cd ef gh");
        }
        canvas_blank(&canvas, row);
    }
    assert_null(canvas_at(&canvas, 2, 0));
    assert_null(canvas_at(&canvas, 0, -1));
}

static void no_control_character_comes_through(void **state)
{
    (void)state;
    for (int takes_utf8 = 0; takes_utf8 < 2; takes_utf8++) {
        start(60, 2, takes_utf8);
        canvas_put(&canvas, 0, 0, 60, STYLE_PLAIN, "a\033[31m\a\r\n\x7f\xff\xc2\x9b[m");
        canvas_put_lines(&canvas, 1, 0, 60, 1, STYLE_PLAIN, "b\033]0;t\a\r");
        for (int row = 0; row < 2; row++)
            for (int column = 0; column < 60; column++) {
                const uint32_t character = canvas_at(&canvas, row, column)->character;
                assert_true(character >= ' ' && character != 0x7f && (character < 0x80 || character >= 0xa0));
            }
    }
}

static void what_is_not_ascii_needs_a_terminal_that_takes_it(void **state)
{
    (void)state;
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        skip();
    start(8, 1, false);
    canvas_put(&canvas, 0, 0, 8, STYLE_PLAIN, "\u00fc\u4e2dx");
    assert_row(0, "??x     ");
    start(8, 1, true);
    assert_int_equal(canvas_put(&canvas, 0, 0, 8, STYLE_PLAIN, "\u00fc\u4e2dx\u0301"), 4);
    assert_int_equal(at(0), 0xfc);
    assert_int_equal(at(1), 0x4e2d);
    assert_row(0, "??_x    ");
    start(8, 1, true);
    assert_int_equal(canvas_put(&canvas, 0, 0, 3, STYLE_PLAIN, "a\u4e2d\u4e2d"), 2); /* no half of one */
    assert_row(0, "a?      ");
    setlocale(LC_CTYPE, "C");
}

static void long_texts_are_parted_at_blanks(void **state)
{
    (void)state;
    start(10, 4, false);
    assert_int_equal(canvas_put_lines(&canvas, 0, 0, 10, 4, STYLE_PLAIN, "one two three\nfour"), 3);
    assert_row(0, "one two   ");
    assert_row(1, "three     ");
    assert_row(2, "four      ");
    start(10, 4, false);
    assert_int_equal(canvas_put_lines(&canvas, 0, 0, 4, 3, STYLE_PLAIN, "abcdefghijklmnop"), 3);
    assert_row(2, "ijkl      ");
}

/* --- outcomes ----------------------------------------------------------------------------------------------------- */

static struct outcomes_set set;

static void tick(uint64_t succeeded, uint64_t failed, uint64_t refused, bool new_is_whole)
{
    const struct outcome_sums sums = {.key = 7, .counts = {succeeded, failed, refused}};
    outcomes_take(&set, &sums, 1, new_is_whole);
}

static void draw(int room)
{
    outcomes_draw(outcomes_of(&set, 7), &canvas, 0, 0, room);
}

static void each_tick_is_as_high_as_its_calls_are_many_and_the_newest_is_at_the_right(void **state)
{
    (void)state;
    outcomes_free(&set);
    start(10, 1, true);
    tick(100, 0, 0, false);
    draw(10);
    assert_row(0, "          "); /* what was before the first look is not known */
    tick(108, 0, 0, true);
    tick(109, 0, 0, true);
    tick(109, 0, 0, true);
    tick(113, 0, 0, true);
    draw(10);
    assert_int_equal(at(6), 0x2588);
    assert_int_equal(at(7), 0x2581);
    assert_int_equal(at(8), ' ');
    assert_int_equal(at(9), 0x2584);
    assert_int_equal(canvas_at(&canvas, 0, 9)->style, STYLE_GREEN);
}

static void failures_and_refusals_stand_out_with_colours_and_without(void **state)
{
    (void)state;
    for (int takes_all = 0; takes_all < 2; takes_all++) {
        outcomes_free(&set);
        start(4, 1, takes_all);
        tick(0, 0, 0, false);
        tick(9, 0, 0, true);
        tick(9, 1, 8, true);
        tick(9, 1, 17, true);
        draw(4);
        assert_int_equal(canvas_at(&canvas, 0, 1)->style, STYLE_GREEN);
        assert_int_equal(canvas_at(&canvas, 0, 2)->style, STYLE_RED);
        assert_int_equal(canvas_at(&canvas, 0, 3)->style, STYLE_YELLOW);
        if (!takes_all)
            assert_row(0, " #x-");
    }
    canvas.takes_colour = false; /* blocks, but no colours: letters, too */
    draw(4);
    assert_int_equal(at(1), 0x2588);
    assert_int_equal(at(2), 'x');
}

static void a_new_circuit_has_counted_all_of_it_since_the_last_look_that_saw_everything(void **state)
{
    (void)state;
    outcomes_free(&set);
    start(4, 1, true);
    tick(3, 0, 0, true);
    draw(4);
    assert_int_equal(at(3), 0x2588);
}

static void counters_that_went_back_begin_anew_and_one_that_is_gone_is_forgotten(void **state)
{
    (void)state;
    outcomes_free(&set);
    start(4, 1, true);
    tick(50, 5, 0, false);
    tick(2, 0, 0, true);
    draw(4);
    assert_int_equal(at(3), 0x2588);
    assert_int_equal(canvas_at(&canvas, 0, 3)->style, STYLE_GREEN);
    outcomes_take(&set, NULL, 0, true);
    assert_null(outcomes_of(&set, 7));
}

static void a_long_history_keeps_what_is_newest(void **state)
{
    (void)state;
    outcomes_free(&set);
    start((int)OUTCOME_TICKS + 20, 1, true);
    for (uint64_t i = 0; i < 3 * OUTCOME_TICKS + 1; i++)
        tick(i, 0, 0, false);
    draw(canvas.width);
    assert_int_equal(at(19), ' ');
    assert_int_equal(at(20), 0x2588);
    assert_int_equal(at(canvas.width - 1), 0x2588);
}

static void many_circuits_are_found_by_their_keys(void **state)
{
    struct outcome_sums sums[100];
    (void)state;
    outcomes_free(&set);
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 100; i++)
            sums[i] = (struct outcome_sums){.key = (i * 37 + 11) % 100 + 1, .counts = {(i + 1) * round}};
        outcomes_take(&set, sums, 100, false);
    }
    for (uint64_t i = 0; i < 100; i++) {
        const struct outcomes *found = outcomes_of(&set, (i * 37 + 11) % 100 + 1);
        assert_non_null(found);
        assert_int_equal(found->ticks[0][OUTCOME_SUCCEEDED], i + 1);
    }
    assert_null(outcomes_of(&set, 101));
    outcomes_free(&set);
    canvas_free(&canvas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_that_is_too_long_says_so),
        cmocka_unit_test(nothing_is_written_outside),
        cmocka_unit_test(no_control_character_comes_through),
        cmocka_unit_test(what_is_not_ascii_needs_a_terminal_that_takes_it),
        cmocka_unit_test(long_texts_are_parted_at_blanks),
        cmocka_unit_test(each_tick_is_as_high_as_its_calls_are_many_and_the_newest_is_at_the_right),
        cmocka_unit_test(failures_and_refusals_stand_out_with_colours_and_without),
        cmocka_unit_test(a_new_circuit_has_counted_all_of_it_since_the_last_look_that_saw_everything),
        cmocka_unit_test(counters_that_went_back_begin_anew_and_one_that_is_gone_is_forgotten),
        cmocka_unit_test(a_long_history_keeps_what_is_newest),
        cmocka_unit_test(many_circuits_are_found_by_their_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
