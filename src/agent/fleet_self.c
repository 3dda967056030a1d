/*
 * fleet_self.c - this host, as a fleet knows it. See fleet_self.h.
 */
#define _GNU_SOURCE
#include "agent/fleet_self.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

uint64_t fleet_self_number(void)
{
    char bytes[256] = "";
    struct stat network = {0};
    uint64_t hash = HASH_BEGIN;
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;

    if (fd >= 0)
        close(fd);
    hash = hash_bytes(hash, bytes, length > 0 ? (size_t)length : 0);
    memset(bytes, 0, sizeof bytes);
    gethostname(bytes, sizeof bytes - 1);
    hash = hash_bytes(hash, bytes, strlen(bytes));
    if (stat("/proc/self/ns/net", &network) == 0)
        hash = hash_bytes(hash, &network.st_ino, sizeof network.st_ino);
    return hash_spread(hash);
}

void fleet_self_name(const struct agent_settings *settings, char name[AGENT_TEXT_MAX])
{
    memset(name, 0, AGENT_TEXT_MAX);
    if (settings->fleet_name[0] != '\0')
        memcpy(name, settings->fleet_name, AGENT_TEXT_MAX);
    else
        gethostname(name, AGENT_TEXT_MAX - 1);
}
