/*
 * fleet_wording.c - a command that a member sends, word by word. See fleet_wording.h.
 */
#include "agent/fleet_wording.h"

void wording_start(struct wording *command, struct fleet *fleet)
{
    command->fleet = fleet;
    command->count = 0;
    text_start(&command->text, fleet->scratch, sizeof fleet->scratch);
}

/* What was added to the text since the last word is one. */
void wording_ends(struct wording *command)
{
    const struct text *const text = &command->text;
    const char *const begin =
        command->count > 0 ? command->words[command->count - 1] + command->lengths[command->count - 1] : text->at;

    if (command->count == FLEET_ARGUMENTS) {
        command->text.cut = true;
        return;
    }
    command->words[command->count] = begin;
    command->lengths[command->count++] = (size_t)(text->at + text->length - begin);
}

void wording_word(struct wording *command, const char *word)
{
    text_add(&command->text, word);
    wording_ends(command);
}

void wording_number(struct wording *command, uint64_t number)
{
    text_add_unsigned(&command->text, number);
    wording_ends(command);
}

/* "sockfuse:1:{FLEET}:KIND" */
void wording_key_begins(struct wording *command, const char *kind)
{
    text_add(&command->text, "sockfuse:1:{");
    text_add(&command->text, command->fleet->name);
    text_add(&command->text, "}:");
    text_add(&command->text, kind);
}

/* And ":CIRCUIT". */
void wording_key(struct wording *command, const char *kind, const struct fleet_circuit *circuit)
{
    wording_key_begins(command, kind);
    if (circuit != NULL) {
        text_add(&command->text, ":");
        text_add(&command->text, circuit->name);
    }
    wording_ends(command);
}

/* Each word has its room by FLEET_ARGUMENTS and FLEET_KEY_MAX; nothing that was cut is ever sent. */
void wording_send(struct wording *command, enum fleet_command_kind kind, uint32_t of)
{
    struct fleet *fleet = command->fleet;

    if (command->text.cut)
        return;
    fleet->awaited++;
    fleet->commands++;
    fleet->way.send(fleet->way.context, &(struct fleet_command){.tag = (uint32_t)kind << COMMAND_KIND_AT | of,
                                                                .count = command->count,
                                                                .words = command->words,
                                                                .lengths = command->lengths});
}
