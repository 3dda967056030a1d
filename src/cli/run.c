/*
 * run.c - `sockfuse run`: starts a program under a policy.
 *
 * The program takes this process's place (run_start.h): same pid, its own signals and exit status.
 */
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/run_request.h"
#include "cli/run_start.h"

static const char help[] =
    "Usage: sockfuse run [-p FILE] [-t PATTERN]... [-o KEY=VALUE]... [--log FILE] [--strict] [--engine NAME]\n"
    "                    [--] CMD [ARGUMENT]...\n"
    "Starts CMD under a policy: calls to its targets fail at once while their circuits are open.\n"
    "\n"
    "  -p, --policy FILE       the policy; without -p and -t: SOCKFUSE_POLICY, else the first of\n"
    "                          ~/.config/sockfuse/CMD.policy, /etc/sockfuse/CMD.policy, and default.policy in both\n"
    "  -t, --target PATTERN    a target on the spot: HOST:PORT, ADDRESS:PORT, NETWORK/BITS:PORT, unix:/PATH\n"
    "  -o, --option KEY=VALUE  overrides a key of the policy for all targets\n"
    "      --log FILE          append every change of a circuit to FILE, or to the standard error with 'stderr'\n"
    "      --engine NAME       what guards CMD: 'preload', the library in it; 'notify', a supervisor that the kernel "
    "asks,\n"
    "                          for static programs, Go and musl; 'auto', whichever can (the default)\n"
    "      --strict            where circuits can't be kept (no state folder can be used), start nothing; else CMD\n"
    "                          runs unguarded then, with a warning\n"
    "  -h, --help              this text\n"
    "      --version           the version\n"
    "\n"
    "CMD keeps its process id, signals and exit status. Exit status 125: sockfuse failed, 126: CMD can't be executed,\n"
    "127: CMD was not found.\n";

int command_run(int argc, char **argv)
{
    static struct run_request request = {.engine = ENGINE_AUTO};
    static struct run_start start;
    if (!run_request_parse(argc, argv, &request)) {
        usage_error("run");
        return EXIT_RUN_FAILED;
    }
    if (request.help)
        return print_help(help);
    if (request.version)
        return print_version();
    const int status = run_start_prepare(&start, &request);
    return status != EXIT_SUCCESS ? status : run_start_execute(&start);
}
