//! Counts of users from Dovecot's log, which has a line for each login, each ended session and each
//! delivery.
//!
//! ```text
//! Nov 25 02:00:01 imap(ana)<17><x>: Info: Disconnected: Logged out in=437 out=7132 deleted=1 \
//!   expunged=1 trashed=0 hdr_count=2 hdr_bytes=500 body_count=1 body_bytes=3000
//! Nov 25 02:00:02 pop3(ana)<18><x>: Info: Disconnected: Logged out top=0/0, retr=2/6000, \
//!   del=2/10, size=30000
//! Nov 25 02:00:03 lmtp(ana)<19><x>: Info: msgid=<y>: saved mail to INBOX
//! ```
//!
//! The log does not name commands. A session that ended is one SELECT. Messages whose body or
//! header was read are FETCHes. The rest of the sent octets is a listing in each session.

use std::collections::{BTreeMap, BTreeSet};

use super::profile::{MESSAGE_BYTES_GUESSED, Observed, Profile};

/// Seconds in a day; logs without a year are of one year at most.
const DAY: u64 = 24 * 3600;

/// Sums of sessions.
#[derive(Default)]
struct Sums {
    users: BTreeSet<String>,
    commands: BTreeMap<(&'static str, &'static str), Observed>,
    first: Option<u64>,
    last: Option<u64>,
}

/// Reads a log.
///
/// # Errors
/// It has no line of a session that ended.
pub fn of_dovecot_log(text: &str, source: &str) -> Result<Profile, String> {
    let mut sums = Sums::default();
    for line in text.lines() {
        sums.line(line);
    }
    if !sums.commands.keys().any(|(protocol, _)| *protocol != "lmtp") {
        return Err(format!(
            "{source} has no line of an IMAP or POP3 session that ended (`imap(USER)…: Disconnected: … in=… out=…`)"
        ));
    }
    let seconds = sums.first.zip(sums.last).map(|(first, last)| last.saturating_sub(first) as f64);
    Ok(Profile {
        source: source.to_owned(),
        seconds: seconds.filter(|s| *s > 0.0),
        users: sums.users.len() as u64,
        commands: sums.commands.into_values().collect(),
        clients: Vec::new(),
    })
}

impl Sums {
    fn line(&mut self, line: &str) {
        let Some((protocol, user, rest)) = process(line) else { return };
        let time = time(line);
        match protocol {
            "imap" if rest.contains("Disconnected") && rest.contains(" in=") => self.imap(rest),
            "pop3" if rest.contains("Disconnected") && rest.contains("retr=") => self.pop3(rest),
            "lmtp" if rest.contains("saved mail to") || rest.contains("stored mail into") => {
                self.add("lmtp", "DATA", 1);
                self.noted(time);
                return;
            }
            _ => return,
        }
        self.users.insert(user.to_owned());
        self.noted(time);
    }

    fn noted(&mut self, time: Option<u64>) {
        self.first = self.first.or(time);
        self.last = time.or(self.last);
    }

    fn imap(&mut self, rest: &str) {
        let of = |name: &str| field(rest, name).unwrap_or(0);
        let (bodies, headers, expunged) = (of("body_count"), of("hdr_count"), of("expunged"));
        self.add("imap", "LOGIN", 1);
        self.add("imap", "SELECT", 1);
        // A listing for each session, and a FETCH for each body.
        let fetch = self.add("imap", "FETCH", 1 + bodies);
        fetch.body_reads += bodies;
        // The log's figures for bodies are exact. Octets of bodies are subtracted by the mean size
        // of a message, which is that of the deliveries or a guess.
        let listing = of("out").saturating_sub(of("body_bytes"));
        fetch.sent += listing.max(of("hdr_bytes")) + bodies * MESSAGE_BYTES_GUESSED;
        if headers > 0 && listing == 0 {
            fetch.sent += headers * 300;
        }
        self.add("imap", "EXPUNGE", expunged.min(1));
        self.add("imap", "STORE", of("deleted").max(expunged.min(1)));
    }

    fn pop3(&mut self, rest: &str) {
        let of = |name: &str| field(rest, name).unwrap_or(0);
        self.add("pop3", "PASS", 1);
        self.add("pop3", "STAT", 1);
        self.add("pop3", "UIDL", 1);
        let retrieved = of("retr");
        self.add("pop3", "RETR", retrieved);
        self.add("pop3", "DELE", of("del"));
        self.add("pop3", "TOP", of("top"));
    }

    fn add(&mut self, protocol: &'static str, command: &'static str, count: u64) -> &mut Observed {
        let sums = self.commands.entry((protocol, command)).or_insert_with(|| Observed {
            protocol: protocol.into(),
            command: command.into(),
            ..Observed::default()
        });
        sums.count += count;
        sums
    }
}

