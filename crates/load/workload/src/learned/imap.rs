//! IMAP users whose commands add up to the counts of a server.
//!
//! If a login has few commands, each session is a transaction with the mean number of each command.
//! Whole numbers are in every session, the rest in a share of the sessions. If it has many,
//! sessions stay online and each kind of command is a transaction, chosen by its frequency.

use std::collections::BTreeMap;

use super::file::Body;
use super::profile::{Observed, Profile, delivered, message_bytes, think};

/// Commands of a login up to which a session is one transaction: a client that looks and leaves.
const SHORT_SESSION: f64 = 12.0;
/// A command in fewer sessions than this is left out of short sessions.
const RARE: f64 = 0.005;
/// The most times that a short session repeats a command.
const REPEATS_MAX: u32 = 12;
/// A listing with more octets for each message of the folder has headers. One of UID and FLAGS has
/// 30 to 50 (`* 1000 FETCH (UID 2000 FLAGS (\Seen))`), one of headers 250 and more. The number of
/// messages is known by its class alone, and may be three times as large or as small.
const FLAGS_OCTETS_MAX: f64 = 130.0;
/// A listing with fewer octets for each message is of a part of the folder: a third of 40.
const WHOLE_OCTETS_MIN: f64 = 12.0;
/// Octets of a message in a listing with headers.
const HEADER_OCTETS: f64 = 300.0;
/// Messages used for folders over the largest class.
const LARGEST: f64 = 2_000_000.0;

const FLAGS: &str = "UID FLAGS";
const HEADERS: &str =
    "UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER.FIELDS (DATE FROM TO CC SUBJECT MESSAGE-ID)]";

/// A kind of transaction: a step, and how often it was done.
struct Kind {
    name: &'static str,
    steps: Vec<String>,
    count: f64,
    /// The command works on messages of a selected mailbox.
    selected: bool,
    changes: bool,
}

pub(super) fn workload(profile: &Profile) -> Result<Body, String> {
    let seen = CommandCounts::of(profile);
    let mut notes = Vec::new();
    let kinds = seen.kinds(profile, &mut notes);
    if kinds.is_empty() {
        return Err("no IMAP command was counted that a workload can do".into());
    }
    let logins = seen.count(&["LOGIN", "AUTHENTICATE"]);
    let all: f64 = kinds.iter().map(|k| k.count).sum();
    let deliveries = delivered(profile).0 > 0;
    let still = !deliveries && kinds.iter().all(|k| !k.changes);
    let track = if still { "static" } else { "messages" };
    let (inbox, folders, per_folder) = seen.folders();
    let fill = format!("inbox = {inbox}\nfolders = {folders}\nper_folder = {per_folder}\n");
    if seen.classes.len() > 2 {
        notes.push(format!(
            "folders of {} sizes were used; the file has an INBOX of {inbox} messages and other folders of {per_folder}",
            seen.classes.len()
        ));
    }
    if logins > 0.0 && all / logins <= SHORT_SESSION {
        let transactions = sessions(&kinds, logins);
        let session = format!("kind = \"each\"\ntrack = \"{track}\"\n");
        return Ok(Body { session, think_s: think(profile, logins), fill, transactions, notes });
    }
    let open = "open = [\n  { do = \"list\" },\n  { do = \"select\", mailbox = \"inbox\" },\n  \
                { do = \"fetch\", messages = \"all\", items = \"UID FLAGS\" },\n]";
    let session = format!("kind = \"online\"\ntrack = \"{track}\"\n{open}\n");
    let transactions = kinds
        .into_iter()
        .map(|k| (k.name.to_owned(), k.count, format!("{:.0} counted", k.count), k.steps))
        .collect();
    Ok(Body { session, think_s: think(profile, all), fill, transactions, notes })
}

