//! What became of the sockets.

use std::collections::BTreeMap;

/// How many sockets were armed, and how many calls were left to the kernel, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Made with keepalive on.
    pub armed: u64,
    /// Were there before the program, and got keepalive.
    pub inherited: u64,
    /// Left alone.
    pub left_alone: BTreeMap<Why, u64>,
}

/// Why a socket was left alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its process is in another network namespace.
    Namespace,
    /// Its process acts as another user or group.
    User,
    /// Its process is in another cgroup.
    Cgroup,
    /// What its process is may not be looked at: it is not dumpable, or more privileged.
    NotReadable,
    /// The kernel refused the supervisor this operation with this error number. The program's own call was
    /// left to the kernel, and told it the same where it holds for both.
    Refused(&'static str, i32),
}

impl Counts {
    /// One more that is left alone.
    pub(super) fn leave_alone(&mut self, why: Why) {
        *self.left_alone.entry(why).or_default() += 1;
    }
}
