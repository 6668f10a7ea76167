//! Long polls of a server, as its log names them.
//!
//! The rule of the server is that no poll of a task takes over 10 ms. A debug build takes some ten
//! times as long, so it logs polls that use over 100 ms of CPU time. Other load on the machine may
//! explain such a line. CPU time does not count the waits for a processor. But two threads that
//! share a core, its caches or the memory may each take two or three times as long. That lasts as
//! long as the load does. So neither one line proves a fault, nor do several of one command.
//!
//! A poll of over a second does. Load would have to make the poll of 100 ms ten times as long, and
//! that [`TIMES`] times for one command.

use std::collections::BTreeMap;
use std::time::Duration;

/// What the server's log says about a long poll.
pub const LONG_POLL: &str = "one poll of a task used too much CPU time";

/// CPU time of a poll that load does not explain.
const UNEXPLAINED: Duration = Duration::from_secs(1);

/// Such polls of one command in the life of one server that are a fault.
const TIMES: usize = 3;

/// A long poll of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// The CPU time of its thread.
    pub cpu: Duration,
    /// The poll's time on the clock.
    pub elapsed: Duration,
    /// The protocol or the background task, and the command.
    pub task: String,
}

impl Poll {
    /// Reads a line of the log.
    pub fn read(line: &str) -> Option<Self> {
        let value = |name: &str| {
            let (_, after) = line.split_once(&format!(" {name}="))?;
            Some(after.split(' ').next()?.trim_matches('"'))
        };
        let time = |name| Some(Duration::from_micros(value(name)?.parse().ok()?));
        let words = [value("protocol"), value("command")];
        let task = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        Some(Self { cpu: time("microseconds")?, elapsed: time("on_the_clock")?, task })
    }
}

/// The tasks that broke the rule again and again, by these lines of a log.
pub(crate) fn repeatedly_long(lines: &[String]) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for poll in lines.iter().filter_map(|line| Poll::read(line)) {
        if poll.cpu > UNEXPLAINED {
            *times.entry(poll.task).or_default() += 1;
        }
    }
    times.into_iter().filter(|(_, times)| *times >= TIMES).map(|(task, _)| task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(command: &str, micros: u64) -> String {
        format!(
            "2026-11-22T18:57:13Z  WARN posthaste: {LONG_POLL} protocol=\"imap\" command=\"{command}\" \
             microseconds={micros} on_the_clock=23456"
        )
    }

    #[test]
    fn a_poll_is_read_from_the_log() {
        let ms = |micros| Duration::from_micros(micros);
        let (cpu, elapsed, task) = (ms(12_345), ms(23_456), "imap SEARCH".to_owned());
        assert_eq!(Poll::read(&line("SEARCH", 12_345)), Some(Poll { cpu, elapsed, task }));
        assert_eq!(Poll::read(LONG_POLL), None);
    }

    #[test]
    fn a_command_that_computes_for_long_each_time_is_found() {
        let long = || line("LIST", 1_000_001);
        assert_eq!(repeatedly_long(&[long(), long(), long()]), ["imap LIST"]);
        // One may be the machine's fault, and so may many that are not much over the limit.
        assert!(repeatedly_long(&[long(), line("SEARCH", 2_000_000), long()]).is_empty());
        let many: Vec<String> = (0..100).map(|_| line("LIST", 900_000)).collect();
        assert!(repeatedly_long(&many).is_empty());
    }
}
