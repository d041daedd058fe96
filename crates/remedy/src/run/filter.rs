//! Which calls of socket(2) the supervisor is asked about: a classic BPF program over `struct seccomp_data`.
//!
//! Everything else goes on in the kernel as ever: other calls, other families and types, and calls of
//! another architecture's interface (i386, x32), whose numbers mean something else.

use std::mem::offset_of;

use libc::{
    AF_INET, AF_INET6, BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W,
    IPPROTO_MPTCP, IPPROTO_TCP, SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF, SOCK_CLOEXEC,
    SOCK_NONBLOCK, SOCK_STREAM, SYS_socket, c_int, seccomp_data, sock_filter,
};

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64` of `linux/audit.h`. An x32 call has the first, too, but bit 30
/// of its number set.
const ARCH: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xC000_003E)
} else if cfg!(target_arch = "aarch64") {
    Some(0xC000_00B7)
} else {
    None
};

/// The flags in the type of socket(2). With another one the kernel refuses the call itself.
const TYPE_FLAGS: c_int = SOCK_CLOEXEC | SOCK_NONBLOCK;

const LENGTH: usize = 16;

/// The program; `None`: of this architecture it is not known how its calls look.
pub(super) fn program() -> Option<[sock_filter; LENGTH]> {
    const ASK: usize = LENGTH - 1;
    const ALLOW: usize = LENGTH - 2;
    Some([
        load(offset_of!(seccomp_data, arch)),
        unless_equal(ARCH?, 1, ALLOW),
        load(offset_of!(seccomp_data, nr)),
        unless_equal(u32::try_from(SYS_socket).unwrap_or(u32::MAX), 3, ALLOW),
        load(argument(0)),
        if_equal(word(AF_INET), 5, 7),
        unless_equal(word(AF_INET6), 6, ALLOW),
        load(argument(1)),
        statement(BPF_ALU | BPF_AND | BPF_K, !word(TYPE_FLAGS)),
        unless_equal(word(SOCK_STREAM), 9, ALLOW),
        load(argument(2)),
        if_equal(0, 11, ASK),
        if_equal(word(IPPROTO_TCP), 12, ASK),
        if_equal(word(IPPROTO_MPTCP), 13, ASK),
        statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        statement(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    ])
}

/// Where the low word of an argument is: the kernel reads each argument of socket(2) as an `int`, and both
/// architectures are little-endian.
fn argument(index: usize) -> usize {
    offset_of!(seccomp_data, args) + index * size_of::<u64>()
}

fn word(value: c_int) -> u32 {
    value.cast_unsigned()
}

/// Of so few instructions and of codes below 256 the numbers fit.
fn narrow<T: TryFrom<usize> + Default>(value: usize) -> T {
    T::try_from(value).unwrap_or_default()
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: narrow(code as usize), jt: 0, jf: 0, k }
}

fn load(offset: usize) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, narrow(offset))
}

/// As instruction `here`: goes on behind it where the accumulator is `k`, else to `target`.
fn unless_equal(k: u32, here: usize, target: usize) -> sock_filter {
    sock_filter { jf: narrow(target - here - 1), ..statement(BPF_JMP | BPF_JEQ | BPF_K, k) }
}

/// As instruction `here`: goes to `target` where the accumulator is `k`, else on behind it.
fn if_equal(k: u32, here: usize, target: usize) -> sock_filter {
    sock_filter { jt: narrow(target - here - 1), ..statement(BPF_JMP | BPF_JEQ | BPF_K, k) }
}

#[cfg(test)]
mod tests {
    use libc::{AF_UNIX, IPPROTO_UDP, SOCK_DGRAM, SOCK_SEQPACKET};

    use super::*;

    /// What the kernel makes of a call: the instructions that the program uses, run.
    fn outcome(nr: u32, arch: u32, args: [u64; 3]) -> u32 {
        let mut data = [0_u8; size_of::<seccomp_data>()];
        let mut put = |at: usize, bytes: &[u8]| data[at..at + bytes.len()].copy_from_slice(bytes);
        put(offset_of!(seccomp_data, nr), &nr.to_le_bytes());
        put(offset_of!(seccomp_data, arch), &arch.to_le_bytes());
        for (index, arg) in args.iter().enumerate() {
            put(argument(index), &arg.to_le_bytes());
        }
        let program = program().unwrap();
        let (mut accumulator, mut at) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    let word = data[k as usize..][..4].try_into().unwrap();
                    accumulator = u32::from_le_bytes(word);
                }
                code if code == BPF_ALU | BPF_AND | BPF_K => accumulator &= k,
                code if code == BPF_JMP | BPF_JEQ | BPF_K => {
                    at += usize::from(if accumulator == k { jt } else { jf });
                }
                code if code == BPF_RET | BPF_K => return k,
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    fn asked(domain: c_int, r#type: c_int, protocol: c_int) -> bool {
        let args = [domain, r#type, protocol].map(|arg| u64::from(word(arg)));
        // The upper halves of the registers mean nothing to the kernel.
        let dirty = args.map(|arg| arg | 0xdead_beef << 32);
        let nr = u32::try_from(SYS_socket).unwrap();
        let outcomes = [args, dirty].map(|args| outcome(nr, ARCH.unwrap(), args));
        assert_eq!(outcomes[0], outcomes[1]);
        outcomes[0] == SECCOMP_RET_USER_NOTIF
    }

    #[test]
    fn tcp_and_nothing_else_is_asked_about() {
        for domain in [AF_INET, AF_INET6] {
            for flags in [0, SOCK_CLOEXEC, SOCK_NONBLOCK, TYPE_FLAGS] {
                for protocol in [0, IPPROTO_TCP, IPPROTO_MPTCP] {
                    assert!(asked(domain, SOCK_STREAM | flags, protocol));
                    assert!(!asked(AF_UNIX, SOCK_STREAM | flags, protocol));
                }
                for other in [IPPROTO_UDP, 132, -1] {
                    assert!(!asked(domain, SOCK_STREAM | flags, other));
                }
                for other in [SOCK_DGRAM, SOCK_SEQPACKET, 0, -1] {
                    assert!(!asked(domain, other | flags, 0));
                }
            }
            assert!(!asked(domain, SOCK_STREAM | 0x10, 0), "the kernel says EINVAL");
        }
    }

    #[test]
    fn other_calls_and_other_interfaces_are_left_to_the_kernel() {
        let nr = u32::try_from(SYS_socket).unwrap();
        let args = [AF_INET, SOCK_STREAM, 0].map(|arg| u64::from(word(arg)));
        // i386 knows 41 as dup(2).
        for (nr, arch) in
            [(nr, 0x4000_0003), (nr | 0x4000_0000, ARCH.unwrap()), (nr + 1, ARCH.unwrap())]
        {
            assert_eq!(outcome(nr, arch, args), SECCOMP_RET_ALLOW);
        }
        assert_eq!(outcome(nr, ARCH.unwrap(), args), SECCOMP_RET_USER_NOTIF);
    }
}
