// ranks: 2 8
// transports: one
/* The cost of MPI_Init in each rank's private memory and in the library's text, from the
 * kernel's numbers of the mappings before and after. Beyond a bound all programs have become
 * larger, and the output shows where. 'footprint STACK HEAP LIBRARY TEXT' gives other bounds, in
 * KiB: the default ones are those of a debug build, in which the text does not count. */
#include "check.h"

extern char **environ;

enum { STACK_KIB = 64, HEAP_KIB = 64, LIBRARY_KIB = 384, TEXT_KIB = 1 << 20 };

/* KiB */
struct memory {
    long stack, heap, library, text;
};

static struct memory now(void)
{
    struct memory sum = {0, 0, 0, 0};
    char line[512], path[512] = "", rights[8] = "";
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (!maps) return sum;
    while (fgets(line, sizeof line, maps)) {
        long kib;
        if (sscanf(line, "%*x-%*x %7s %*x %*s %*d %500[^\n]", rights, path) == 2) continue;
        if (sscanf(line, "%*x-%*x %7s", rights) == 1 && strstr(line, " 00:00 ")) {
            path[0] = '\0';
            continue;
        }
        int is_library = strstr(path, "libmpi_abi") != NULL;
        if (sscanf(line, "Rss: %ld", &kib) == 1 && is_library && rights[2] == 'x') sum.text += kib;
        /* Written pages of this process; pages of a library that was just installed are dirty,
         * too. */
        if (sscanf(line, "Anonymous: %ld", &kib) != 1) continue;
        if (strstr(path, "[stack]")) sum.stack += kib;
        if (strstr(path, "[heap]")) sum.heap += kib;
        if (is_library) sum.library += kib;
    }
    fclose(maps);
    return sum;
}

/* KiB of the copy of the environment from which parameters are read: the characters, and the
 * fixed cost of each variable. */
static long environment(void)
{
    long bytes = 0;
    for (char **at = environ; *at; at++) bytes += (long)strlen(*at) + 128;
    return bytes / 1024 + 1;
}

int main(int argc, char **argv)
{
    /* The memory that reading takes is in both numbers. */
    now();
    struct memory before = now();
    check_begin(&argc, &argv);
    struct memory after = now();
    long stack = after.stack - before.stack, heap = after.heap - before.heap;
    if (rank == 0)
        printf("after MPI_Init, in KiB: stack %ld more, heap %ld more, written of the library %ld, text %ld\n", stack, heap,
               after.library, after.text);
    struct memory most = {STACK_KIB, HEAP_KIB, LIBRARY_KIB, TEXT_KIB};
    if (argc == 5) most = (struct memory) {atol(argv[1]), atol(argv[2]), atol(argv[3]), atol(argv[4])};
    CHECK(after.text > 0);
    CHECK(stack <= most.stack);
    CHECK(heap <= most.heap + environment());
    CHECK(after.library <= most.library);
    CHECK(after.text <= most.text);
    return check_end();
}