/// Short sessions: what all have, and one kind for each command that only a share of them has.
fn sessions(kinds: &[Kind], logins: f64) -> Vec<(String, f64, String, Vec<String>)> {
    let mut base: Vec<u32> = Vec::new();
    let mut rest: Vec<f64> = Vec::new();
    for kind in kinds {
        let mean = (kind.count / logins).min(f64::from(REPEATS_MAX));
        base.push(mean as u32);
        rest.push(mean.fract());
    }
    // Shares that add up to more than all sessions cannot each have a session of their own: the
    // largest become a command of every session.
    while rest.iter().sum::<f64>() > 1.0 {
        let largest = (0..rest.len()).max_by(|a, b| rest[*a].total_cmp(&rest[*b]));
        let Some(at) = largest.filter(|at| rest[*at] > 0.0) else { break };
        base[at] += 1;
        rest[at] = 0.0;
    }
    let with = |extra: Option<usize>| {
        let mut steps: Vec<String> = Vec::new();
        let count = |at: usize| base[at] + u32::from(extra == Some(at));
        let needs_mailbox = kinds.iter().enumerate().any(|(at, k)| k.selected && count(at) > 0);
        let opens = |k: &Kind| {
            k.steps.iter().any(|s| s.contains("do = \"select\"") || s.contains("do = \"examine\""))
        };
        if needs_mailbox && !kinds.iter().enumerate().any(|(at, k)| opens(k) && count(at) > 0) {
            steps.push("do = \"select\", mailbox = \"inbox\"".into());
        }
        for (at, kind) in kinds.iter().enumerate() {
            for _ in 0..count(at) {
                steps.extend(kind.steps.iter().cloned());
            }
        }
        steps
    };
    let mut transactions = Vec::new();
    for (at, kind) in kinds.iter().enumerate().filter(|(at, _)| rest[*at] >= RARE) {
        let description = format!("{:.0} {} in {logins:.0} sessions", kind.count, kind.name);
        transactions.push((format!("with {}", kind.name), rest[at], description, with(Some(at))));
    }
    let plain = 1.0 - rest.iter().filter(|r| **r >= RARE).sum::<f64>();
    let steps = with(None);
    if (plain > 0.0 && !steps.is_empty()) || transactions.is_empty() {
        let steps = if steps.is_empty() { vec!["do = \"noop\"".to_owned()] } else { steps };
        transactions.insert(0, ("session".into(), plain.max(RARE), "What most sessions do".into(), steps));
    }
    transactions
}

/// The commands of IMAP by name and folder.
struct CommandCounts<'a> {
    commands: Vec<&'a Observed>,
    /// Messages of a folder, and how often folders of that size were opened, the most often first.
    classes: Vec<(f64, f64)>,
}

