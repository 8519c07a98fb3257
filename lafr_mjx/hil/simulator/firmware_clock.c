/* Preloaded into a firmware's process (LD_PRELOAD): its clock is its peer's, its doors are local.
 *
 * Over the socket FIRMWARE_LINK the peer grants time: "go on until t, when you have taken in so
 * many states and so many commands". The main thread runs until its clock is there, answers with
 * that moment, and waits. Its clock moves when it sleeps, and a little with each look at it, as
 * the firmware waits for a moment by looking. So what it computes takes no time, and the same
 * grants and datagrams lead to the same flight, to the last bit. The other threads, which only
 * serve sockets, run while the main thread waits, and never beside it.
 *
 * All its sockets are bound to FIRMWARE_ADDRESS, which must lie in 127.0.0.0/8, and its datagrams go
 * there only. It ends with its peer.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

enum { LOOK_NS = 200, KINDS = 2, MOST_DESCRIPTORS = 1024 };

static const uint16_t PORTS[KINDS] = {9003, 9004}; /* states, commands */

struct grant {
    int64_t until; /* ns since the start */
    uint64_t taken[KINDS];
};

static int peer = -1;
static struct in_addr home;
static pthread_t main_thread;
static int64_t now, until; /* ns; written by the main thread alone */

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* of the one thread that may run */
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static __thread int has_turn;
static pthread_key_t end_of_thread;
static signed char kind_of[MOST_DESCRIPTORS]; /* of a socket: 1 + its kind */
static int in_work[KINDS];
static uint64_t taken[KINDS]; /* datagrams, and all that they lead to */

static unsigned char bound[MOST_DESCRIPTORS];

