/* What the programs here use of the kernel's types. Offsets are the running kernel's: each access is relocated when
 * the object is loaded (CO-RE, by its BTF). Only fields that are named here have to be there.
 * The contexts of iterators and the helpers' numbers are the kernel's interface for programs (UAPI). */
#ifndef STILLOPEN_KERNEL_H
#define STILLOPEN_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define RELOCATED __attribute__((preserve_access_index))

/* As in libbpf: a map's settings are the types of its members. */
#define MAP_NUMBER(name, value) int (*name)[value]
#define MAP_TYPE(name, type) typeof(type) *name

typedef struct {
    long long counter;
} RELOCATED atomic64_t;

struct sock_common {
    unsigned long skc_flags;
    atomic64_t skc_cookie;
} RELOCATED;

struct sock {
    struct sock_common __sk_common;
} RELOCATED;

struct inet_sock {
    struct sock sk;
} RELOCATED;

struct inet_connection_sock {
    struct inet_sock icsk_inet;
    u32 icsk_user_timeout; /* milliseconds */
    u8 icsk_probes_out;
} RELOCATED;

struct tcp_sock {
    struct inet_connection_sock inet_conn;
    u32 keepalive_time;  /* jiffies; 0: the sysctl, as for the next two */
    u32 keepalive_intvl; /* jiffies */
    u8 keepalive_probes;
} RELOCATED;

struct socket {
    struct sock *sk;
} RELOCATED;

struct task_struct {
    int pid;
    int tgid;
} RELOCATED;

struct file;
struct seq_file;

struct bpf_iter_meta {
    struct seq_file *seq;
    u64 session_id;
    u64 seq_num;
};

struct bpf_iter__task_file {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
    u64 fd; /* 32 bits, and as many that are nothing */
    struct file *file;
};

struct bpf_iter__tcp {
    struct bpf_iter_meta *meta;
    struct sock_common *sk_common;
    u64 uid;
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_setsockopt)(void *socket, int level, int name, void *value, int length) = (void *)49;
static long (*bpf_seq_write)(struct seq_file *to, const void *bytes, u32 length) = (void *)127;
static struct tcp_sock *(*bpf_skc_to_tcp_sock)(void *socket) = (void *)137;
static struct socket *(*bpf_sock_from_file)(struct file *file) = (void *)162;

/* A path from the whole socket on: so an object names few of the types that the kernel has. */
#define common_of(tcp) ((tcp)->inet_conn.icsk_inet.sk.__sk_common)

#endif