impl<'a> CommandCounts<'a> {
    fn of(profile: &'a Profile) -> Self {
        let commands: Vec<&Observed> = profile.commands.iter().filter(|c| c.protocol == "imap").collect();
        let opened = |c: &&&Observed| matches!(c.command.as_str(), "SELECT" | "EXAMINE");
        let mut classes = BTreeMap::<u32, u64>::new();
        let used = commands.iter().filter(|c| c.folder_most.is_some());
        let opens = used.clone().any(|c| opened(&c));
        for command in used.filter(|c| !opens || opened(c)) {
            *classes.entry(command.folder_most.unwrap_or_default()).or_default() += command.count;
        }
        let mut classes: Vec<(f64, f64)> =
            classes.into_iter().map(|(most, count)| (messages(most), count as f64)).collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1));
        Self { commands, classes }
    }

    fn named<'b>(&'b self, names: &'b [&str]) -> impl Iterator<Item = &'a Observed> + 'b {
        let plain = |name: &'a str| name.strip_prefix("UID ").unwrap_or(name);
        self.commands.iter().copied().filter(move |c| names.contains(&plain(&c.command)))
    }

    fn count(&self, names: &[&str]) -> f64 {
        self.named(names).map(|c| c.count).sum::<u64>() as f64
    }

    /// Messages of INBOX; other folders and their messages. INBOX is the size opened most often.
    fn folders(&self) -> (u64, u64, u64) {
        let Some(((inbox, _), others)) = self.classes.split_first() else { return (40, 0, 0) };
        let weight: f64 = others.iter().map(|c| c.1).sum();
        if weight <= 0.0 {
            return (*inbox as u64, 0, 0);
        }
        let logs: f64 = others.iter().map(|(messages, count)| messages.ln() * count).sum();
        (*inbox as u64, others.len() as u64, (logs / weight).exp().round() as u64)
    }

    /// The share of openings that are of INBOX.
    fn inbox_share(&self) -> f64 {
        let all: f64 = self.classes.iter().map(|c| c.1).sum();
        self.classes.first().filter(|_| all > 0.0).map_or(1.0, |(_, count)| count / all)
    }

    fn kinds(&self, profile: &Profile, notes: &mut Vec<String>) -> Vec<Kind> {
        let mut kinds = Vec::new();
        let mut add = |name, count: f64, (selected, changes), steps: &[&str]| {
            if count > 0.0 {
                let steps = steps.iter().map(|s| (*s).to_owned()).collect();
                kinds.push(Kind { name, steps, count, selected, changes });
            }
        };
        const PLAIN: (bool, bool) = (false, false);
        const READS: (bool, bool) = (true, false);
        const CHANGES: (bool, bool) = (true, true);
        let of = |names: &[&str]| self.count(names);
        add("CAPABILITY", of(&["CAPABILITY"]), PLAIN, &["do = \"capability\""]);
        add("LIST", of(&["LIST", "LSUB", "XLIST"]), PLAIN, &["do = \"list\""]);
        add("STATUS", of(&["STATUS"]), PLAIN, &["do = \"status\", mailbox = \"inbox\""]);
        let share = self.inbox_share();
        let (select, examine) = (of(&["SELECT"]), of(&["EXAMINE"]));
        add("SELECT of INBOX", select * share, PLAIN, &["do = \"select\", mailbox = \"inbox\""]);
        add("SELECT of another", select * (1.0 - share), PLAIN, &["do = \"select\", mailbox = \"other\""]);
        add("EXAMINE", examine, PLAIN, &["do = \"examine\", mailbox = \"inbox\""]);
        add("NOOP", of(&["NOOP"]), PLAIN, &["do = \"noop\""]);
        add("CHECK", of(&["CHECK"]), READS, &["do = \"check\""]);
        add("SEARCH", of(&["SEARCH", "SORT", "THREAD"]), READS, &["do = \"search\", criterion = \"unseen\""]);
        let fetches = Fetches::of(self, profile);
        let listing =
            format!("do = \"fetch\", messages = \"{}\", items = \"{}\"", fetches.which, fetches.items);
        add("listing", fetches.listings, READS, &[&listing]);
        let body =
            format!("do = \"fetch\", messages = \"{}\", items = \"UID BODY.PEEK[]\"", fetches.bodies_of);
        add("body", fetches.bodies, READS, &[&body]);
        let expunges = of(&["EXPUNGE"]);
        let stores = (of(&["STORE"]) - expunges).max(0.0);
        let store = "do = \"store\", messages = \"one\", how = \"+FLAGS.SILENT\", flags = \"\\\\Seen\"";
        add("STORE", stores, CHANGES, &[store]);
        add("COPY", of(&["COPY"]), CHANGES, &["do = \"copy\", messages = \"one\", to = \"other\""]);
        add("MOVE", of(&["MOVE"]), CHANGES, &["do = \"move\", messages = \"one\", to = \"other\""]);
        let delete = "do = \"store\", messages = \"one\", how = \"+FLAGS.SILENT\", flags = \"\\\\Deleted\"";
        add("EXPUNGE", expunges, CHANGES, &[delete, "do = \"expunge\""]);
        add("APPEND", of(&["APPEND"]), CHANGES, &["do = \"append\", mailbox = \"current\""]);
        add("CREATE", of(&["CREATE"]), (false, true), &["do = \"create\""]);
        add("DELETE", of(&["DELETE"]), (false, true), &["do = \"delete\""]);
        add("RENAME", of(&["RENAME"]), (false, true), &["do = \"rename\""]);
        add("IDLE", of(&["IDLE"]), READS, &["do = \"idle\", seconds = 30"]);
        add("UNSELECT", of(&["UNSELECT", "CLOSE"]), READS, &["do = \"unselect\""]);
        if of(&["IDLE"]) > 0.0 {
            notes.push("how long clients stayed in IDLE is not counted: 30 s is a guess".into());
        }
        if of(&["SEARCH", "SORT", "THREAD"]) > 0.0 {
            notes.push("what clients searched for is not counted: UNSEEN is a guess".into());
        }
        let used: Vec<&str> = KNOWN.to_vec();
        let left: f64 = self
            .commands
            .iter()
            .filter(|c| !used.contains(&c.command.strip_prefix("UID ").unwrap_or(&c.command)))
            .map(|c| c.count as f64)
            .sum();
        if left > 0.0 {
            notes.push(format!(
                "{left:.0} commands of other kinds are left out (ID, ENABLE, NAMESPACE and the like)"
            ));
        }
        kinds
    }
}

