//! The neighbour's times beside an attacker, and their limits.

use std::time::Duration;

use crate::Neighbour;

/// How long a neighbour's listings took, the shortest first. Also for how much of each it or the
/// server waited for a processor.
#[derive(Clone, Debug, Default)]
pub struct Times(Vec<(Duration, Duration)>);

impl Times {
    /// Of listings in any order.
    pub(crate) fn new(mut listings: Vec<(Duration, Duration)>) -> Self {
        listings.sort_unstable();
        Self(listings)
    }

    /// Listings.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The middle one.
    pub fn median(&self) -> Duration {
        self.0.get(self.0.len() / 2).map(|(took, _)| *took).unwrap_or_default()
    }

    /// The longest.
    pub fn worst(&self) -> Duration {
        self.0.last().map(|(took, _)| *took).unwrap_or_default()
    }

    /// The longest without the waits of both for a processor.
    pub fn worst_of_server(&self) -> Duration {
        self.of_server().max().unwrap_or_default()
    }

    /// 99 of 100 took at most this without those waits.
    pub fn most_of_server(&self) -> Duration {
        let mut times: Vec<Duration> = self.of_server().collect();
        times.sort_unstable();
        times.get(times.len() * 99 / 100).copied().unwrap_or_default()
    }

    fn of_server(&self) -> impl Iterator<Item = Duration> {
        self.0.iter().map(|(took, waited)| took.saturating_sub(*waited))
    }
}

/// How much longer times beside an attacker may be than those alone.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many times as long the median may be, and what 99 of 100 listings take.
    pub factor: f64,
    /// How much longer those 99 may take beside that: a turn of each of 500 other sessions.
    pub turns: Duration,
    /// How much longer the worst may be beside that: a turn of the processor among the attacker's
    /// own threads.
    pub grain: Duration,
}

impl Limits {
    /// The usual factor.
    pub const FACTOR: f64 = 2.0;
    /// The usual turns, in milliseconds.
    pub const TURNS_MS: u64 = 10;
    /// The usual grain, in milliseconds.
    pub const GRAIN_MS: u64 = 20;

    /// Judges times beside an attacker who has left. Returns the limits that they broke. If there
    /// are any, the neighbour is measured alone once more, and the slower times alone count: the
    /// processor's speed may have changed.
    pub fn judge(&self, neighbour: &Neighbour, times: &Times, alone: &mut Times) -> Vec<String> {
        let broken = self.broken(times, alone);
        if broken.is_empty() {
            return broken;
        }
        let again = neighbour.alone();
        if again.median() <= alone.median() {
            return broken;
        }
        *alone = again;
        self.broken(times, alone)
    }

    /// The limits that these times broke.
    fn broken(&self, times: &Times, alone: &Times) -> Vec<String> {
        let Self { factor, turns, grain } = self;
        let most = |time: Duration| time.mul_f64(*factor);
        let mut broken = Vec::new();
        if times.median() > most(alone.median()) {
            broken.push(format!("the neighbour's median is over {factor} times"));
        }
        // Where attackers compute on the same processors, the server waits for one. That is not its
        // own time.
        if times.most_of_server() > most(alone.most_of_server()) + *turns {
            broken.push(format!("1 % of the neighbour's times are over {factor} times and {turns:?}"));
        }
        if times.worst_of_server() > most(alone.worst()) + *grain {
            broken.push(format!("the neighbour's worst is over {factor} times and {grain:?}"));
        }
        broken
    }
}

impl Default for Limits {
    fn default() -> Self {
        let [turns, grain] = [Self::TURNS_MS, Self::GRAIN_MS].map(Duration::from_millis);
        Self { factor: Self::FACTOR, turns, grain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_listing_of_a_hundred_is_the_worst_and_not_among_the_most() {
        let ms = Duration::from_millis;
        let mut times: Vec<_> = (1..=199).map(|_| (ms(3), ms(1))).collect();
        times.push((ms(90), ms(20)));
        let times = Times::new(times);
        assert_eq!(times.most_of_server(), ms(2));
        assert_eq!(times.worst_of_server(), ms(70));
        assert_eq!(Times::default().most_of_server(), Duration::ZERO);
    }

    #[test]
    fn each_limit_is_broken_by_times_over_it() {
        let of = |listings: &[(usize, u64)]| {
            let each =
                |(count, ms): &(usize, u64)| vec![(Duration::from_millis(*ms), Duration::ZERO); *count];
            Times::new(listings.iter().flat_map(each).collect())
        };
        let (limits, alone) = (Limits::default(), of(&[(100, 1)]));
        let broken = |listings: &[(usize, u64)]| limits.broken(&of(listings), &alone);
        assert!(broken(&[(100, 2)]).is_empty());
        assert!(broken(&[(980, 2), (19, 12), (1, 22)]).is_empty());
        for (listings, limit) in [
            (&[(51, 3), (49, 1)][..], "median"),
            (&[(98, 1), (2, 13)][..], "1 %"),
            (&[(999, 1), (1, 23)][..], "worst"),
        ] {
            let broken = broken(listings);
            assert!(broken.len() == 1 && broken[0].contains(limit), "{limit}: {broken:?}");
        }
    }
}
