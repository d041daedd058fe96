/* Who holds which TCP socket, and the socket's options: one record for each descriptor of each process.
 * Read by src/process/iterate.rs. */
#include "kernel.h"

/* enum sock_flags (include/net/sock.h) */
#define SOCK_KEEPOPEN 3

struct record {
    u64 cookie;
    u32 pid;
    u32 fd;
    u32 idle;     /* jiffies; 0: the sysctl, as for the next two */
    u32 interval; /* jiffies */
    u32 user_timeout; /* milliseconds */
    u8 count;
    u8 keepalive;
    u16 nothing;
};

SEC("iter/task_file")
int owners(struct bpf_iter__task_file *at) {
    struct task_struct *task = at->task;
    struct file *file = at->file;
    if (!task || !file) return 0;
    /* Of a thread with a table of files of its own /proc/PID/fd shows nothing, either. */
    if (task->pid != task->tgid) return 0;
    struct socket *socket = bpf_sock_from_file(file);
    if (!socket || !socket->sk) return 0;
    struct tcp_sock *tcp = bpf_skc_to_tcp_sock(socket->sk);
    if (!tcp) return 0;
    struct record record = {.cookie = common_of(tcp).skc_cookie.counter};
    /* It has none yet: it was not in the list that gives each socket one. */
    if (!record.cookie) return 0;
    record.pid = task->tgid;
    record.fd = at->fd;
    record.idle = tcp->keepalive_time;
    record.interval = tcp->keepalive_intvl;
    record.user_timeout = tcp->inet_conn.icsk_user_timeout;
    record.count = tcp->keepalive_probes;
    record.keepalive = common_of(tcp).skc_flags >> SOCK_KEEPOPEN & 1;
    bpf_seq_write(at->meta->seq, &record, sizeof record);
    return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
