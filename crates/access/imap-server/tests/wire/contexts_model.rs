//! Compares updated results with new searches: random changes by two sessions. A client builds a
//! result from ADDTO and REMOVEFROM (RFC 5267 §4.3). It equals the result of a new search.

use posthaste_testkit::Wire;

use crate::harness::Server;
use crate::random::Random;

const WORDS: [&str; 5] = ["alpha", "beta", "gamma", "delta", "omega"];
const FLAGS: [&str; 5] = ["\\Seen", "\\Flagged", "\\Deleted", "work", "later"];
const STEPS: u32 = 160;

/// The results of a session: at most eight. Whether the numbers are UIDs, the command up to
/// RETURN, and the rest.
const RESULTS: [(bool, &str, &str); 8] = [
    (true, "UID SEARCH", "UNSEEN"),
    (false, "SEARCH", "FLAGGED"),
    (true, "UID SEARCH", "KEYWORD work SUBJECT beta"),
    (true, "UID SEARCH", "OR TEXT alpha (FLAGGED BODY gamma)"),
    (true, "UID SORT", "(SUBJECT REVERSE DATE) UTF-8 UNSEEN"),
    (false, "SORT", "(REVERSE SIZE FROM) UTF-8 NOT DELETED"),
    (true, "UID SORT", "(REVERSE ARRIVAL REVERSE UID) UTF-8 OR KEYWORD later SEEN"),
    (false, "SORT", "(DISPLAYFROM) UTF-8 UNKEYWORD work"),
];

impl Random {
    fn flags(&mut self) -> String {
        let flags: Vec<_> = FLAGS.into_iter().filter(|_| self.below(3) == 0).collect();
        format!("({})", flags.join(" "))
    }

    fn append(&mut self) -> String {
        let (day, sent) = (1 + self.below(5), 1 + self.below(5));
        let text = format!(
            "Date: {sent} Jan 2024 12:00:00 +0000\r\nFrom: {} <{}@x.test>\r\nSubject: {}{}\r\n\r\n{}{}\r\n",
            self.pick(&WORDS),
            self.pick(&WORDS),
            self.pick(&["", "Re: "]),
            self.pick(&WORDS),
            self.pick(&WORDS),
            "x".repeat(self.below(4) as usize)
        );
        format!(
            "APPEND INBOX {} \"{day:02}-Jan-2024 12:00:00 +0000\" {{{}+}}\r\n{text}",
            self.flags(),
            text.len()
        )
    }
}

/// A set in its order: `5,3:4`.
fn numbers(set: &str) -> Vec<u32> {
    let one = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("{text}"));
    let range = |range: &str| match range.split_once(':') {
        Some((low, high)) => (one(low)..=one(high)).collect::<Vec<_>>(),
        None => vec![one(range)],
    };
    set.split(',').flat_map(range).collect()
}

/// A result as a client has it.
struct ClientResult {
    by_uid: bool,
    command: &'static str,
    criteria: &'static str,
    list: Vec<u32>,
}

impl ClientResult {
    fn is_sorted(&self) -> bool {
        self.command.ends_with("SORT")
    }

    /// RFC 5267 §4.3.3
    fn add(&mut self, place: usize, numbers: &[u32]) {
        for number in numbers {
            assert!(!self.list.contains(number), "{number} was there already: {:?}", self.list);
        }
        if place > 0 {
            self.list.splice(place - 1..place - 1, numbers.iter().copied());
            return;
        }
        assert!(!self.is_sorted());
        self.list.extend(numbers);
        self.list.sort_unstable();
    }

    /// RFC 5267 §4.3.4
    fn remove(&mut self, place: usize, numbers: &[u32]) {
        if place > 0 {
            let removed: Vec<u32> = self.list.drain(place - 1..place - 1 + numbers.len()).collect();
            assert_eq!(removed, numbers);
            return;
        }
        assert!(!self.is_sorted());
        for number in numbers {
            let at = self.list.iter().position(|other| other == number);
            self.list.remove(at.unwrap_or_else(|| panic!("{number} was not there: {:?}", self.list)));
        }
    }
}

