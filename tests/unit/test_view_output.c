/*
 * test_view_output.c - what the commands print: JSON and tables.
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
#include <fcntl.h>
#include <termios.h>
#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/output.c"
#include "view/json.c"
#include "view/table.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

static char *printed;
static size_t printed_size;

static FILE *begin(void)
{
    FILE *out = open_memstream(&printed, &printed_size);
    assert_non_null(out);
    return out;
}

static void expect(FILE *out, const char *text)
{
    fclose(out);
    assert_string_equal(printed, text);
    free(printed);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_has_one_member_a_line_and_commas_between_them(void **state)
{
    struct json json;
    FILE *out = begin();
    (void)state;
    json_start(&json, out);
    json_open(&json, NULL, '[');
    json_open(&json, NULL, '{');
    json_string(&json, "name", "a");
    json_unsigned(&json, "most", UINT64_MAX);
    json_bool(&json, "yes", true);
    json_bool(&json, "no", false);
    json_null(&json, "nothing");
    json_string(&json, "none", NULL);
    json_open(&json, "list", '[');
    json_string(&json, NULL, "x");
    json_unsigned(&json, NULL, 0);
    json_close(&json, ']');
    json_close(&json, '}');
    json_open(&json, NULL, '{');
    json_close(&json, '}');
    json_close(&json, ']');
    expect(out, "[\n"
                "  {\n"
                "    \"name\": \"a\",\n"
                "    \"most\": 18446744073709551615,\n"
                "    \"yes\": true,\n"
                "    \"no\": false,\n"
                "    \"nothing\": null,\n"
                "    \"none\": null,\n"
                "    \"list\": [\n"
                "      \"x\",\n"
                "      0\n"
                "    ]\n"
                "  },\n"
                "  {}\n"
                "]\n");
}

static void empty_json_is_a_pair_of_brackets(void **state)
{
    struct json json;
    FILE *out = begin();
    (void)state;
    json_start(&json, out);
    json_open(&json, NULL, '[');
    json_close(&json, ']');
    expect(out, "[]\n");
}

static void a_member_behind_an_empty_bracket_has_its_comma(void **state)
{
    struct json json;
    FILE *out = begin();
    (void)state;
    json_start(&json, out);
    json_open(&json, NULL, '{');
    json_open(&json, "a", '{');
    json_close(&json, '}');
    json_open(&json, "b", '[');
    json_close(&json, ']');
    json_unsigned(&json, "c", 1);
    json_close(&json, '}');
    expect(out, "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": 1\n}\n");
}

static void no_text_breaks_the_json(void **state)
{
    struct json json;
    FILE *out = begin();
    (void)state;
    json_start(&json, out);
    json_open(&json, NULL, '{');
    json_string(&json, "quote\"key", "a\"b\\c\n\t\x01\x7f");
    json_close(&json, '}');
    fclose(out);
    assert_non_null(strstr(printed, "\"quote\\\"key\": \"a\\\"b\\\\c"));
    for (const char *at = printed + 2; at[2] != '\0'; at++) /* what stands between the outer newlines */
        assert_true((unsigned char)*at >= 0x20 || *at == '\n');
    assert_int_equal(strcspn(strchr(printed, '"'), "\n"), strlen(printed) - strlen("{\n  ") - strlen("\n}\n"));
    free(printed);
}

/* Whether every byte belongs to a UTF-8 character (overlong forms and surrogates aside). */
static bool is_utf8(const unsigned char *text)
{
    while (*text != '\0') {
        int more = *text < 0x80 ? 0 : *text < 0xc2 ? -1 : *text < 0xe0 ? 1 : *text < 0xf0 ? 2 : *text < 0xf5 ? 3 : -1;
        if (more < 0)
            return false;
        for (text++; more > 0; more--, text++) {
            if ((*text & 0xc0) != 0x80)
                return false;
        }
    }
    return true;
}

static void bytes_that_are_no_utf8_are_escaped_whole(void **state)
{
    char every[256];
    struct json json;
    FILE *out = begin();
    (void)state;
    for (int i = 1; i < 256; i++)
        every[i - 1] = (char)i;
    every[255] = '\0';
    json_start(&json, out);
    json_string(&json, NULL, every);
    fclose(out);
    assert_true(is_utf8((unsigned char *)printed));
    assert_int_equal(printed[strlen(printed) - 1], '"'); /* nothing was cut off */
    free(printed);
}

/* --- tables ------------------------------------------------------------------------------------------------------- */

static const struct column columns[] = {{"NAME", false}, {"CALLS", true}, {"NOTE", false}};

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
    struct table table;
    FILE *out = begin();
    (void)state;
    table_start(&table, columns, 3);
    table_add(&table, PLAIN, "a");
    table_addf(&table, PLAIN, "%d", 7);
    table_add(&table, PLAIN, "x");
    table_add(&table, PLAIN, "longer than its title");
    table_addf(&table, PLAIN, "%d", 1234567);
    table_add(&table, PLAIN, NULL);
    table_print(&table, out, 2);
    expect(out, "  NAME                     CALLS  NOTE\n"
                "  a                            7  x\n"
                "  longer than its title  1234567\n");
}

static void a_column_that_says_nothing_is_left_out(void **state)
{
    struct table table;
    FILE *out = begin();
    (void)state;
    table_start(&table, columns, 3);
    for (int i = 0; i < 2; i++) {
        table_add(&table, PLAIN, "a");
        table_add(&table, PLAIN, "");
        table_add(&table, PLAIN, i == 0 ? "" : "x");
    }
    table_print(&table, out, 0);
    expect(out, "NAME  NOTE\n"
                "a\n"
                "a     x\n");
}

