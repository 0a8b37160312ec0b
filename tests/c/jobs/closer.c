/* Closes all descriptors but the standard ones and runs a program: closer exec|fork PROGRAM
 * ARGUMENTS. Many wrappers do so, for example Python's subprocess. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int status = 0;
    if (argc < 3) return 2;
    if (!strcmp(argv[1], "exec") || fork() == 0) {
        for (int i = 3; i < 1024; i++) close(i);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    wait(&status);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
