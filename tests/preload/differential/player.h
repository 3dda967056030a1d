/*
 * player.h - a program that makes calls by chance, always the same ones for the same seed, and writes a line of each.
 *
 * test_differential.c runs it without the library and with it, and compares the lines. So nothing here may depend on
 * time, on an address, or on a port: its peers are played by itself, in turn, past the library, and after each call it
 * waits until all packets have arrived (player_settle). Everything is in one process that keeps to one processor.
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_PLAYER_H
#define SOCKFUSE_TESTS_PRELOAD_PLAYER_H

#include <signal.h>

#include "../support.h"

#define SLOTS 8
#define PEERS 8
#define ROOM 40000      /* bytes of one call, at the most */
#define DESCRIPTORS 128 /* RLIMIT_NOFILE */
/* A call that hangs is interrupted, so that the test ends; its line says so. */
#define HANGS_S 20

/* Where attempts go. */
enum place {
    PLACE_FOUR,     /* 127.0.0.1 */
    PLACE_SIX,      /* ::1 */
    PLACE_MAPPED,   /* the first one, as an IPv6 socket is told it */
    PLACE_PATH,     /* an AF_UNIX socket with a path */
    PLACE_ABSTRACT, /* an AF_UNIX socket with an abstract name */
    PLACE_REFUSED,  /* bound, nobody listens */
    PLACE_REFUSED_PATH,
    PLACE_HOLE, /* its queue is full, and attempts hang */
    PLACE_HOLE_PATH,
    PLACE_DATAGRAM, /* UDP */
    PLACES
};

struct place_address {
    int fd;
    struct sockaddr_storage at;
    socklen_t length;
};

struct player {
    /* What the present call is made on, for its line. */
    int fd;
    bool by_number; /* through syscall(2) */
    int error;      /* errno after it */
    /* The stage. Its own descriptors are those below `base`. */
    int base;
    struct place_address places[PLACES];
    int file, folder, pipe_out, pipe_in, epoll; /* strangers: a file with content, /, the two ends of a pipe */
    int slots[SLOTS];                           /* the calling side's descriptors; some are closed, or something else */
    int peers[PEERS];                           /* the other side's */
    unsigned int peer_sent[PEERS];              /* bytes that went into each */
    volatile sig_atomic_t broken_pipes, alarms; /* signals that came */
    void *forbidden;                            /* a page that can't be read */
    unsigned char bytes[ROOM];                  /* what is sent, and where it is received */
};
extern struct player player;

/* One kind of call. */
struct operation {
    const char *name;
    unsigned int weight; /* how often */
    void (*play)(void);
};
/* Each table ends with a NULL name. */
extern const struct operation attempts[], sends[], receives[], options[], descriptors[], peers[], processes[];

/* --- chance --- */

void chance_begin(uint64_t seed);
uint32_t chance(uint32_t below);
static inline bool once_in(uint32_t count)
{
    return chance(count) == 0;
}
#define ONE_OF(list) ((list)[chance(sizeof(list) / sizeof *(list))])

/* --- what calls are made with; each also becomes part of the line --- */

/* A descriptor, mostly one of the slots', sometimes a stranger or none. Also decides whether by number. */
int any_descriptor(void);
/* The same, and mostly one with something to read. */
int any_readable(void);
/* For functions that must not have a number of the stage's own. */
int any_target(void);
/* So many bytes that begin like the words of one protocol or another, in player.bytes. */
size_t any_bytes(void);
/*
 * Where to read or write: mostly player.bytes; else NULL, or forbidden. Never good for the first bytes alone: how many
 * of them go then depends on how full the kernel's own pages are.
 */
void *any_memory(void);
int any_send_flags(void);
/* An AF_UNIX socket: not for MSG_OOB, for in some kernels whoever peeks at that spins for ever. */
bool is_local(int fd);
int any_receive_flags(void);

/* --- lines --- */

#define SENTINEL 4242
/* The call, with errno as it left it in player.error. */
#define CALL(expression)                                                                                               \
    ({                                                                                                                 \
        errno = SENTINEL;                                                                                              \
        long call_result = (long)(expression);                                                                         \
        player.error = errno;                                                                                          \
        call_result;                                                                                                   \
    })
/* By its function, or by its number. */
#define EITHER(function, number) (player.by_number ? CALL(number) : CALL(function))

/* Writes the line of a call: its name, arguments, result, errno, signals, and what the descriptor is now. */
void told(const char *name, long result, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Into a line: what `count` bytes are. */
const char *digest(const void *bytes, size_t count);
/* Into a line: an address, without what the kernel chose. */
const char *address_text(const struct sockaddr_storage *address, socklen_t length);

/* --- the world --- */

/* Until all packets that are under way have arrived, and what they caused. */
void player_settle(void);
/* Lets the calling side's new connections in. */
void player_accept(void);
/* Reads what lies at the peers in heaps, so that no send finds a full buffer. */
void player_drain(void);
/* A socket in a slot. */
void player_keep(int fd);
/* Whether the number is open. */
bool is_open(int fd);
/* The family of a place's sockets. */
int place_family(enum place place);
/*
 * That place; for datagrams the one that takes them. Elsewhere they meet an ICMP error, or none when the kernel has
 * sent its share of them.
 */
enum place place_for(int fd, enum place place);
/* A blocking socket that is connected there, and its peer. */
bool connected_pair(enum place place, int *fd, int *peer);

/* Plays one seed; the scene of test_differential.c. */
int player_play(int argc, char **argv);

#endif