/// A client that keeps results.
struct Client {
    wire: Wire,
    results: Vec<ClientResult>,
    exists: u32,
    updates: u32,
}

impl Client {
    /// Sends a command and takes all that comes with it.
    fn command(&mut self, text: &str) -> Vec<String> {
        self.wire.send(format!("x {text}\r\n").as_bytes());
        let lines = self.wire.skip_to("x …");
        lines.iter().for_each(|line| self.take(line));
        lines
    }

    fn take(&mut self, line: &str) {
        assert!(!line.contains("NOUPDATE"), "{line}");
        if let Some(exists) = line.strip_prefix("* ").and_then(|l| l.strip_suffix(" EXISTS")) {
            self.exists = exists.parse().expect("a number");
        }
        if let Some(number) = line.strip_prefix("* ").and_then(|l| l.strip_suffix(" EXPUNGE")) {
            let removed: u32 = number.parse().expect("a number");
            self.exists -= 1;
            for kept in self.results.iter_mut().filter(|kept| !kept.by_uid) {
                assert!(!kept.list.contains(&removed), "no REMOVEFROM came before EXPUNGE {removed}");
                kept.list.iter_mut().filter(|number| **number > removed).for_each(|number| *number -= 1);
            }
        }
        let Some(rest) = line.strip_prefix("* ESEARCH (TAG \"k") else { return };
        let (nth, rest) = rest.split_once("\")").expect("a tag");
        let kept = &mut self.results[nth.parse::<usize>().expect("a number")];
        assert_eq!(rest.starts_with(" UID"), kept.by_uid, "{line}");
        for part in rest.split(')').filter(|part| !part.is_empty()) {
            self.updates += 1;
            let (name, places) = part.split_once('(').expect("places");
            let words: Vec<&str> = places.split(' ').collect();
            for pair in words.chunks(2) {
                let (place, set) = (pair[0].parse().expect("a number"), numbers(pair[1]));
                match name.trim().trim_start_matches("UID ") {
                    "ADDTO" => {
                        let valid = kept.by_uid || set.iter().all(|number| *number <= self.exists);
                        assert!(valid, "ADDTO came before EXISTS: {line}");
                        kept.add(place, &set);
                    }
                    "REMOVEFROM" => kept.remove(place, &set),
                    _ => panic!("{line}"),
                }
            }
        }
    }

    /// Begins to keep a result.
    fn keep(&mut self, result: (bool, &'static str, &'static str)) {
        let ((by_uid, command, criteria), nth) = (result, self.results.len());
        let list = self.fresh(command, criteria);
        self.results.push(ClientResult { by_uid, command, criteria, list });
        self.wire.send(format!("k{nth} {command} RETURN (UPDATE COUNT) {criteria}\r\n").as_bytes());
        self.wire.expect("* ESEARCH …");
        self.wire.skip_to(&format!("k{nth} OK …"));
    }

    fn fresh(&mut self, command: &str, criteria: &str) -> Vec<u32> {
        let lines = self.command(&format!("{command} {criteria}"));
        let name = command.trim_start_matches("UID ");
        let found = lines.iter().find_map(|line| line.strip_prefix(&format!("* {name}")));
        found
            .unwrap_or_else(|| panic!("{lines:?}"))
            .split_whitespace()
            .map(|n| n.parse().expect("a number"))
            .collect()
    }

    /// Compares all results with fresh ones.
    fn compare(&mut self, step: u32) {
        self.command("NOOP");
        for nth in 0..self.results.len() {
            let (command, criteria) = (self.results[nth].command, self.results[nth].criteria);
            let fresh = self.fresh(command, criteria);
            assert_eq!(self.results[nth].list, fresh, "step {step}: {command} {criteria}");
        }
    }
}

