//! How much CPU time the reading of tables may take.
//!
//! A table may have millions of entries, and some kernels look for the place to go on from its start
//! again with each piece that is read (`ip_vs_conn_seq_start`, `net/netfilter/ipvs/ip_vs_conn.c`).

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::netlink::NetlinkError;

/// CPU time that is left, over all namespaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    whole: Duration,
    left: Duration,
}

/// A piece of work, from its start on, in one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spending {
    start: Duration,
    budget: Budget,
}

impl Budget {
    pub(crate) fn new(whole: Duration) -> Self {
        Self { whole, left: whole }
    }

    /// Does `work`, which asks its [`Spending`] whether it may go on.
    pub(crate) fn spend<T>(&mut self, work: impl FnOnce(&Spending) -> T) -> T {
        let spending = Spending { start: cpu_time(), budget: *self };
        let done = work(&spending);
        self.left = self.left.saturating_sub(spending.so_far());
        done
    }
}

impl Spending {
    /// Fails once the budget has been spent.
    pub(crate) fn check(&self) -> Result<(), NetlinkError> {
        if self.so_far() <= self.budget.left {
            Ok(())
        } else {
            Err(NetlinkError::OverBudget { budget: self.budget.whole })
        }
    }

    fn so_far(&self) -> Duration {
        cpu_time().saturating_sub(self.start)
    }
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_piece_of_work_took_the_next_does_not_have() {
        let mut budget = Budget::new(Duration::from_millis(5));
        let mut rounds = 0u64;
        let ended = budget.spend(|spending| {
            loop {
                rounds += 1;
                spending.check()?;
            }
        });
        let Err::<(), _>(NetlinkError::OverBudget { budget: whole }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(whole, Duration::from_millis(5));
        assert!(rounds > 1);
        assert!(budget.spend(Spending::check).is_err(), "nothing is left");
    }
}
