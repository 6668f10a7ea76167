//! One attack, measured: a row of the table.

use std::fmt;
use std::time::{Duration, Instant};

use posthaste_testkit::Poll;

use crate::stage::{BYSTANDER, Scale, Stage};
use crate::{Attack, Limits, Times};

/// The rules for a row besides the server's answers and its memory.
#[derive(Clone, Debug)]
pub enum Rules {
    /// Nothing that a busy machine could change.
    Counts,
    /// The neighbour's times against those that it had alone in the same run. Also the server's
    /// polls, and the CPU time that it takes after the attacker left.
    Times {
        /// The neighbour's times alone.
        alone: Times,
        /// How much longer they may be than those alone.
        limits: Limits,
        /// CPU time of the server after the attacker left.
        cpu_after: Duration,
        /// CPU time of the server's longest poll.
        poll: Duration,
    },
}

/// The outcome of an attack.
#[derive(Debug)]
pub struct Row {
    name: &'static str,
    answer: String,
    times: Times,
    alone: Times,
    memory: u64,
    memory_bound: u64,
    cpu_after: Duration,
    /// The longest poll of those that are logged.
    poll: Option<Poll>,
    /// Whether the attack could break its rule at this scale.
    is_judged: bool,
    /// The broken rules; empty if nothing was.
    pub faults: Vec<String>,
}

/// Runs an attack once, or for two seconds at full scale, and judges it.
pub fn try_attack(stage: &Stage, attack: &Attack, rules: &Rules) -> Row {
    let (rest, mut faults) = (stage.gauge.memory(), Vec::new());
    if let Err(error) = stage.gauge.forget_peak() {
        faults.push(format!("the server's peak of memory cannot be read: {error}"));
    }
    stage.neighbour.take_times();
    stage.longest_poll();
    stage.times_served();
    let began = Instant::now();
    let mut answer = (attack.run)(stage);
    while stage.scale == Scale::Full && answer.is_ok() && began.elapsed() < Duration::from_secs(2) {
        answer = (attack.run)(stage);
    }
    let answer = answer.unwrap_or_else(|fault| {
        faults.push(fault);
        "not as it should".to_owned()
    });
    if faults.is_empty() && stage.times_served() == 0 {
        faults.push("nobody else logged in meanwhile".to_owned());
    }
    // At least one answer that was requested after it.
    faults.extend(stage.neighbour.wait_for(2).err());
    let times = stage.neighbour.take_times();
    let memory = stage.gauge.peak().saturating_sub(rest);
    let cpu_after = match rules {
        Rules::Counts => Duration::ZERO,
        Rules::Times { .. } => stage.neighbour.quiet(|| stage.gauge.cpu_until_idle()),
    };
    let mut row = Row {
        name: attack.name,
        answer,
        times,
        alone: Times::default(),
        memory,
        memory_bound: (attack.memory_mib)(stage) << 20,
        cpu_after,
        poll: stage.longest_poll(),
        is_judged: attack.is_judged(stage.scale),
        faults,
    };
    row.judge(stage, rules);
    row
}

impl Row {
    fn judge(&mut self, stage: &Stage, rules: &Rules) {
        if !stage.is_alive() {
            self.faults.push("the server ended".into());
            return;
        }
        if let Err(error) = stage.login(BYSTANDER) {
            self.faults.push(format!("afterwards {error}"));
        }
        if self.memory > self.memory_bound {
            self.faults.push(format!("{} MiB over its rest", self.memory >> 20));
        }
        let Rules::Times { alone, limits, cpu_after, poll } = rules else { return };
        self.alone = alone.clone();
        self.faults.extend(limits.judge(&stage.neighbour, &self.times, &mut self.alone));
        if self.cpu_after > *cpu_after {
            self.faults.push(format!("over {cpu_after:?} of CPU afterwards"));
        }
        if self.poll.as_ref().is_some_and(|longest| longest.cpu > *poll) {
            self.faults.push(format!("a poll of over {poll:?}"));
        }
    }

    /// The head of the table, as Markdown.
    pub const HEAD: &str = "| attack | the server's answer | neighbour's FETCH, median / worst, and without waits for a processor 99 % / worst (alone) in ms | memory over rest (bound) in MiB | CPU afterwards | longest poll in ms of CPU (on the clock, task) | verdict |\n| --- | --- | --- | --- | --- | --- | --- |";
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
        let alone = match self.alone.count() {
            0 => String::new(),
            _ => format!(
                " ({} / {}, {} / {})",
                ms(self.alone.median()),
                ms(self.alone.worst()),
                ms(self.alone.most_of_server()),
                ms(self.alone.worst_of_server())
            ),
        };
        // Shorter ones are not logged.
        let of_poll = |poll: &Poll| format!("{} ({}, {})", ms(poll.cpu), ms(poll.elapsed), poll.task);
        let poll = self.poll.as_ref().map_or_else(|| "—".to_owned(), of_poll);
        let verdict = match (self.faults.is_empty(), self.is_judged) {
            (false, _) => self.faults.join("; "),
            (true, true) => "held".to_owned(),
            (true, false) => "not judged at quick scale".to_owned(),
        };
        write!(
            f,
            "| {} | {} | {} / {}, {} / {}{alone} | {} ({}) | {:.2} s | {poll} | {verdict} |",
            self.name,
            self.answer,
            ms(self.times.median()),
            ms(self.times.worst()),
            ms(self.times.most_of_server()),
            ms(self.times.worst_of_server()),
            self.memory >> 20,
            self.memory_bound >> 20,
            self.cpu_after.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(is_judged: bool, faults: &[&str]) -> String {
        let row = Row {
            name: "versions",
            answer: String::new(),
            times: Times::default(),
            alone: Times::default(),
            memory: 0,
            memory_bound: 0,
            cpu_after: Duration::ZERO,
            poll: None,
            is_judged,
            faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        };
        row.to_string()
    }

    #[test]
    fn what_is_not_judged_is_not_held() {
        assert!(row(true, &[]).ends_with("| held |"));
        assert!(row(false, &[]).ends_with("| not judged at quick scale |"));
        assert!(row(false, &["a", "b"]).ends_with("| a; b |"));
    }
}
