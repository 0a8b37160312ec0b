/* Takes all numbers of launchers of this user but some: places NUMBER... Prints that, accepts
 * and closes all connections, and keeps the numbers until its input ends. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "names.h"

enum { PLACES = 4094 };

int main(int argc, char **argv) {
    static struct pollfd all[PLACES + 1];
    int count = 1;
    struct rlimit files = {8192, 8192};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) fail("setrlimit");
    for (int place = 1; place <= PLACES; place++) {
        char name[100];
        int is_free = 0;
        for (int at = 1; at < argc; at++) is_free |= atoi(argv[at]) == place;
        snprintf(name, sizeof name, "oxmpi.%d.%d", (int)getuid(), place);
        if (!is_free) all[count++] = (struct pollfd){.fd = take(name, 64), .events = POLLIN};
    }
    all[0] = (struct pollfd){.fd = 0, .events = POLLIN};
    printf("taken\n");
    fflush(stdout);
    while (poll(all, (nfds_t)count, -1) > 0 && !all[0].revents) {
        for (int at = 1; at < count; at++) {
            if (all[at].revents) close(accept(all[at].fd, NULL, NULL));
        }
    }
    return 0;
}
