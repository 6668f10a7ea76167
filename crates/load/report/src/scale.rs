//! Maps values to pixels, and places the ticks of an axis.
//!
//! Linear axes step by 1, 2 or 5 × 10ⁿ. Logarithmic ones end on such a figure too; they label
//! decades, and between decades only if there are few. Labels that would touch are left out,
//! decades last.

use posthaste_load_text::figure::{figure, whole};

/// An axis: values from `low` to `high` lie on pixels from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    log: bool,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    /// Linear: the step its ends were rounded to.
    step: Option<f64>,
}

/// A position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The tick's value.
    pub value: f64,
    /// The text at the tick; `None` for the fine lines between.
    pub label: Option<String>,
}

impl Scale {
    /// A linear axis that holds zero, with about this many steps, to the first step above `high`.
    pub fn linear(low: f64, high: f64, steps: u32) -> Self {
        let low = if low.is_finite() { low.min(0.0) } else { 0.0 };
        let high = if high.is_finite() && high.max(0.0) > low { high.max(0.0) } else { low + 1.0 };
        let step = nice_step(low, high, steps);
        Self {
            log: false,
            low: (low / step).floor() * step,
            high: ceil(high / step) * step,
            start: 0.0,
            end: 1.0,
            step: Some(step),
        }
    }

    /// A linear axis that ends exactly at `high`: time.
    pub fn exact(low: f64, high: f64) -> Self {
        let high = if high.is_finite() && high > low { high } else { low + 1.0 };
        Self { log: false, low, high, start: 0.0, end: 1.0, step: None }
    }

    /// A logarithmic axis around positive values; what is not positive has no position on it.
    pub fn log(low: f64, high: f64) -> Self {
        let (low, high) =
            if low > 0.0 && high >= low && high.is_finite() { (low, high) } else { (1.0, 10.0) };
        let (mut bottom, mut top) = (below(low), above(high));
        if top <= bottom {
            (bottom, top) = (bottom / 2.0, top * 2.0);
            (bottom, top) = (below(bottom), above(top));
        }
        Self { log: true, low: bottom, high: top, start: 0.0, end: 1.0, step: None }
    }

    /// The axis on other pixels.
    pub fn onto(self, start: f64, end: f64) -> Self {
        Self { start, end, ..self }
    }

    /// The position of a value; `None` if it has none.
    pub fn position(&self, value: f64) -> Option<f64> {
        let share = match self.log {
            true if value > 0.0 => (value / self.low).ln() / (self.high / self.low).ln(),
            true => return None,
            false => (value - self.low) / (self.high - self.low),
        };
        let at = self.start + share * (self.end - self.start);
        at.is_finite().then_some(at)
    }

    /// Whether the value is on the axis.
    pub fn holds(&self, value: f64) -> bool {
        // A small tolerance: ends are sums of steps.
        let slack = (self.high - self.low) * 1e-9;
        value >= self.low - slack && value <= self.high + slack
    }

    /// The axis' lowest value.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// The axis' highest value.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// About this many ticks.
    pub fn ticks(&self, steps: u32) -> Vec<Tick> {
        if self.log { self.log_ticks() } else { self.linear_ticks(steps) }
    }

    fn linear_ticks(&self, steps: u32) -> Vec<Tick> {
        let step = self.step.unwrap_or_else(|| nice_step(self.low, self.high, steps));
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let (first, last) = (ceil(self.low / step) as i64, (self.high / step + 1e-9).floor() as i64);
        (first..=last)
            .map(|n| {
                let value = n as f64 * step;
                let label = match decimals {
                    0 if value < 0.0 => format!("−{}", whole(-value as u64)),
                    0 => whole(value.round() as u64),
                    _ if n == 0 => "0".into(),
                    _ => format!("{value:.decimals$}").replace('-', "−"),
                };
                Tick { value, label: Some(label) }
            })
            .collect()
    }

    fn log_ticks(&self) -> Vec<Tick> {
        let decades = (self.high / self.low).log10();
        let labelled: &[u32] = match decades {
            d if d <= 1.0 => &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            d if d <= 3.0 => &[1, 2, 5],
            _ => &[1],
        };
        let fine: u32 = if decades <= 5.0 { 9 } else { 1 };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let mut ticks = Vec::new();
        for decade in first..=last {
            for digit in 1..=fine {
                let value = f64::from(digit) * 10f64.powi(decade);
                if self.holds(value) {
                    let label = labelled.contains(&digit).then(|| power_label(digit, decade));
                    ticks.push(Tick { value, label });
                }
            }
        }
        // Otherwise, an end that is no decade would have no label.
        for end in [0, ticks.len().saturating_sub(1)] {
            if let Some(tick) = ticks.get_mut(end).filter(|t| t.label.is_none()) {
                tick.label = Some(label_of(tick.value));
            }
        }
        ticks
    }
}

/// Takes the labels away that would touch another of a higher rank (decades before the rest, then
/// from the left). `extent` says how much room a label needs along the axis.
pub fn thin(ticks: &mut [Tick], scale: &Scale, extent: impl Fn(&str) -> f64) {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for decades in [true, false] {
        for tick in ticks.iter_mut() {
            if (!scale.log || is_decade(tick.value)) != decades {
                continue;
            }
            let Some((at, label)) = scale.position(tick.value).zip(tick.label.as_deref()) else { continue };
            let half = extent(label) / 2.0;
            let (from, to) = (at - half, at + half);
            if taken.iter().any(|(a, b)| from < *b && *a < to) {
                tick.label = None;
            } else {
                taken.push((from, to));
            }
        }
    }
}

