/*
 * who.c - who gives a command, for the journal.
 *
 * See who.h.
 */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/who.h"

void who_am_i(char name[PROGRAM_NAME_MAX])
{
    const struct passwd *entry = getpwuid(getuid());
    char number[24];
    snprintf(number, sizeof number, "uid %u", (unsigned int)getuid());
    const char *user = entry != NULL && entry->pw_name[0] != '\0' ? entry->pw_name : number;
    /* "root" alone says little where everybody comes by sudo. Only root's word for it counts. */
    const char *caller = getuid() == 0 ? environment("SUDO_USER") : NULL;
    if (caller != NULL && caller[0] != '\0' && strcmp(caller, user) != 0)
        snprintf(name, PROGRAM_NAME_MAX, "%.20s as %.6s", caller, user);
    else
        snprintf(name, PROGRAM_NAME_MAX, "%.31s", user);
}
