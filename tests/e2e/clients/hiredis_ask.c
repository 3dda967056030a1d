/*
 * hiredis_ask TIMEOUT HOST PORT | hiredis_ask TIMEOUT unix:/PATH: sends each line of stdin to a Redis server as a
 * command, over one connection of hiredis that blocks, and prints the replies. TIMEOUT, in seconds, is that of the
 * connection and then of each reply. The first error is printed and ends it with status 1.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static int fail(const redisContext *context)
{
    fprintf(stderr, "hiredis: %s\n", context != NULL ? context->errstr : "out of memory");
    return 1;
}

static redisContext *connect_to(int argc, char **argv, struct timeval timeout)
{
    if (argc == 3 && strncmp(argv[2], "unix:", 5) == 0)
        return redisConnectUnixWithTimeout(argv[2] + 5, timeout);
    if (argc == 4)
        return redisConnectWithTimeout(argv[2], atoi(argv[3]), timeout);
    fprintf(stderr, "usage: hiredis_ask TIMEOUT HOST PORT | hiredis_ask TIMEOUT unix:/PATH\n");
    exit(2);
}

int main(int argc, char **argv)
{
    const struct timeval timeout = {.tv_sec = argc > 1 ? atoi(argv[1]) : 0};
    redisContext *context = connect_to(argc, argv, timeout);
    char line[256];
    int status = 0;

    if (context == NULL || context->err || redisSetTimeout(context, timeout) != REDIS_OK)
        status = fail(context);
    while (status == 0 && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        redisReply *reply = redisCommand(context, line);
        if (reply == NULL) {
            status = fail(context);
        } else {
            printf("%s\n", reply->str != NULL ? reply->str : "(no text)");
            fflush(stdout);
            freeReplyObject(reply);
        }
    }
    redisFree(context);
    return status;
}