static int (*real_select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
static ssize_t (*real_recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
static ssize_t (*real_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static int (*real_clock_gettime)(clockid_t, struct timespec *);

static void give_turn(void) {
    has_turn = 0;
    pthread_mutex_unlock(&turn);
}

static void at_end_of_thread(void *unused) {
    (void)unused;
    if (has_turn)
        give_turn();
}

static void take_turn(void) {
    pthread_mutex_lock(&turn);
    has_turn = 1;
    pthread_setspecific(end_of_thread, &turn);
}

static void fail(const char *text) {
    (void)!write(STDERR_FILENO, text, strlen(text));
    _exit(70);
}

__attribute__((constructor)) static void begin(void) {
    const char *link = getenv("FIRMWARE_LINK"), *address = getenv("FIRMWARE_ADDRESS");
    if (!link || !address || !inet_aton(address, &home) || ntohl(home.s_addr) >> 24 != 127)
        fail("firmware clock: FIRMWARE_LINK or FIRMWARE_ADDRESS is wrong\n");
    peer = atoi(link);
    real_select = REAL(select);
    real_recvfrom = REAL(recvfrom);
    real_sendto = REAL(sendto);
    real_clock_gettime = REAL(clock_gettime);
    unsetenv("LD_PRELOAD");
    main_thread = pthread_self();
    pthread_key_create(&end_of_thread, at_end_of_thread);
    take_turn();
}

/* The time that was granted is over: say so, and wait for more. */
static void wait_for_grant(void) {
    struct grant grant;
    give_turn();
    if (send(peer, &now, sizeof now, MSG_NOSIGNAL) != sizeof now ||
        recv(peer, &grant, sizeof grant, 0) != sizeof grant)
        _exit(0); /* our peer has gone */
    take_turn();
    until = grant.until;
    for (int kind = 0; kind < KINDS; kind++)
        while (taken[kind] < grant.taken[kind])
            pthread_cond_wait(&came, &turn);
}

static void go_on(int64_t nanoseconds) {
    int64_t goal = now + nanoseconds;
    while (goal > until) {
        if (now < until)
            now = until;
        wait_for_grant();
    }
    now = goal;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time) {
    if (clock != CLOCK_MONOTONIC)
        return real_clock_gettime(clock, time);
    if (pthread_equal(pthread_self(), main_thread))
        go_on(LOOK_NS);
    time->tv_sec = now / 1000000000;
    time->tv_nsec = now % 1000000000;
    return 0;
}

EXPORT int nanosleep(const struct timespec *asked, struct timespec *left) {
    (void)left;
    if (pthread_equal(pthread_self(), main_thread)) {
        go_on(asked->tv_sec * 1000000000 + asked->tv_nsec);
        return 0;
    }
    return clock_nanosleep(CLOCK_REALTIME, 0, asked, left);
}

EXPORT int usleep(useconds_t microseconds) {
    struct timespec asked = {microseconds / 1000000, microseconds % 1000000 * 1000};
    return nanosleep(&asked, NULL);
}

struct start {
    void *(*function)(void *);
    void *argument;
};

static void *in_turn(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    take_turn();
    return start.function(start.argument);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *), void *argument) {
    struct start *start = malloc(sizeof *start);
    if (!start)
        return EAGAIN;
    *start = (struct start){function, argument};
    return REAL(pthread_create)(thread, attributes, in_turn, start);
}

EXPORT int pthread_join(pthread_t thread, void **result) {
    int had = has_turn;
    if (had)
        give_turn();
    int answer = REAL(pthread_join)(thread, result);
    if (had)
        take_turn();
    return answer;
}

/* A thread that serves sockets waits here; what it had taken in before is done by now. */
EXPORT int select(int most, fd_set *read, fd_set *write, fd_set *except, struct timeval *time) {
    if (pthread_equal(pthread_self(), main_thread))
        return real_select(most, read, write, except, time);
    for (int fd = 0; read && fd < most && fd < MOST_DESCRIPTORS; fd++) {
        int kind = kind_of[fd] - 1;
        if (kind >= 0 && FD_ISSET(fd, read) && in_work[kind]) {
            in_work[kind] = 0;
            taken[kind]++;
            pthread_cond_broadcast(&came);
        }
    }
    give_turn();
    int answer = real_select(most, read, write, except, time);
    int error = errno;
    take_turn();
    errno = error;
    return answer;
}

EXPORT ssize_t recvfrom(int fd, void *data, size_t size, int flags, struct sockaddr *sender,
                        socklen_t *length) {
    ssize_t answer = real_recvfrom(fd, data, size, flags, sender, length);
    if (answer >= 0 && fd < MOST_DESCRIPTORS && kind_of[fd])
        in_work[kind_of[fd] - 1] = 1;
    return answer;
}

/* Serial ports are TCP servers on whatever address comes first: let that be one of IPv4. */
EXPORT int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                       struct addrinfo **found) {
    struct addrinfo wanted = {0};
    if (hints)
        wanted = *hints;
    wanted.ai_family = AF_INET;
    return REAL(getaddrinfo)(node, service, &wanted, found);
}

static int refuse(void) {
    errno = EACCES;
    return -1;
}

EXPORT int bind(int fd, const struct sockaddr *address, socklen_t length) {
    struct sockaddr_in local;
    if (address->sa_family != AF_INET || length < sizeof local || fd >= MOST_DESCRIPTORS)
        return refuse();
    memcpy(&local, address, sizeof local);
    local.sin_addr = home;
    for (int kind = 0; kind < KINDS; kind++)
        if (ntohs(local.sin_port) == PORTS[kind])
            kind_of[fd] = 1 + kind;
    bound[fd] = 1;
    return REAL(bind)(fd, (struct sockaddr *)&local, sizeof local);
}

EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags,
                      const struct sockaddr *address, socklen_t length) {
    const struct sockaddr_in *goal = (const struct sockaddr_in *)address;
    if (!address || address->sa_family != AF_INET || goal->sin_addr.s_addr != home.s_addr ||
        fd >= MOST_DESCRIPTORS)
        return refuse();
    struct sockaddr_in local = {.sin_family = AF_INET};
    if (!bound[fd] && bind(fd, (struct sockaddr *)&local, sizeof local))
        return -1;
    return real_sendto(fd, data, size, flags, address, length);
}
