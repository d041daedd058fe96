//! Times that are all but the same: what a timer makes.

use crate::event::Millis;

/// A time that a timer keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constant {
    pub(crate) at: Millis,
    /// How many keep to it.
    pub(crate) count: u64,
}

/// Programs check their timers late by this much, or by a part of the time.
const WITHIN: Millis = 1000;
const WITHIN_PART: Millis = 200;
/// So many in a hundred have to keep to it.
const MOST: usize = 60;

/// The time that most of `times` keep to, if at least `least` do.
pub(crate) fn constant(times: &mut [Millis], least: usize) -> Option<Constant> {
    times.sort_unstable();
    let mut best = 0..0;
    let mut first = 0;
    for last in 0..times.len() {
        while times[last] - times[first] > WITHIN.max(times[last] / WITHIN_PART) {
            first += 1;
        }
        if last + 1 - first > best.len() {
            best = first..last + 1;
        }
    }
    let enough = best.len() >= least.max(1) && best.len() * 100 >= times.len() * MOST;
    enough.then(|| Constant {
        at: to_second(times[best.start + best.len() / 2]),
        count: best.len() as u64,
    })
}

/// Timers are set in seconds: what is near to one is one.
fn to_second(ms: Millis) -> Millis {
    let second = (ms + 500).div_euclid(1000) * 1000;
    if ms >= 10_000 { second } else { ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_have_to_keep_to_it() {
        let of = |times: &[Millis]| constant(&mut times.to_vec(), 3).map(|c| (c.at, c.count));
        assert_eq!(of(&[300_010, 300_400, 300_100, 12_000]), Some((300_000, 3)));
        assert_eq!(of(&[3_600_000, 3_610_000, 3_600_002]), Some((3_600_000, 3)));
        assert_eq!(of(&[300_010, 300_400]), None);
        assert_eq!(of(&[100_000, 200_000, 300_000, 400_000]), None);
        assert_eq!(of(&[]), None);
    }
}
