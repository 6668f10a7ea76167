//! The display during a run: one line a second on a terminal, one every ten elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::recorder::Second;

/// Shows a run's state.
pub enum Live {
    /// On a terminal: a line that changes.
    Terminal(ProgressBar),
    /// Elsewhere: plain lines, not too many.
    Lines {
        /// Seconds between lines.
        every: u64,
    },
    /// Not at all.
    Silent,
}

/// The shown values.
pub struct LiveState<'a> {
    /// Ramp, warm-up, measuring, ending.
    pub phase: &'a str,
    /// Seconds since the start.
    pub at_s: f64,
    /// Seconds in all.
    pub total_s: f64,
    /// The last whole second.
    pub last: Second,
    /// Users with a session.
    pub online: i64,
    /// Errors so far.
    pub errors: u64,
    /// Server CPU, in processors.
    pub server_cpus: Option<f64>,
    /// Generator CPU, in processors.
    pub own_cpus: f64,
    /// Open loop: due and unfinished.
    pub unfinished: Option<i64>,
}

impl Live {
    /// A display that suits the terminal; none if `wanted` is false.
    pub fn new(wanted: bool, total: Duration) -> Self {
        if !wanted {
            return Self::Silent;
        }
        let bar = ProgressBar::new(total.as_secs().max(1));
        if bar.is_hidden() {
            return Self::Lines { every: 10 };
        }
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_bar} {pos}/{len} s\n  {msg}") {
            bar.set_style(style);
        }
        Self::Terminal(bar)
    }

    /// Shows the state of now.
    pub fn show(&self, state: &LiveState<'_>) {
        match self {
            Self::Silent => {}
            Self::Terminal(bar) => {
                bar.set_position(state.at_s as u64);
                bar.set_message(line(state));
            }
            Self::Lines { every } => {
                // The line of the first second is the first with a rate.
                if state.at_s as u64 == 1 || (state.at_s as u64).is_multiple_of(*every) {
                    eprintln!("{:>6.0} s of {:.0} s  {}", state.at_s, state.total_s, line(state));
                }
            }
        }
    }

    /// The last line shown is cleared.
    pub fn end(&self) {
        if let Self::Terminal(bar) = self {
            bar.finish_and_clear();
        }
    }
}

fn line(state: &LiveState<'_>) -> String {
    let last = state.last;
    let mean_ms = if last.done > 0 { last.sum_us as f64 / f64::from(last.done) / 1e3 } else { 0.0 };
    let mut text = format!(
        "{:<9} {:>5} online  {:>7}/s  mean {:>8.2} ms  max {:>8.2} ms  errors {}",
        state.phase,
        state.online,
        last.done,
        mean_ms,
        last.max_us as f64 / 1e3,
        state.errors
    );
    if let Some(cpus) = state.server_cpus {
        text.push_str(&format!("  server {cpus:.2} CPU"));
    }
    text.push_str(&format!("  generator {:.2} CPU", state.own_cpus));
    if let Some(unfinished) = state.unfinished {
        text.push_str(&format!("  unfinished {unfinished}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_it_all() {
        let state = LiveState {
            phase: "measuring",
            at_s: 4.2,
            total_s: 10.0,
            last: Second { done: 2, errors: 0, sum_us: 4_000, max_us: 3_000 },
            online: 7,
            errors: 0,
            server_cpus: Some(0.5),
            own_cpus: 0.1,
            unfinished: None,
        };
        let text = line(&state);
        assert!(
            text.contains("7 online") && text.contains("mean     2.00 ms") && text.contains("server 0.50"),
            "{text}"
        );
    }
}