fn is_decade(value: f64) -> bool {
    (value.log10() - value.log10().round()).abs() < 1e-9
}

fn power_label(digit: u32, decade: i32) -> String {
    match decade {
        0..7 => whole(u64::from(digit) * 10u64.pow(decade.unsigned_abs())),
        7..12 => format!("{} M", whole(u64::from(digit) * 10u64.pow(decade.unsigned_abs() - 6))),
        -7..0 => {
            let value = f64::from(digit) * 10f64.powi(decade);
            format!("{value:.*}", decade.unsigned_abs() as usize)
        }
        _ => format!("{digit}e{decade}"),
    }
}

fn label_of(value: f64) -> String {
    let decade = (value.log10() + 1e-9).floor() as i32;
    let digit = (value / 10f64.powi(decade)).round();
    if (1.0..=9.0).contains(&digit) { power_label(digit as u32, decade) } else { figure(value) }
}

/// 1, 2 or 5 × 10ⁿ, such that about `steps` of them make the range.
fn nice_step(low: f64, high: f64, steps: u32) -> f64 {
    let raw = (high - low) / f64::from(steps.max(1));
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| raw <= m * power * 1.0001).unwrap_or(10.0);
    step * power
}

/// The ceiling, unless the value is whole except for the last bits.
fn ceil(value: f64) -> f64 {
    (value - 1e-9).ceil()
}

/// The largest 1, 2 or 5 × 10ⁿ that is not above.
fn below(value: f64) -> f64 {
    let power = 10f64.powf((value.log10() + 1e-9).floor());
    [5.0, 2.0, 1.0].into_iter().map(|m| m * power).find(|v| *v <= value * (1.0 + 1e-9)).unwrap_or(power)
}

/// The smallest 1, 2 or 5 × 10ⁿ that is not below.
fn above(value: f64) -> f64 {
    let power = 10f64.powf((value.log10() - 1e-9).floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|m| m * power)
        .find(|v| *v >= value * (1.0 - 1e-9))
        .unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().filter_map(|t| t.label.as_deref()).collect()
    }

    #[test]
    fn linear_axes() {
        let cases: [(f64, f64, &[&str]); 6] = [
            (0.0, 97.0, &["0", "20", "40", "60", "80", "100"]),
            (0.0, 1.0, &["0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
            (0.0, 0.034, &["0", "0.01", "0.02", "0.03", "0.04"]),
            (3.0, 3.0, &["0", "1", "2", "3"]),
            (-3.0, 7.0, &["−4", "−2", "0", "2", "4", "6", "8"]),
            (0.0, 4200.0, &["0", "1,000", "2,000", "3,000", "4,000", "5,000"]),
        ];
        for (low, high, expected) in cases {
            let scale = Scale::linear(low, high, 5);
            assert_eq!(labels(&scale.ticks(5)), expected, "{low}..{high}");
        }
    }

    #[test]
    fn logarithmic_axes() {
        let items = Scale::log(100.0, 500_000.0);
        assert_eq!((items.low(), items.high()), (100.0, 500_000.0));
        assert_eq!(labels(&items.ticks(0)), ["100", "1,000", "10,000", "100,000", "500,000"]);
        let ms = Scale::log(0.3, 42.0);
        assert_eq!(labels(&ms.ticks(0)), ["0.2", "0.5", "1", "2", "5", "10", "20", "50"]);
        assert_eq!(
            labels(&Scale::log(1.2e-4, 3.1e-4).ticks(0)),
            ["0.0001", "0.0002", "0.0003", "0.0004", "0.0005"]
        );
        assert_eq!(labels(&Scale::log(3.0, 3.0).ticks(0)), ["2", "3", "4", "5"]);
        assert_eq!(labels(&Scale::log(1.0, 2e9).ticks(0)).last(), Some(&"1,000 M"));
    }

    #[test]
    fn positions() {
        let scale = Scale::log(1.0, 100.0).onto(200.0, 0.0);
        assert_eq!(scale.position(1.0), Some(200.0));
        assert!((scale.position(10.0).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!((scale.position(0.0), scale.position(-1.0), scale.position(f64::NAN)), (None, None, None));
        assert_eq!(Scale::exact(0.0, 360.0).onto(0.0, 36.0).position(90.0), Some(9.0));
    }

    #[test]
    fn labels_that_would_touch_go_decades_last() {
        let scale = Scale::log(1.0, 10.0).onto(0.0, 100.0);
        let mut ticks = scale.ticks(0);
        thin(&mut ticks, &scale, |_| 35.0);
        assert_eq!(labels(&ticks), ["1", "3", "10"]);
    }

    properties! {
        #[test]
        fn any_range_has_ticks_on_it(low in -1e12f64..1e12, span in 1e-9f64..1e12, log in any::<bool>()) {
            let (low, high) = if log { (low.abs() + 1e-9, low.abs() + 1e-9 + span) } else { (low, low + span) };
            let scale = if log { Scale::log(low, high) } else { Scale::linear(low, high, 5) }.onto(0.0, 500.0);
            let ticks = scale.ticks(5);
            prop_assert!(labels(&ticks).len() >= 2 && ticks.len() < 100, "{ticks:?}");
            prop_assert!(scale.holds(low) && scale.holds(high));
            for tick in &ticks {
                let at = scale.position(tick.value).unwrap();
                prop_assert!((-0.01..=500.01).contains(&at), "{tick:?} at {at}");
            }
            prop_assert!(ticks.windows(2).all(|w| w[0].value < w[1].value));
        }
    }
}
