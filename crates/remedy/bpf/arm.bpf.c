/* Turns keepalive on for the sockets of one network namespace that a table names by their cookies.
 * Filled and read back by src/arm.rs. */
#include "../../collect/bpf/kernel.h"

#define SOL_SOCKET 1
#define SO_KEEPALIVE 9
#define IPPROTO_TCP 6
#define TCP_KEEPIDLE 4
#define TCP_KEEPINTVL 5
#define TCP_KEEPCNT 6
/* What `stillopen ask` sets while it asks, and nobody else has a reason to (MAX_TCP_KEEPCNT, include/net/tcp.h). */
#define ASKING 127
#define ARMED 1

/* A cookie's slot is the one of its hash, or one of the next. Cookies come in long runs of neighbours: 2^64 divided by
 * the golden ratio scatters those. */
#define SCATTER 0x9e3779b97f4a7c15
#define TRIES 16

struct slot {
    u64 cookie; /* 0: empty */
    u16 idle;   /* seconds */
    u16 interval;
    u8 count;
    u8 state;
    u16 nothing;
};

struct {
    MAP_NUMBER(type, 2);          /* BPF_MAP_TYPE_ARRAY */
    MAP_NUMBER(map_flags, 1024);  /* BPF_F_MMAPABLE */
    MAP_NUMBER(max_entries, 256); /* set when it is loaded: a power of two */
    MAP_TYPE(key, u32);
    MAP_TYPE(value, struct slot);
} chosen SEC(".maps");

/* One less than the table has slots. */
const volatile u32 mask = 255;

static struct slot *slot_of(u64 cookie) {
    for (u32 next = 0; next < TRIES; next++) {
        u32 at = ((cookie * SCATTER >> 32) + next) & mask;
        struct slot *slot = bpf_map_lookup_elem(&chosen, &at);
        if (!slot || !slot->cookie) return 0;
        if (slot->cookie == cookie) return slot;
    }
    return 0;
}

static long set(struct tcp_sock *tcp, int level, int name, int value) {
    return bpf_setsockopt(tcp, level, name, &value, sizeof value);
}

/* The kernel holds the socket's lock meanwhile. */
SEC("iter/tcp")
int arm(struct bpf_iter__tcp *at) {
    if (!at->sk_common) return 0;
    struct tcp_sock *tcp = bpf_skc_to_tcp_sock(at->sk_common);
    if (!tcp) return 0;
    u64 cookie = common_of(tcp).skc_cookie.counter;
    struct slot *slot = cookie ? slot_of(cookie) : 0;
    if (!slot) return 0;
    /* Those that need a closer look are left to src/rescue.rs. */
    if (tcp->inet_conn.icsk_user_timeout) return 0;
    if (tcp->inet_conn.icsk_probes_out >= slot->count) return 0;
    if (tcp->keepalive_probes >= ASKING) return 0;
    /* TCP_KEEPIDLE last: src/keepalive.rs says why. */
    if (set(tcp, IPPROTO_TCP, TCP_KEEPINTVL, slot->interval)) return 0;
    if (set(tcp, IPPROTO_TCP, TCP_KEEPCNT, slot->count)) return 0;
    if (set(tcp, SOL_SOCKET, SO_KEEPALIVE, 1)) return 0;
    if (set(tcp, IPPROTO_TCP, TCP_KEEPIDLE, slot->idle)) return 0;
    slot->state = ARMED;
    return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
