/* Starts a program as Docker's default seccomp profile would have it: what that denies to a container without
 * capabilities and matters here is denied with EPERM. With "no-seccomp" as the first argument seccomp(2) too,
 * as older and stricter profiles do; with "old-kernel" the flag of Linux 5.19 is EINVAL. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define DENY(nr, error) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), \
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))

int main(int count, char **arguments) {
    if (count < 3) return 100;
    int no_seccomp = strcmp(arguments[1], "no-seccomp") == 0;
    int old_kernel = strcmp(arguments[1], "old-kernel") == 0;
    struct sock_filter rules[] = {
        LOAD(nr),
        DENY(SYS_mount, EPERM), DENY(SYS_umount2, EPERM), DENY(SYS_pivot_root, EPERM),
        DENY(SYS_unshare, EPERM), DENY(SYS_setns, EPERM), DENY(SYS_clone3, ENOSYS),
        DENY(SYS_bpf, EPERM), DENY(SYS_perf_event_open, EPERM), DENY(SYS_keyctl, EPERM),
        DENY(SYS_userfaultfd, EPERM), DENY(SYS_kcmp, EPERM), DENY(SYS_process_vm_readv, EPERM),
        DENY(SYS_process_vm_writev, EPERM), DENY(SYS_ptrace, EPERM),
        DENY(438 /* pidfd_getfd */, EPERM), DENY(425 /* io_uring_setup */, EPERM),
        DENY(SYS_open_by_handle_at, EPERM), DENY(SYS_reboot, EPERM), DENY(SYS_setdomainname, EPERM),
        DENY(no_seccomp ? SYS_seccomp : SYS_quotactl, EPERM),
        /* clone with a new namespace */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4),
        LOAD(args[0]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7E020000, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, old_kernel ? SYS_seccomp : SYS_quotactl, 0, 3),
        LOAD(args[1]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1 << 5 /* WAIT_KILLABLE_RECV */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
        || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("container");
        return 100;
    }
    execvp(arguments[2], arguments + 2);
    perror(arguments[2]);
    return 100;
}
