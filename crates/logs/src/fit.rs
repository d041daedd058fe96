//! The limit that fits: what was silent for longer was lost, what was not arrived.
//!
//! A silence is known as an interval, and a limit may act late: a Linux kernel's timer by up to its wheel's
//! granularity. So an answer contradicts a limit only where it arrived although it was silent for longer than
//! the limit and its slack, or was lost although it was silent for less.

use std::time::Duration;

use stillopen_model::wheel_slack;

use crate::{event::Millis, silence::duration};

/// The tick rate of most kernels that forward packets: Debian's, Ubuntu's and the clouds'.
pub(crate) const USUAL_HZ: u32 = 250;

/// A limit, from the survivors and the losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fit {
    pub(crate) low: Millis,
    pub(crate) high: Millis,
    pub(crate) best: Millis,
    /// Answers that the best limit does not explain: lost ones that were silent for less.
    pub(crate) lost_below: u64,
    /// And those that arrived although they were silent for longer.
    pub(crate) arrived_above: u64,
}

/// What is known of the answers that were sent while the client waited.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// Of those that arrived: the lower bounds, and the upper ones.
    pub(crate) arrived_low: Vec<Milli32>,
    pub(crate) arrived_high: Vec<Milli32>,
    /// Of those that were lost: the upper bounds.
    pub(crate) lost_high: Vec<Milli32>,
}

/// Milliseconds of a silence: 49 days, which a longer one counts as.
pub(crate) type Milli32 = u32;

pub(crate) fn milli32(ms: Millis) -> Milli32 {
    Milli32::try_from(ms.max(0)).unwrap_or(Milli32::MAX)
}

/// The chance of seeing this by luck that is still believed.
const BY_LUCK: f64 = 0.01;
/// Of the losses, so many may contradict a limit: a client that died, a packet lost otherwise.
const CONTRADICTING: f64 = 0.1;
/// How often a lost answer has to have been silent for longer than one that arrived.
const LONGER: f64 = 0.9;

/// A cap that answers arrived after is none; a timer is checked late by as much.
pub(crate) const CAP_SLACK: Millis = 1000;

/// What came of looking for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Limit(Fit),
    /// There are enough, and none fits.
    None,
    TooFew,
}

/// Looks for a limit.
pub(crate) fn fit(sample: &mut Sample) -> Found {
    sample.lost_high.sort_unstable();
    let (arrived, lost) = (sample.arrived_high.len(), sample.lost_high.len());
    if !enough(arrived, lost) {
        return Found::TooFew;
    }
    let at_least = AtLeast::of(&sample.arrived_low, sample.lost_high[0]);
    let Some(fit) = fewest_contradictions(&at_least, &sample.lost_high) else {
        return Found::None;
    };
    let contradicting = fit.lost_below + fit.arrived_above;
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let few = contradicting as f64 <= CONTRADICTING * lost as f64;
    if few && longer(&sample.arrived_high, &sample.lost_high) >= LONGER {
        Found::Limit(fit)
    } else {
        Found::None
    }
}

/// Whether the longest of all would hardly be the lost ones by luck: 1 in `arrived + lost` over `lost`.
pub(crate) fn enough(arrived: usize, lost: usize) -> bool {
    let fewer = arrived.min(lost);
    let mut luck = 1.0;
    for i in 1..=fewer {
        #[expect(clippy::cast_precision_loss, reason = "a chance")]
        let factor = i as f64 / (arrived + lost - fewer + i) as f64;
        luck *= factor;
        if luck <= BY_LUCK {
            return true;
        }
    }
    false
}

/// How often, of all pairs, a lost answer was silent for longer than one that arrived. `lost` is in order.
fn longer(arrived: &[Milli32], lost: &[Milli32]) -> f64 {
    let shortest = lost.first().copied().unwrap_or(0);
    let longer_lost = |arrived: &Milli32| {
        // Almost all are.
        if *arrived < shortest {
            lost.len()
        } else {
            lost.len() - lost.partition_point(|loss| loss <= arrived)
        }
    };
    let pairs: u64 = arrived.iter().map(|arrived| longer_lost(arrived) as u64).sum();
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let share = pairs as f64 / (arrived.len() as f64 * lost.len() as f64);
    share
}

/// The least limit that each arrival allows.
struct AtLeast {
    /// The highest, of arrivals that were silent for no longer than the shortest loss: what explains them contradicts
    /// no loss, so the others of them play no part.
    of_short: Milli32,
    /// Of the longer ones, in order.
    long: Vec<Milli32>,
}

