//! The sizes of messages.

use std::str::FromStr;

use posthaste_load_text::quantity;

use crate::random::Random;

/// A distribution of message sizes (whole messages, in bytes).
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Seed 000's: HTML, 75 kB on average.
    Html,
    /// Seed 002's: text, HTML and both, a wide variety of sizes, one in ten with an attachment. The
    /// factor makes all of them smaller or larger.
    Wide(f64),
    /// All the same.
    Fixed(u64),
    /// Lognormal: mean and sigma.
    Lognormal(u64, f64),
    /// Anywhere between.
    Uniform(u64, u64),
    /// Sizes by weight.
    Histogram(Vec<(u64, f64)>),
}

impl Sizes {
    /// The smallest message made: headers and a line.
    pub const BYTES_MIN: u64 = 700;
    /// The largest message made: 20 MB, below what servers take by default.
    pub const BYTES_MAX: u64 = 20_000_000;
    /// Mean of [`Sizes::Html`], as seed 000 prints it.
    const HTML_MEAN_BYTES: u64 = 75_000;
    /// Spread of [`Sizes::Html`]; the article gives none.
    const HTML_SIGMA: f64 = 0.8;
    /// Means of [`Sizes::Wide`] without and with attachment; the article says "a wide variety".
    const WIDE_MEAN_BYTES: [u64; 2] = [9_000, 250_000];
    /// The distribution's spread.
    const WIDE_SIGMA: f64 = 1.2;

    /// One size. `attachment`: for the wide mix, whether this message has one.
    pub(super) fn draw(&self, random: &mut Random, attachment: bool) -> u64 {
        let lognormal = |random: &mut Random, mean: u64, sigma| random.lognormal(mean as f64, sigma) as u64;
        let bytes = match self {
            Self::Html => lognormal(random, Self::HTML_MEAN_BYTES, Self::HTML_SIGMA),
            Self::Wide(factor) => {
                let mean = Self::WIDE_MEAN_BYTES[usize::from(attachment)] as f64 * factor;
                random.lognormal(mean, Self::WIDE_SIGMA) as u64
            }
            Self::Fixed(bytes) => *bytes,
            Self::Lognormal(mean, sigma) => lognormal(random, *mean, *sigma),
            Self::Uniform(low, high) => low + random.below(high.saturating_sub(*low) + 1),
            Self::Histogram(bars) => {
                let weights: Vec<f64> = bars.iter().map(|b| b.1).collect();
                random.weighted(&weights).and_then(|i| bars.get(i)).map_or(0, |b| b.0)
            }
        };
        bytes.clamp(Self::BYTES_MIN, Self::BYTES_MAX)
    }

    /// The mean, for plans.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Html => Self::HTML_MEAN_BYTES as f64,
            Self::Wide(factor) => {
                let [without, with] = Self::WIDE_MEAN_BYTES.map(|mean| mean as f64 * factor);
                0.9 * without + 0.1 * with
            }
            Self::Fixed(bytes) | Self::Lognormal(bytes, _) => *bytes as f64,
            Self::Uniform(low, high) => (low + high) as f64 / 2.0,
            Self::Histogram(bars) => {
                let total: f64 = bars.iter().map(|b| b.1).sum();
                bars.iter().map(|b| b.0 as f64 * b.1).sum::<f64>() / total
            }
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a size distribution; write html, wide, wide:0.2, fixed:10k, lognormal:17k, lognormal:17k,1.2, \
                 uniform:1k-10k or histogram:1k=50,10k=30,1M=1"
            )
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let size = |text: &str| quantity::bytes(text).map_err(|_| wrong());
        Ok(match (kind, rest) {
            ("html", "") => Self::Html,
            ("wide", "") => Self::Wide(1.0),
            ("wide", rest) => {
                let factor: f64 = rest.parse().map_err(|_| wrong())?;
                if !(0.01..=10.0).contains(&factor) {
                    return Err(wrong());
                }
                Self::Wide(factor)
            }
            ("fixed", rest) => Self::Fixed(size(rest)?),
            ("lognormal", rest) => match rest.split_once(',') {
                Some((mean, sigma)) => Self::Lognormal(size(mean)?, sigma.parse().map_err(|_| wrong())?),
                None => Self::Lognormal(size(rest)?, 0.8),
            },
            ("uniform", rest) => {
                let (low, high) = rest.split_once('-').ok_or_else(wrong)?;
                Self::Uniform(size(low)?, size(high)?)
            }
            ("histogram", rest) => {
                let bar = |part: &str| {
                    let (bytes, weight) = part.split_once('=').ok_or_else(wrong)?;
                    Ok::<_, String>((size(bytes)?, weight.parse().map_err(|_| wrong())?))
                };
                Self::Histogram(rest.split(',').map(bar).collect::<Result<_, _>>()?)
            }
            _ => return Err(wrong()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_means_are_those_announced() {
        for text in ["html", "lognormal:17k", "uniform:1k-9k", "histogram:1k=50,10k=50", "fixed:5k"] {
            let sizes: Sizes = text.parse().unwrap();
            let mut random = Random::new(1, 1);
            let mean = (0..40_000).map(|_| sizes.draw(&mut random, false) as f64).sum::<f64>() / 40_000.0;
            assert!((mean / sizes.mean_bytes() - 1.0).abs() < 0.03, "{text}: {mean}");
        }
        let mean = |text: &str| text.parse::<Sizes>().unwrap().mean_bytes();
        assert!((mean("wide:0.2") * 5.0 - mean("wide")).abs() < 1.0);
        assert!("wide:x".parse::<Sizes>().is_err() && "wide:0".parse::<Sizes>().is_err());
        assert!("gaussian:3".parse::<Sizes>().is_err() && "fixed:x".parse::<Sizes>().is_err());
    }
}