/// `imap(ana)<17><x>: Info: …` as protocol, user and the rest.
fn process(line: &str) -> Option<(&'static str, &str, &str)> {
    let found = ["imap", "pop3", "lmtp"].into_iter().find_map(|protocol| {
        let at = line.find(&format!("{protocol}("))?;
        let before = line.get(..at)?.chars().next_back();
        let rest = line.get(at + protocol.len() + 1..)?;
        before.is_none_or(|c| c == ' ').then_some((protocol, rest))
    });
    let (protocol, rest) = found?;
    let (user, rest) = rest.split_once(')')?;
    Some((protocol, user, rest))
}

/// `name=12` or `name=12/34`: the first number.
fn field(text: &str, name: &str) -> Option<u64> {
    text.split([' ', ',']).find_map(|word| {
        let value = word.strip_prefix(name)?.strip_prefix('=')?;
        value.split('/').next()?.parse().ok()
    })
}

/// Seconds of a line's time since the year began: `Nov 25 02:00:01` or `2026-11-25T02:00:01`.
fn time(line: &str) -> Option<u64> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    if let Some((date, clock)) = first.split_once('T')
        && let [_, month, day] = date.split('-').collect::<Vec<_>>()[..]
    {
        return moment(month.parse().ok()?, day.parse().ok()?, clock.get(..8)?);
    }
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|m| *m == first)? as u64 + 1;
    moment(month, words.next()?.parse().ok()?, words.next()?.get(..8)?)
}

fn moment(month: u64, day: u64, clock: &str) -> Option<u64> {
    const DAYS_BEFORE: [u64; 12] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];
    let mut parts = clock.split(':').map(str::parse::<u64>);
    let (Some(Ok(h)), Some(Ok(m)), Some(Ok(s))) = (parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    let before = DAYS_BEFORE.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    Some((before + day) * DAY + h * 3600 + m * 60 + s)
}

#[cfg(test)]
mod tests {
    use super::super::learn;
    use super::*;
    use crate::{SessionKind, parse};

    const LOG: &str = "\
Nov 25 02:00:00 imap-login: Info: Login: user=<ana>, method=PLAIN, rip=127.0.0.1, mpid=17, session=<x>
Nov 25 02:00:01 imap(ana)<17><x>: Info: Disconnected: Logged out in=437 out=7132 deleted=1 expunged=1 trashed=0 hdr_count=2 hdr_bytes=500 body_count=1 body_bytes=3000
Nov 25 02:00:31 imap(bob)<18><y>: Info: Disconnected: Connection closed (LOGOUT) in=40 out=900 deleted=0 expunged=0 trashed=0 hdr_count=0 hdr_bytes=0 body_count=0 body_bytes=0
Nov 25 02:01:00 lmtp(bob)<19><z>: Info: msgid=<a@b>: saved mail to INBOX
Nov 25 02:01:01 imap(ana)<20><v>: Error: something else with in=5
";

    #[test]
    fn sessions_and_deliveries_are_counted() {
        let profile = of_dovecot_log(LOG, "mail.log").unwrap();
        assert_eq!((profile.users, profile.seconds), (2, Some(59.0)));
        let count = |name: &str| profile.commands.iter().find(|c| c.command == name).map_or(0, |c| c.count);
        assert_eq!(["LOGIN", "SELECT", "FETCH", "STORE", "EXPUNGE", "DATA"].map(count), [2, 2, 3, 1, 1, 1]);
        let learned = learn("mine", &profile, None).unwrap();
        let workload = parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml));
        assert_eq!(workload.session, SessionKind::Each);
    }

    #[test]
    fn pop3_and_times_of_syslog() {
        let log = "2026-11-25T02:00:01.5+00:00 mail dovecot: pop3(ana)<1><x>: Disconnected: Logged out top=0/0, retr=2/6000, del=1/10, size=30000\n\
                   2026-11-25T02:10:01.5+00:00 mail dovecot: pop3(ana)<2><y>: Disconnected: Logged out top=0/0, retr=0/0, del=0/9, size=27000\n";
        let profile = of_dovecot_log(log, "mail.log").unwrap();
        assert_eq!((profile.users, profile.seconds), (1, Some(600.0)));
        let count = |name: &str| profile.commands.iter().find(|c| c.command == name).map_or(0, |c| c.count);
        assert_eq!(["PASS", "RETR", "DELE"].map(count), [2, 2, 1]);
    }

    #[test]
    fn another_log_is_an_error_that_says_what_is_looked_for() {
        let said = of_dovecot_log("postfix/smtpd: connect from x", "mail.log").unwrap_err();
        assert!(said.starts_with("mail.log has no line") && said.contains("imap(USER)"), "{said}");
    }
}