impl AtLeast {
    /// `arrived` are the lower bounds of the silences, `shortest_lost` is the shortest upper bound of a loss.
    fn of(arrived: &[Milli32], shortest_lost: Milli32) -> Self {
        let mut at_least = Self { of_short: 0, long: Vec::new() };
        for &low in arrived {
            if low > shortest_lost {
                at_least.long.push(without_slack(low));
            } else if low > at_least.of_short {
                // Without its slack it is no higher, but may be less.
                at_least.of_short = at_least.of_short.max(without_slack(low));
            }
        }
        at_least.long.sort_unstable();
        at_least
    }
}

/// `at_most` is the most that each loss allows, in order. `None`: every limit is below a loss that it does not explain.
fn fewest_contradictions(at_least: &AtLeast, at_most: &[Milli32]) -> Option<Fit> {
    let mut best: Option<(usize, Fit)> = None;
    // Contradictions change at these points only: where all short arrivals are explained, and where another one is.
    let mut lost_below = 0;
    let AtLeast { of_short, long } = at_least;
    for explained in 0..=long.len() {
        // Slack may make a long one's limit lower than a short one's.
        let low = explained.checked_sub(1).map_or(0, |last| long[last]).max(*of_short);
        if long.get(explained).is_some_and(|next| *next <= low) {
            continue;
        }
        while at_most.get(lost_below).is_some_and(|high| *high < low) {
            lost_below += 1;
        }
        // Up to the next loss it explains as many.
        let Some(&high) = at_most.get(lost_below) else { break };
        let arrived_above = long.len() - explained;
        let fit = Fit {
            low: low.into(),
            high: high.into(),
            best: 0,
            lost_below: lost_below as u64,
            arrived_above: arrived_above as u64,
        };
        let contradictions = arrived_above + lost_below;
        let better = |&(fewest, old): &(usize, Fit)| {
            let wider = fit.high - fit.low > old.high - old.low;
            contradictions < fewest || (contradictions == fewest && wider)
        };
        if best.as_ref().is_none_or(better) {
            best = Some((contradictions, fit));
        }
    }
    best.map(|(_, fit)| Fit { best: best_between(fit.low, fit.high), ..fit })
}

/// The smallest limit that, with its slack, lets a silence of `low` through.
fn without_slack(low: Milli32) -> Milli32 {
    let slack = |limit: Milli32| {
        let late = wheel_slack(Duration::from_millis(limit.into()), USUAL_HZ);
        milli32(Millis::try_from(late.as_millis()).unwrap_or(Millis::MAX))
    };
    // The slack grows in steps with the limit: that of the result is no more than that of `low`.
    let first = low.saturating_sub(slack(low));
    let with_less = low.saturating_sub(slack(first));
    if with_less.saturating_add(slack(with_less)) >= low { with_less } else { first }
}

/// Seconds that people set limits in, the roundest first.
const ROUND: [Millis; 7] = [3600, 1800, 900, 600, 300, 60, 50];
const LESS_ROUND: [Millis; 4] = [30, 10, 5, 1];

/// A limit that explains what arrived by its slack has to be so much rounder than one that needs none.
const ROUNDER: Millis = 10;

/// The roundest limit. One that needs no slack to explain what arrived is likelier than another.
fn best_between(low: Millis, high: Millis) -> Millis {
    let late = wheel_slack(duration(low), USUAL_HZ).as_millis();
    let without = low + if low > 0 { Millis::try_from(late).unwrap_or(0) } else { 0 };
    let (all, likelier) = (largest(&ROUND, low, high), largest(&ROUND, without, high));
    match (likelier, all) {
        (Some(likelier), Some(all)) if all.0 < likelier.0 * ROUNDER => likelier.1,
        (_, Some(all)) => all.1,
        _ => largest(&LESS_ROUND, low, high).map_or(low.midpoint(high), |(_, limit)| limit),
    }
}

/// The first of `steps` that has a multiple above `low` and up to `high`, and the last such: a limit may be late
/// and is never early, so it is near the shortest loss.
fn largest(steps: &[Millis], low: Millis, high: Millis) -> Option<(Millis, Millis)> {
    steps
        .iter()
        .map(|&step| (step, high.div_euclid(step * 1000) * step * 1000))
        .find(|&(_, last)| last > low)
}