/// Commands for which the workload has a step, or that are counted otherwise.
const KNOWN: [&str; 29] = [
    "LOGIN",
    "AUTHENTICATE",
    "LOGOUT",
    "session",
    "CAPABILITY",
    "LIST",
    "LSUB",
    "XLIST",
    "STATUS",
    "SELECT",
    "EXAMINE",
    "NOOP",
    "CHECK",
    "SEARCH",
    "SORT",
    "THREAD",
    "FETCH",
    "STORE",
    "COPY",
    "MOVE",
    "EXPUNGE",
    "APPEND",
    "CREATE",
    "DELETE",
    "RENAME",
    "IDLE",
    "UNSELECT",
    "CLOSE",
    "STARTTLS",
];

/// Messages of a folder of a class, by its bound: the geometric middle of the class.
fn messages(most: u32) -> f64 {
    const BOUNDS: [u32; 9] = [0, 100, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 1_000_000];
    match most {
        u32::MAX => LARGEST,
        100 => 40.0,
        most => {
            let below = BOUNDS.iter().rev().find(|b| **b < most).copied().unwrap_or(0);
            (f64::from(below.max(1)) * f64::from(most)).sqrt().round()
        }
    }
}

/// FETCH: those that read bodies, those that list.
struct Fetches {
    listings: f64,
    which: String,
    items: &'static str,
    bodies: f64,
    bodies_of: String,
}

