//! Think times: how long a virtual user waits between transactions.

use std::time::Duration;

use crate::random::Random;

/// A distribution of think times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Think {
    /// Always this; 0 for none.
    Fixed(f64),
    /// Anywhere between.
    Uniform(f64, f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Lognormal with this mean and sigma.
    Lognormal(f64, f64),
}

impl Think {
    /// The longest think time drawn: ten means of the distribution would otherwise be met now and
    /// then.
    const SECONDS_MAX: f64 = 3600.0;

    /// One think time.
    pub fn draw(self, random: &mut Random) -> Duration {
        let seconds = match self {
            Self::Fixed(s) => s,
            Self::Uniform(low, high) => low + (high - low) * random.unit(),
            Self::Exponential(mean) => random.exponential(mean),
            Self::Lognormal(mean, sigma) => random.lognormal(mean, sigma),
        };
        Duration::from_secs_f64(seconds.clamp(0.0, Self::SECONDS_MAX))
    }

    /// A distribution whose times are shorter by this factor.
    #[must_use]
    pub fn faster(self, speed: f64) -> Self {
        match self {
            Self::Fixed(s) => Self::Fixed(s / speed),
            Self::Uniform(low, high) => Self::Uniform(low / speed, high / speed),
            Self::Exponential(mean) => Self::Exponential(mean / speed),
            Self::Lognormal(mean, sigma) => Self::Lognormal(mean / speed, sigma),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_s(think: Think) -> f64 {
        match think {
            Think::Fixed(s) | Think::Exponential(s) | Think::Lognormal(s, _) => s,
            Think::Uniform(low, high) => (low + high) / 2.0,
        }
    }

    #[test]
    fn means_are_met() {
        for think in [Think::Uniform(2.0, 18.0), Think::Exponential(10.0), Think::Lognormal(10.0, 0.5)] {
            let mut random = Random::new(1, 1);
            let sum: f64 = (0..50_000).map(|_| think.draw(&mut random).as_secs_f64()).sum();
            assert_eq!(mean_s(think.faster(2.0)) * 2.0, mean_s(think));
            assert!((sum / 50_000.0 / mean_s(think) - 1.0).abs() < 0.03);
        }
    }
}