impl Fit {
    pub(crate) fn slack(&self) -> Duration {
        wheel_slack(duration(self.best), USUAL_HZ)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(arrived_s: &[f64], lost_s: &[f64]) -> Found {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a test")]
        let ms = |s: &[f64]| s.iter().map(|s| (s * 1000.0) as u32).collect::<Vec<_>>();
        let mut sample = Sample {
            arrived_low: ms(arrived_s),
            arrived_high: ms(arrived_s),
            lost_high: ms(lost_s),
        };
        fit(&mut sample)
    }

    fn limit(arrived_s: &[f64], lost_s: &[f64]) -> Fit {
        match found(arrived_s, lost_s) {
            Found::Limit(fit) => fit,
            other => panic!("{other:?}"),
        }
    }

    const QUICK: [f64; 10] = [1.0, 5.0, 30.0, 60.0, 100.0, 150.0, 200.0, 250.0, 280.0, 300.0];

    #[test]
    fn what_is_longer_is_lost() {
        let fit = limit(&QUICK, &[351.0, 360.0, 400.0, 1000.0]);
        assert_eq!((fit.high, fit.best), (351_000, 350_000));
        assert_eq!(fit.low, 300_000 - 16_384);
        assert_eq!((fit.lost_below, fit.arrived_above), (0, 0));
    }

    #[test]
    fn an_overlap_within_the_slack_is_no_contradiction() {
        let arrived = [&QUICK[..], &[600.0, 890.0, 904.0]].concat();
        let fit = limit(&arrived, &[902.0, 905.0, 930.0, 1000.0]);
        assert_eq!((fit.low, fit.best, fit.high), (904_000 - 16_384, 900_000, 902_000));
        assert_eq!(fit.lost_below + fit.arrived_above, 0);
    }

    #[test]
    fn a_few_contradictions_are_counted() {
        let lost: Vec<f64> = (0..20).map(|i| 902.0 + f64::from(i)).chain([12.0]).collect();
        let fit = limit(&[&QUICK[..], &[880.0]].concat(), &lost);
        assert_eq!((fit.best, fit.lost_below, fit.arrived_above), (900_000, 1, 0));
    }

    #[test]
    fn random_losses_have_no_limit_and_few_say_nothing() {
        let lost: Vec<f64> = (0..10).map(|i| f64::from(i) * 30.0 + 3.0).collect();
        assert_eq!(found(&QUICK, &lost), Found::None);
        assert_eq!(found(&QUICK[..2], &[400.0]), Found::TooFew);
        assert_eq!(found(&[], &[]), Found::TooFew);
        assert_eq!(found(&[], &[400.0; 100]), Found::TooFew);
    }

    #[test]
    fn arrivals_that_no_limit_has_to_explain_play_no_part() {
        let mut random = 2457_u32;
        let mut draw = |most: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 8) % most
        };
        for _ in 0..1000 {
            let most = [20, 1000, 2_000_000][draw(3) as usize];
            let arrived: Vec<u32> = (0..draw(12)).map(|_| draw(most) + 1).collect();
            let mut lost: Vec<u32> = (0..=draw(6)).map(|_| draw(most) + most / 3).collect();
            lost.sort_unstable();
            let all = fewest_contradictions(&AtLeast::of(&arrived, 0), &lost);
            let fit = fewest_contradictions(&AtLeast::of(&arrived, lost[0]), &lost);
            assert_eq!(fit, all, "{arrived:?} {lost:?}");
        }
    }

    #[test]
    fn slack_is_taken_off_by_the_limit_that_it_belongs_to() {
        for low in [0, 1, 63_000, 100_000, 129_024, 140_000, 1_032_000, 1_050_000, u32::MAX] {
            let limit = without_slack(low);
            let late = wheel_slack(Duration::from_millis(limit.into()), USUAL_HZ).as_millis();
            assert!(u128::from(limit) + late + 1 >= u128::from(low), "{low} {limit} {late}");
        }
    }

    #[test]
    fn the_roundest_is_taken() {
        for (low, high, best) in [
            (887_600, 902_000, 900_000),
            (334_000, 352_000, 350_000),
            (230_000, 246_000, 240_000),
            (590_000, 640_000, 600_000),
            (3_500_000, 3_700_000, 3_600_000),
            (61_100, 61_900, 61_500),
            (300_000 - 16_384, 351_000, 350_000),
        ] {
            assert_eq!(best_between(low, high), best);
        }
    }
}
