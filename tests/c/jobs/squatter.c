/* Another user takes the names of this user's sockets: squatter USER OF NAME. It becomes USER,
 * takes the names of all launchers of user OF, and that of OF's published NAME; prints that, and
 * keeps them until its input ends. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "names.h"

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int user = atoi(argv[1]), of = atoi(argv[2]);
    struct rlimit files = {8192, 8192};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) fail("setrlimit");
    if (setgid(user) != 0 || setuid(user) != 0) fail("setuid");
    char name[100];
    for (int place = 1; place <= 4094; place++) {
        snprintf(name, sizeof name, "oxmpi.%d.%d", of, place);
        /* Some of them do not listen. */
        take(name, 4 * (place % 2));
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