static void a_table_may_have_many_rows(void **state)
{
    struct table table;
    FILE *out = begin();
    size_t lines = 0;
    (void)state;
    table_start(&table, columns, 3);
    for (int i = 0; i < 1000; i++) {
        table_addf(&table, PLAIN, "%d", i);
        table_add(&table, PLAIN, "1");
        table_add(&table, PLAIN, "n");
    }
    table_print(&table, out, 0);
    fclose(out);
    for (const char *at = printed; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines, 1001);
    assert_non_null(strstr(printed, "\n999       1  n\n"));
    free(printed);
}

static void letters_count_and_not_bytes(void **state)
{
    struct table table;
    FILE *out = begin();
    (void)state;
    table_start(&table, columns, 3);
    table_add(&table, PLAIN, "b\u00fccher");
    table_add(&table, PLAIN, "1");
    table_add(&table, PLAIN, "");
    table_print(&table, out, 0);
    expect(out, "NAME    CALLS\n"
                "b\u00fccher      1\n");
}

static void no_name_drives_the_terminal(void **state)
{
    struct table table;
    FILE *out = begin();
    (void)state;
    table_start(&table, columns, 3);
    table_add(&table, PLAIN, "\033[2J\r\n\x9b");
    table_add(&table, PLAIN, "\xc2\x9b");
    table_add(&table, PLAIN, "\x7f");
    table_print(&table, out, 0);
    fclose(out);
    const char *row = strchr(printed, '\n') + 1;
    assert_null(strpbrk(row, "\033\r\x9b\x7f"));
    assert_ptr_equal(strchr(row, '\n'), row + strlen(row) - 1);
    free(printed);
}

/* A terminal of our own: what is printed to it can be read from `*master`. */
static FILE *open_terminal(int *master)
{
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(*master >= 0 && grantpt(*master) == 0 && unlockpt(*master) == 0);
    FILE *terminal = fopen(ptsname(*master), "r+e");
    assert_non_null(terminal);
    struct termios modes;
    assert_int_equal(tcgetattr(fileno(terminal), &modes), 0);
    modes.c_oflag &= ~(tcflag_t)OPOST; /* newlines stay what they are */
    assert_int_equal(tcsetattr(fileno(terminal), TCSANOW, &modes), 0);
    return terminal;
}

static void colour_is_for_terminals_that_want_it(void **state)
{
    int master;
    (void)state;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    FILE *out = begin();
    assert_false(colour_wanted(out)); /* no terminal */
    fclose(out);
    free(printed);

    FILE *terminal = open_terminal(&master);
    assert_true(colour_wanted(terminal));
    setenv("NO_COLOR", "", 1); /* empty: as if it were not there */
    assert_true(colour_wanted(terminal));
    setenv("NO_COLOR", "0", 1);
    assert_false(colour_wanted(terminal));
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    assert_false(colour_wanted(terminal));
    unsetenv("TERM");
    assert_false(colour_wanted(terminal));
    fclose(terminal);
    close(master);
}

static void print_coloured_table(FILE *out)
{
    struct table table;
    table_start(&table, columns, 3);
    table_add(&table, RED, "open");
    table_add(&table, DIM, "1");
    table_add(&table, PLAIN, "");
    table_add(&table, GREEN, "closed");
    table_add(&table, PLAIN, "1234567");
    table_add(&table, YELLOW, "x");
    table_print(&table, out, 1);
}

static void colour_widens_no_column(void **state)
{
    char shown[1024], bare[1024];
    int master;
    size_t length = 0;
    (void)state;
    FILE *out = begin();
    print_coloured_table(out);
    fclose(out);

    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    FILE *terminal = open_terminal(&master);
    print_coloured_table(terminal);
    fflush(terminal);
    ssize_t got = 0;
    for (int lines = 0; lines < 3;) { /* it comes piecemeal */
        ssize_t more = read(master, shown + got, sizeof shown - (size_t)got);
        assert_true(more > 0);
        for (; more > 0; more--)
            lines += shown[got++] == '\n';
    }
    for (ssize_t i = 0; i < got; i++) {
        if (shown[i] == '\033')
            i = (char *)memchr(shown + i, 'm', (size_t)(got - i)) - shown;
        else
            bare[length++] = shown[i];
    }
    assert_true((size_t)got > length); /* there was colour */
    assert_int_equal(length, strlen(printed));
    assert_memory_equal(bare, printed, length);
    assert_non_null(memmem(shown, (size_t)got, "\033[31mopen\033[0m", 13));
    fclose(terminal);
    close(master);
    free(printed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_one_member_a_line_and_commas_between_them),
        cmocka_unit_test(empty_json_is_a_pair_of_brackets),
        cmocka_unit_test(a_member_behind_an_empty_bracket_has_its_comma),
        cmocka_unit_test(no_text_breaks_the_json),
        cmocka_unit_test(bytes_that_are_no_utf8_are_escaped_whole),
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(a_column_that_says_nothing_is_left_out),
        cmocka_unit_test(a_table_may_have_many_rows),
        cmocka_unit_test(letters_count_and_not_bytes),
        cmocka_unit_test(no_name_drives_the_terminal),
        cmocka_unit_test(colour_is_for_terminals_that_want_it),
        cmocka_unit_test(colour_widens_no_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
