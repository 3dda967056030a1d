/*
 * start_agent.c - `sockfuse agent`: executes the agent, which is a program of its own (src/agent).
 *
 * So that no other command links what it alone needs. It stands beside this command, as `make` leaves it, or where it
 * is installed; all of its words are the agent's own, -h too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "view/installed.h"
#include "view/library.h"

static const char file_name[] = "sockfuse-agent";

/* Returns only if there is none in the folder. */
static void execute_in(const char *folder, char **words)
{
    char *path = format_text("%s/%s", folder, file_name);
    execv(path, words);
    if (errno != ENOENT && errno != ENOTDIR)
        err(EXIT_FAILURE, "%s can't be executed", path);
    free(path);
}

int command_agent(int argc, char **argv)
{
    char folder[PATH_MAX];
    (void)argc;
    library_own_folder(folder, sizeof folder);
    execute_in(folder, argv);
    char *beside = format_text("%s/../libexec/sockfuse", folder);
    execute_in(beside, argv);
    free(beside);
    execute_in(installed_libexecdir, argv);
    warnx("%s is neither in %s nor in %s: it is built where libev is (Debian: libev-dev); install that, then make and "
          "make install",
          file_name, folder, installed_libexecdir);
    return EXIT_FAILURE;
}