impl Fetches {
    fn of(seen: &CommandCounts, profile: &Profile) -> Self {
        let (mut count, mut sent, mut reads) = (0.0, 0.0, 0.0);
        // Messages of the folders, weighted by the FETCHes in them.
        let mut weighted = 0.0;
        for fetch in seen.named(&["FETCH"]) {
            count += fetch.count as f64;
            sent += fetch.sent as f64;
            reads += fetch.body_reads as f64;
            weighted += fetch.folder_most.map_or(0.0, messages) * fetch.count as f64;
        }
        let bodies = reads.min(count);
        let each = if bodies > 0.0 { (reads / bodies).round().max(1.0) } else { 1.0 };
        let bodies_of = if each > 1.0 { format!("last:{each:.0}") } else { "one".to_owned() };
        let listings = count - bodies;
        let octets = (sent - reads * message_bytes(profile) as f64).max(0.0) / listings.max(1.0);
        let folder = if count > 0.0 { (weighted / count).max(1.0) } else { 1.0 };
        let (which, items) = match octets / folder {
            each if each >= FLAGS_OCTETS_MAX => ("all".to_owned(), HEADERS),
            each if each >= WHOLE_OCTETS_MIN => ("all".to_owned(), FLAGS),
            _ => (format!("last:{:.0}", (octets / HEADER_OCTETS).round().max(1.0)), HEADERS),
        };
        Self { listings, which, items, bodies, bodies_of }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::super::{Profile, learn};
    use super::*;
    use crate::{Messages, SessionKind, Track, TransactionStep, Workload, parse};

    fn made(profile: &Profile) -> Workload {
        let learned = learn("mine", profile, None).unwrap();
        parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml))
    }

    #[test]
    fn sessions_that_look_and_leave_become_one_transaction() {
        // Seed 000's session: LOGIN, SELECT, FETCH of UID and FLAGS: 40 octets for each of 700.
        let fetch = Observed { sent: 100 * 700 * 40, ..seen("imap", "UID FETCH", Some(1_000), 100) };
        let commands = vec![
            seen("imap", "LOGIN", None, 100),
            seen("imap", "SELECT", Some(1_000), 100),
            fetch,
            seen("imap", "SEARCH", Some(1_000), 25),
            seen("imap", "LOGOUT", Some(1_000), 100),
        ];
        let workload = made(&Profile { seconds: Some(60.0), users: 5, commands, ..Profile::default() });
        assert_eq!((workload.session, workload.track), (SessionKind::Each, Track::Static));
        let (session, searching) = (&workload.transactions[0], &workload.transactions[1]);
        assert!(
            matches!(&session.steps[..], [TransactionStep::Select { .. }, TransactionStep::Fetch(Messages::All, items)] if items == "UID FLAGS"),
            "{session:?}"
        );
        assert!(
            matches!(
                &searching.steps[..],
                [TransactionStep::Select { .. }, TransactionStep::Search(_), TransactionStep::Fetch(..)]
            ),
            "{searching:?}"
        );
        let shares = workload.choice.shares(2);
        assert!((shares[0] - 0.75).abs() < 1e-3 && (shares[1] - 0.25).abs() < 1e-3, "{shares:?}");
        // 5 users had 100 sessions in 60 s.
        assert_eq!(workload.think, crate::Think::Exponential(3.0));
        assert_eq!((workload.fill.inbox, workload.fill.folders), (316, 0));
    }

    #[test]
    fn long_sessions_stay_online_and_choose_by_frequency() {
        let fetch = |most, count, body_reads, sent| Observed {
            sent,
            body_reads,
            ..seen("imap", "FETCH", Some(most), count)
        };
        let commands = vec![
            seen("imap", "LOGIN", None, 10),
            seen("imap", "SELECT", Some(100), 300),
            seen("imap", "SELECT", Some(10_000), 100),
            // 400 bodies of 17 kB, 200 listings of some 50 messages' headers.
            fetch(10_000, 600, 400, 400 * 17_000 + 200 * 15_000),
            seen("imap", "STORE", Some(100), 90),
            seen("imap", "EXPUNGE", Some(100), 60),
            seen("imap", "MOVE", Some(100), 30),
            seen("imap", "XUNKNOWN", Some(100), 7),
        ];
        let profile = Profile { commands, ..Profile::default() };
        let workload = made(&profile);
        assert_eq!((workload.session, workload.track), (SessionKind::Online, Track::Messages));
        let weights: Vec<(&str, f64)> = workload
            .transactions
            .iter()
            .zip(workload.choice.shares(workload.transactions.len()))
            .map(|(t, share)| (t.name.as_str(), (share * 1090.0).round()))
            .collect();
        let expected = [
            ("SELECT of INBOX", 300.0),
            ("SELECT of another", 100.0),
            ("listing", 200.0),
            ("body", 400.0),
            ("STORE", 30.0),
            ("MOVE", 30.0),
            // Each with a STORE of \Deleted of its own.
            ("EXPUNGE", 60.0),
        ];
        assert_eq!(weights.iter().map(|w| w.0).collect::<Vec<_>>(), expected.map(|w| w.0));
        let all: f64 = expected.iter().map(|w| w.1).sum();
        for ((name, got), (_, wanted)) in weights.iter().zip(expected) {
            assert!((got - wanted * 1090.0 / all).abs() <= 1.0, "{name}: {got}");
        }
        let listing = &workload.transactions[2].steps[0];
        assert!(matches!(listing, TransactionStep::Fetch(Messages::LastN(50), _)), "{listing:?}");
        assert_eq!((workload.fill.inbox, workload.fill.folders, workload.fill.per_folder), (40, 1, 7071));
        let notes = learn("mine", &profile, None).unwrap().notes;
        assert!(notes.iter().any(|n| n.starts_with("7 commands of other kinds")), "{notes:?}");
    }

    #[test]
    fn every_command_that_has_a_step_is_one_that_a_workload_can_do() {
        for name in KNOWN
            .iter()
            .filter(|n| !matches!(**n, "LOGIN" | "AUTHENTICATE" | "LOGOUT" | "session" | "STARTTLS"))
        {
            for logins in [1, 1000] {
                let commands = vec![seen("imap", "LOGIN", None, logins), seen("imap", name, Some(100), 900)];
                let workload = made(&Profile { commands, ..Profile::default() });
                assert!(!workload.transactions.is_empty(), "{name}");
            }
        }
    }
}
