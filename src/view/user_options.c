/*
 * user_options.c - whose circuits a command is about. See user_options.h.
 */
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ascii.h"
#include "view/output.h"
#include "view/user_options.h"

/* False: no number of a user. The last one means "nobody" to the kernel. */
static bool number_of_user(const char *text, uid_t *uid)
{
    uint64_t number;
    if (!ascii_is_number(text, &number) || number >= (uid_t)-1)
        return false;
    *uid = (uid_t)number;
    return true;
}

/* As chown(1) has it: a name goes before a number. */
static void take_user(struct whose *choice, const char *text)
{
    const struct passwd *entry = getpwnam(text);
    if (entry != NULL)
        choice->uid = entry->pw_uid;
    else if (!number_of_user(text, &choice->uid))
        errx(EXIT_FAILURE, "--user %s: there is no such user", text);
    choice->user = text;
    if (choice->uid != geteuid() && geteuid() != 0)
        errx(EXIT_FAILURE, "--user %s: only root can look at other users' circuits", text);
}

bool whose_take(struct whose *choice, int letter, const char *argument)
{
    switch (letter) {
    case 'p':
        choice->policy_file = argument;
        return true;
    case OPTION_USER:
        take_user(choice, argument);
        return true;
    case OPTION_MINE:
        choice->mine = true;
        return true;
    default:
        return false;
    }
}

bool whose_is_everybody(const struct whose *choice)
{
    return geteuid() == 0 && choice->user == NULL && !choice->mine;
}

bool whose_has(const struct whose *choice, uid_t user)
{
    if (choice->user != NULL && user != choice->uid)
        return false;
    return user == geteuid() || (geteuid() == 0 && !choice->mine);
}
