/*
 * top_keys.c - what each key of `sockfuse top` does. See top_keys.h.
 *
 * A word is said after two questions: for how long, and whether that is meant. Only what these ask for goes on; any
 * other key leaves all as it is.
 */
#include "cli/top_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "view/destination.h"
#include "cli/top_list.h"
#include "policy/value.h"

/* As `sockfuse open --for` has it. */
static const struct value_rule time_rule = {.type = VALUE_DURATION, .minimum = NS_PER_MS, .maximum = 365 * NS_PER_DAY};

/* --- text that is typed ------------------------------------------------------------------------------------------- */

static void add_character(char text[TOP_TEXT_MAX], uint32_t character)
{
    const size_t length = strlen(text);
    char bytes[5] = {0};
    if (character < 0x80) {
        bytes[0] = (char)character;
    } else if (character < 0x800) {
        bytes[0] = (char)(0xc0 | character >> 6);
        bytes[1] = (char)(0x80 | (character & 0x3f));
    } else if (character < 0x10000) {
        bytes[0] = (char)(0xe0 | character >> 12);
        bytes[1] = (char)(0x80 | (character >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (character & 0x3f));
    } else {
        bytes[0] = (char)(0xf0 | character >> 18);
        bytes[1] = (char)(0x80 | (character >> 12 & 0x3f));
        bytes[2] = (char)(0x80 | (character >> 6 & 0x3f));
        bytes[3] = (char)(0x80 | (character & 0x3f));
    }
    if (length + strlen(bytes) < TOP_TEXT_MAX)
        strcat(text, bytes);
}

static void take_back(char text[TOP_TEXT_MAX])
{
    size_t length = strlen(text);
    while (length > 0 && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
        length--;
    text[length > 0 ? length - 1 : 0] = '\0';
}

/* False: it is no key for a text. */
static bool type(char text[TOP_TEXT_MAX], uint32_t key)
{
    if (key == TOP_KEY_BACKSPACE)
        take_back(text);
    else if (key >= ' ' && key != 0x7f && key < TOP_KEY_NONE)
        add_character(text, key);
    else
        return false;
    return true;
}

/* --- the questions ------------------------------------------------------------------------------------------------ */

static enum top_action ask(struct top_view *view, enum forced word, const struct top_list *list)
{
    const struct top_row *chosen = top_chosen(list, view);
    if (chosen == NULL)
        return TOP_NOTHING;
    view->chosen = view->asked = chosen->key; /* whatever comes to stand at the top meanwhile */
    view->word = word;
    view->how_long[0] = '\0';
    view->for_ns = 0;
    view->complaint = NULL;
    view->mode = TOP_HOW_LONG;
    return TOP_NOTHING;
}

static bool read_how_long(struct top_view *view)
{
    char why[DESTINATION_WHY_MAX];
    view->for_ns = 0;
    view->complaint = NULL;
    if (view->how_long[0] == '\0' || value_parse(&time_rule, view->how_long, &view->for_ns, why, sizeof why))
        return true;
    view->complaint = "That is no time: a number and its unit, such as 10m";
    return false;
}

static enum top_action key_of_how_long(struct top_view *view, uint32_t key)
{
    if (key == TOP_KEY_ENTER) {
        if (read_how_long(view))
            view->mode = TOP_SURE;
    } else if (view->word == FORCED_NONE || !type(view->how_long, key)) {
        view->mode = TOP_LIST;
    }
    return TOP_NOTHING;
}

void top_answer(struct top_view *view, char *text)
{
    free(view->answer);
    view->answer = text;
    view->mode = TOP_ANSWER;
}

/* The one that was asked about may have gone, and another one stand in its place. */
static bool is_there(const struct top_view *view, const struct top_list *list)
{
    const struct top_row *chosen = top_chosen(list, view);
    return chosen != NULL && chosen->key == view->asked;
}

static enum top_action key_of_sure(struct top_view *view, uint32_t key, const struct top_list *list)
{
    view->mode = TOP_LIST;
    return (key == 'y' || key == 'Y') && is_there(view, list) ? TOP_FORCE : TOP_NOTHING;
}

void top_check_questions(struct top_view *view, const struct top_list *list)
{
    const bool asks = view->mode == TOP_HOW_LONG || view->mode == TOP_SURE;
    if (asks && !is_there(view, list))
        top_answer(view, copy_text("The circuit is not shown any more; nothing was done."));
}

/* --- the list ----------------------------------------------------------------------------------------------------- */

static enum top_action sort_by(struct top_view *view, enum top_sort sort)
{
    view->sort = sort;
    view->is_reversed = false;
    return TOP_NOTHING;
}

/* False: it moves nothing. */
static bool move(struct top_view *view, uint32_t key, const struct top_list *list, size_t room)
{
    const long page = room > 1 ? (long)room - 1 : 1;
    switch (key) {
    case TOP_KEY_UP:
    case 'k':
        top_choose(list, view, -1);
        return true;
    case TOP_KEY_DOWN:
    case 'j':
        top_choose(list, view, 1);
        return true;
    case TOP_KEY_PAGE_UP:
        top_choose(list, view, -page);
        return true;
    case TOP_KEY_PAGE_DOWN:
        top_choose(list, view, page);
        return true;
    case TOP_KEY_HOME:
    case 'g':
        view->chosen = 0; /* whichever stands at the top from now on */
        top_choose(list, view, 0);
        return true;
    case TOP_KEY_END:
    case 'G':
        top_choose(list, view, (long)list->count);
        return true;
    default:
        return false;
    }
}

static enum top_action key_of_list(struct top_view *view, uint32_t key, const struct top_list *list, size_t room)
{
    if (move(view, key, list, room))
        return TOP_NOTHING;
    if (key >= '1' && key < '1' + SORTS)
        return sort_by(view, (enum top_sort)(key - '1'));
    switch (key) {
    case 'q':
    case 'Q':
        return TOP_QUIT;
    case 's':
        return sort_by(view, (view->sort + 1) % SORTS);
    case 'S':
        return sort_by(view, (view->sort + SORTS - 1) % SORTS);
    case 'r':
        view->is_reversed = !view->is_reversed;
        return TOP_NOTHING;
    case 'o':
        return ask(view, FORCED_OPEN, list);
    case 'c':
        return ask(view, FORCED_CLOSED, list);
    case 'a':
        return ask(view, FORCED_NONE, list);
    case '/':
        view->mode = TOP_FILTER;
        return TOP_NOTHING;
    case '?':
    case 'h':
        view->mode = TOP_HELP;
        return TOP_NOTHING;
    case 'n':
        view->mode = TOP_NOTES;
        return TOP_NOTHING;
    case TOP_KEY_ENTER:
        view->is_deep = !view->is_deep;
        return TOP_NOTHING;
    case TOP_KEY_ESCAPE:
        view->filter[0] = '\0';
        view->is_deep = false;
        return TOP_NOTHING;
    case ' ':
        return TOP_LOOK;
    default:
        return TOP_NOTHING;
    }
}

static enum top_action key_of_filter(struct top_view *view, uint32_t key, const struct top_list *list, size_t room)
{
    if (key == TOP_KEY_ENTER)
        view->mode = TOP_LIST;
    else if (key == TOP_KEY_ESCAPE) {
        view->mode = TOP_LIST;
        view->filter[0] = '\0';
    } else if (key > TOP_KEY_NONE && key != TOP_KEY_BACKSPACE)
        move(view, key, list, room);
    else
        type(view->filter, key);
    return TOP_NOTHING;
}

enum top_action top_key(struct top_view *view, uint32_t key, const struct top_list *list, size_t room)
{
    if (key == TOP_KEY_NONE)
        return TOP_NOTHING;
    if (key == TOP_KEY_REDRAW)
        return TOP_REDRAW;
    switch (view->mode) {
    case TOP_FILTER:
        return key_of_filter(view, key, list, room);
    case TOP_HOW_LONG:
        return key_of_how_long(view, key);
    case TOP_SURE:
        return key_of_sure(view, key, list);
    case TOP_LIST:
        return key_of_list(view, key, list, room);
    default: /* read, and done with */
        view->mode = TOP_LIST;
        return TOP_NOTHING;
    }
}
