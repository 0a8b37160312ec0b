// ranks: 1 3
// transports: near
/* MPI_Init names the parent of this rank as a process that may trace it (PR_SET_PTRACER): with
 * Yama, the other ranks may then read its memory. A filter of system calls gives the call to a
 * handler, with and without Yama in the kernel. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined __x86_64__
#define ARGUMENT REG_RSI
#define RESULT REG_RAX
#endif

static volatile long named = -1;

#ifdef ARGUMENT
static void on_call(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *) context)->uc_mcontext.gregs;
    (void) signal, (void) info;
    named = (long) registers[ARGUMENT];
    registers[RESULT] = -EINVAL;
}

static int watch_calls(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_PTRACER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    return !sigaction(SIGSYS, &action, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
#endif

int main(int argc, char **argv)
{
#ifdef ARGUMENT
    int watches = watch_calls();
#endif
    check_begin(&argc, &argv);
#ifdef ARGUMENT
    if (watches) CHECK_EQ(named, (long) getppid());
#endif
    return check_end();
}
