/* Another user who takes the names of this user's sockets: squatter USER OF NAME. It becomes user USER, takes the names of all
   launchers of user OF, and that of what OF publishes as NAME; says so, and keeps them until its input ends. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void take(const char *name, int listens) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    memcpy(address.sun_path + 1, name, length);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (fd < 0) fail("socket");
    if (bind(fd, (struct sockaddr *)&address, (socklen_t)(sizeof(sa_family_t) + 1 + length)) != 0) fail(name);
    if (listens && listen(fd, 4) != 0) fail("listen");
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int user = atoi(argv[1]), of = atoi(argv[2]);
    struct rlimit files = {8192, 8192};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) fail("setrlimit");
    if (setgid(user) != 0 || setuid(user) != 0) fail("setuid");
    char name[100];
    for (int place = 1; place <= 4094; place++) {
        snprintf(name, sizeof name, "oxmpi.%d.%d", of, place);
        /* Some of them do not even listen. */
        take(name, place % 2);
    }
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *at = argv[3]; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
    snprintf(name, sizeof name, "oxmpi.%d.name.%016llx", of, (unsigned long long)hash);
    take(name, 1);
    printf("taken\n");
    fflush(stdout);
    while (getchar() != EOF) {}
    return 0;
}
