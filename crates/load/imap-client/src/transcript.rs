//! The last commands of a connection and how they were answered: what a failure report shows.

use std::collections::VecDeque;
use std::fmt;

/// Commands remembered. Enough to see what led to a wrong answer, small enough for 10,000 clients.
const COMMANDS: usize = 6;
/// Responses remembered of each command; more are counted.
const RESPONSES: usize = 4;
/// Bytes remembered of each line.
const LINE_BYTES: usize = 160;

#[derive(Debug, Default)]
struct Exchange {
    sent: String,
    received: Vec<String>,
    left_out: u64,
    ending: String,
}

/// A ring of the last few exchanges.
#[derive(Debug, Default)]
pub struct Transcript {
    exchanges: VecDeque<Exchange>,
}

impl Transcript {
    pub(crate) fn sent(&mut self, line: &[u8]) {
        if self.exchanges.len() == COMMANDS {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back(Exchange { sent: cut(line), ..Exchange::default() });
    }

    pub(crate) fn received(&mut self, line: &[u8]) {
        let Some(last) = self.exchanges.back_mut() else { return };
        if last.received.len() < RESPONSES {
            last.received.push(cut(line));
        } else {
            last.left_out += 1;
            if last.left_out == 1 || !line.starts_with(b"* ") {
                last.ending = cut(line);
            }
        }
    }

    /// Many lines at once, of which the first are looked at and the others counted.
    pub(crate) fn received_lines(&mut self, lines: &[u8], count: u64) {
        let mut left = count;
        for line in lines.split_inclusive(|b| *b == b'\n').take(RESPONSES + 1) {
            self.received(line);
            left -= 1;
        }
        if let Some(last) = self.exchanges.back_mut() {
            last.left_out += left;
        }
    }
}

fn cut(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.get(..LINE_BYTES).unwrap_or(line));
    let mut text = text.trim_end().replace("\r\n", "\\r\\n");
    if line.len() > LINE_BYTES {
        text.push('…');
    }
    text
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for exchange in &self.exchanges {
            writeln!(f, "C: {}", exchange.sent)?;
            for line in &exchange.received {
                writeln!(f, "S: {line}")?;
            }
            if exchange.left_out > 0 {
                writeln!(f, "S: … {} more; {}", exchange.left_out, exchange.ending)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_exchanges_fall_out_and_many_lines_are_counted() {
        let mut transcript = Transcript::default();
        for n in 0..9 {
            transcript.sent(format!("a{n} NOOP\r\n").as_bytes());
            for _ in 0..6 {
                transcript.received(b"* 1 EXISTS\r\n");
            }
        }
        let text = transcript.to_string();
        assert!(text.starts_with("C: a3 NOOP\n"));
        assert!(text.contains("… 2 more"));
    }

    #[test]
    fn a_listing_received_at_once_reads_as_if_it_came_line_by_line() {
        let lines: Vec<String> = (1..=9).map(|n| format!("* {n} FETCH (UID {n} FLAGS ())\r\n")).collect();
        for cut in 0..=lines.len() {
            let [mut at_once, mut singly] = [Transcript::default(), Transcript::default()];
            at_once.sent(b"FETCH 1:* (UID FLAGS)");
            singly.sent(b"FETCH 1:* (UID FLAGS)");
            for part in [&lines[..cut], &lines[cut..]] {
                at_once.received_lines(part.concat().as_bytes(), part.len() as u64);
                part.iter().for_each(|line| singly.received(line.as_bytes()));
            }
            assert_eq!(at_once.to_string(), singly.to_string(), "cut after {cut}");
        }
    }
}