/// One change. With `by_uid`, no sequence number is used.
fn change(random: &mut Random, exists: u32, next: u32, by_uid: bool) -> String {
    let (word, number) = match by_uid || random.below(2) == 0 {
        true => ("UID ", 1 + random.below(next)),
        false if exists == 0 => return "NOOP".to_owned(),
        false => ("", 1 + random.below(exists)),
    };
    // Only sequence numbers that exist may be named.
    let last = (number + random.below(4)).min(if word.is_empty() { exists } else { next });
    let set = format!("{number}:{last}");
    match random.below(12) {
        0..=2 => random.append(),
        3..=6 => {
            let sign = random.pick(&["+", "-", ""]);
            let silent = random.pick(&["", ".SILENT"]);
            format!("{word}STORE {set} {sign}FLAGS{silent} {}", random.flags())
        }
        7 => "EXPUNGE".to_owned(),
        8 => format!("UID EXPUNGE {number}:{last}"),
        9 => format!("{word}FETCH {set} BODY[TEXT]"),
        10 => format!("{word}COPY {set} INBOX"),
        _ => format!("{word}MOVE {number} Elsewhere"),
    }
}

/// A command before SELECT, and the results that the client keeps.
fn replay(seed: u64, first: &str, keeps: impl Fn(bool) -> bool) {
    let server = Server::start();
    let mut random = Random(seed);
    let mut other = server.login();
    other.run("C: c CREATE Elsewhere\nS~ c OK …");
    for _ in 0..20 {
        other.send(format!("x {}\r\n", random.append()).as_bytes());
        other.skip_to("x OK …");
    }
    other.run("C: s SELECT INBOX\nS~ s OK …");
    let mut wire = server.login();
    if !first.is_empty() {
        wire.run(&format!("C: e {first}\nS~ e OK …"));
    }
    wire.run("C: s SELECT INBOX\nS~ s OK …");
    let mut client = Client { wire, results: Vec::new(), exists: 20, updates: 0 };
    RESULTS.into_iter().filter(|result| keeps(result.0)).for_each(|result| client.keep(result));
    let by_uid = first == "ENABLE UIDONLY";
    for step in 0..STEPS {
        let next = 25 + step;
        for _ in 0..1 + random.below(3) {
            match random.below(5) {
                0 | 1 => {
                    let exists = client.exists;
                    client.command(&change(&mut random, exists, next, by_uid));
                }
                _ => {
                    other.send(format!("x {}\r\n", change(&mut random, 0, next, true)).as_bytes());
                    other.skip_to("x …");
                }
            }
        }
        client.compare(step);
    }
    assert!(client.updates > STEPS, "only {} updates came", client.updates);
}

#[test]
fn the_client_has_what_a_search_finds() {
    for seed in 1..=8u64 {
        replay(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), "", |_| true);
    }
}

#[test]
fn with_vanished_and_with_uids_only() {
    for seed in [0x5555_5555_1234_5677, 0x7777_1111_1234_5671] {
        replay(seed, "ENABLE QRESYNC", |by_uid| by_uid);
        replay(seed, "ENABLE UIDONLY", |by_uid| by_uid);
    }
}

/// RFC 5465 §6.1: changes are reported at any time between commands, or those of others' expunges
/// with the next command that may report them. Without FlagChange, results follow flags as well.
#[test]
fn with_notify() {
    for (seed, group) in [
        (0x1234_5678_9abc_def1, "SELECTED (MessageNew (UID FLAGS) MessageExpunge FlagChange)"),
        (0x1234_5678_9abc_def3, "SELECTED (MessageNew MessageExpunge)"),
        (0x1234_5678_9abc_def5, "SELECTED-DELAYED (MessageNew MessageExpunge FlagChange)"),
        (0x1234_5678_9abc_def7, "SELECTED-DELAYED (MessageNew (ENVELOPE) MessageExpunge)"),
    ] {
        replay(seed, &format!("NOTIFY SET ({group}) (PERSONAL (MessageNew MessageExpunge))"), |_| true);
    }
}
