/* Another user disturbs a job: attacker USER ACT NAME... It becomes USER, prints "ready", and goes
 * on until it is killed.
 *
 * listen, close, rubbish, full, bind: takes the abstract names of sockets. It accepts no
 * connection, closes each, answers each with rubbish, has no room for one, or does not listen.
 * call: connects with the sockets of these names as soon as they exist, many times.
 * flood: connects with TCP ports of 10.77.0.1, many times. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNECTIONS = 600 };

static void fail(const char *call)
{
    perror(call);
    exit(1);
}

static socklen_t address_of(struct sockaddr_un *address, const char *name)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name, strlen(name));
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static int connected(const char *name, int port)
{
    struct sockaddr_un address;
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons((unsigned short) port)};
    int is_far = port != 0, bad;
    int fd = is_far ? socket(AF_INET, SOCK_STREAM, 0) : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (is_far) {
        inet_pton(AF_INET, "10.77.0.1", &far.sin_addr);
        bad = connect(fd, (struct sockaddr *) &far, sizeof far);
    } else {
        socklen_t length = address_of(&address, name);
        bad = connect(fd, (struct sockaddr *) &address, length);
    }
    if (!bad) return fd;
    close(fd);
    return -1;
}

/* Connects again and again: with silence, with rubbish, and with the first bytes of a caller. */
static void call(char **names, int count, int is_far)
{
    static int open[CONNECTIONS];
    for (unsigned n = 0;; n++) {
        int *place = &open[n % CONNECTIONS];
        if (*place > 0) close(*place);
        const char *name = names[n % count];
        *place = connected(name, is_far ? atoi(name) : 0);
        if (*place > 0 && n % 3 == 1) send(*place, "rubbish, and more rubbish", 25, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (*place > 0 && n % 3 == 2)
            send(*place, "OxMPI caller 001\1\0\0\0rubbish", 27, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (*place < 0 || n % 50 == 0) usleep(1000);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    int user = atoi(argv[1]), count = argc - 3, listeners[8];
    const char *act = argv[2];
    struct rlimit files = {2048, 2048};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) fail("setrlimit");
    if (setgid((gid_t) user) != 0 || setuid((uid_t) user) != 0) fail("setuid");
    int calls = !strcmp(act, "call"), floods = !strcmp(act, "flood"), is_full = !strcmp(act, "full");
    for (int i = 0; i < count && !calls && !floods; i++) {
        struct sockaddr_un address;
        socklen_t length = address_of(&address, argv[3 + i]);
        listeners[i] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (bind(listeners[i], (struct sockaddr *) &address, length) != 0) fail("bind");
        if (strcmp(act, "bind") && listen(listeners[i], is_full ? 0 : 100) != 0) fail("listen");
        if (is_full && connected(argv[3 + i], 0) < 0) fail("connect");
    }
    puts("ready");
    fflush(stdout);
    if (calls || floods) call(argv + 3, count, floods);
    while (strcmp(act, "close") && strcmp(act, "rubbish")) pause();
    for (;;) {
        int socket = accept(listeners[0], NULL, NULL);
        if (socket < 0) continue;
        if (!strcmp(act, "rubbish")) send(socket, "rubbish", 7, MSG_NOSIGNAL);
        close(socket);
    }
}
