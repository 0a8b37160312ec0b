/* Writes all packets of all networks to a file: listen FILE. It prints "listening", and goes on
 * until it is killed. */
#include <stdio.h>
#include <sys/socket.h>
#include <arpa/inet.h>
#include <linux/if_ether.h>
int main(int argc, char **argv)
{
    static char bytes[1 << 20];
    FILE *file = fopen(argv[1], "w");
    int all = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), buffer = 64 << 20;
    setsockopt(all, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
    puts("listening");
    fflush(stdout);
    for (;;) {
        ssize_t length = recv(all, bytes, sizeof bytes, 0);
        if (length > 0)
            fwrite(bytes, 1, length, file);
        fflush(file);
    }
}
