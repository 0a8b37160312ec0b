/* deny ERROR CALL,CALL... PROGRAM ARGUMENTS: runs a program for which the kernel refuses some
 * system calls with an error, as in a container whose seccomp profile does not have them. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct { const char *name; int number; } calls[] = {
    { "memfd_create", SYS_memfd_create },
    { "process_vm_readv", SYS_process_vm_readv },
    { "process_vm_writev", SYS_process_vm_writev },
    { "sched_getaffinity", SYS_sched_getaffinity },
    { "sched_setaffinity", SYS_sched_setaffinity },
};

int main(int argc, char **argv)
{
    struct sock_filter filter[16];
    int n = 0, error;
    if (argc < 4) return 99;
    error = atoi(argv[1]);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *name = strtok(argv[2], ","); name != NULL; name = strtok(NULL, ","))
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
            if (strcmp(name, calls[c].name) == 0) {
                filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[c].number, 0, 1);
                filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
            }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { n, filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        return 98;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 97;
}
