/* Sockets under abstract names, for programs that take the names of others. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* A socket of this name that listens with this backlog, or does not listen with 0. */
static int take(const char *name, int backlog) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    memcpy(address.sun_path + 1, name, length);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (fd < 0) fail("socket");
    if (bind(fd, (struct sockaddr *)&address, (socklen_t)(sizeof(sa_family_t) + 1 + length)) != 0) fail(name);
    if (backlog > 0 && listen(fd, backlog) != 0) fail("listen");
    return fd;
}
