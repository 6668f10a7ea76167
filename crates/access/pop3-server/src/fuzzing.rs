//! Bytes of a client on their way through the parser and the session machine, without a socket. For
//! fuzz targets, and for the tests below.
//!
//! A session's first byte selects what the connection allows and how logins end.

use std::collections::BTreeSet;
use std::sync::Arc;

use posthaste_directory::sasl::{Mechanism, Mechanisms};
use posthaste_directory::{LoginError, LoginFailure};
use posthaste_mail_model::{FlagSet, ModSeq, Uid, UidValidity};
use posthaste_store::{MailboxHead, Row, View, ViewBuilder};

use crate::command::{Command, response};
use crate::dots::{DotWriter, Top};
use crate::maildrop::Maildrop;
use crate::{Action, Link, Pop3Options, Refusal, Session};

/// Messages of the maildrop; their UIDs are every third number.
const MESSAGES: u32 = 130;

/// One line as a command: never a panic, and the same whatever the case of its verb.
pub fn command(line: &[u8]) {
    let command = Command::parse(line);
    let verb = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let mut other = line.to_vec();
    other[..verb].make_ascii_lowercase();
    assert_eq!(Command::parse(&other), command);
    let _ = response(line);
}

/// A message on its way out: the same in pieces of any size, and its end is the only one.
pub fn message(data: &[u8]) {
    let Some((&first, message)) = data.split_first() else { return };
    let print = |step: usize, lines: Option<u64>| {
        let (mut dots, mut top, mut out) = (DotWriter::new(), lines.map(Top::new), Vec::new());
        for piece in message.chunks(step) {
            let wanted = top.as_mut().map_or(piece.len(), |top| top.take(piece));
            dots.print(&piece[..wanted], &mut out);
            if top.as_ref().is_some_and(Top::is_done) {
                break;
            }
        }
        out.extend_from_slice(dots.end());
        out
    };
    for lines in [None, Some(u64::from(first / 17))] {
        let whole = print(message.len().max(1), lines);
        assert_eq!(print(usize::from(first % 17) + 1, lines), whole);
        let mut ends = 0;
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            assert!(line.ends_with(b"\r\n"));
            ends += usize::from(line == b".\r\n");
        }
        assert!(ends == 1 && whole.ends_with(b".\r\n"));
    }
}

/// A client.
pub fn session(data: &[u8]) {
    let Some((&flags, mut rest)) = data.split_first() else { return };
    let options = Pop3Options::default();
    let link = Link {
        encrypted: flags & 1 != 0,
        stls: flags & 2 != 0,
        passwords: flags & 4 == 0,
        mechanisms: Mechanisms::of(&[Mechanism::ScramSha256, Mechanism::Plain]),
    };
    let mut session = Session::new(Arc::new(options), link);
    let mut marked = BTreeSet::new();
    let mut out = Vec::new();
    session.welcome(&mut out);
    while let Some(line) = line_of(&mut rest) {
        let was_logged_in = session.is_logged_in();
        follow(line, was_logged_in, &mut marked, &session);
        let action = session.line(line, &mut out);
        let after = match action {
            Action::LogIn { .. } | Action::Authenticate { .. } => {
                assert!(!was_logged_in);
                match flags & 24 {
                    0 => session.logged_in("ana@example.org", maildrop(), &mut out),
                    8 => session.login_failed(&LoginError::at_once(LoginFailure::Credentials), &mut out),
                    16 => session.login_cancelled(None, &mut out),
                    _ => session.refuse(Refusal::TooManyConnections, &mut out),
                }
            }
            Action::StartTls => {
                assert!(!was_logged_in && !link.encrypted);
                out.extend_from_slice(b"+OK\r\n");
                session.tls_started(Link { encrypted: true, passwords: true, ..link });
                Action::Answered
            }
            Action::List(mut listing) => {
                while session.lines(&mut listing, &mut out) {}
                Action::Answered
            }
            Action::Retrieve { row, .. } => {
                assert!(was_logged_in && !marked.contains(&row.uid().value()));
                session.refuse(Refusal::Expunged, &mut out)
            }
            Action::Remove => {
                let uids = session.maildrop().map(|maildrop| maildrop.take_marked()()).unwrap_or_default();
                assert!(uids.iter().eq(marked.iter().copied()), "{uids} and {marked:?}");
                session.removed(Ok(()), &mut out)
            }
            action => action,
        };
        check(&out);
        out.clear();
        if after == Action::Close {
            return;
        }
    }
}

/// A simple model of DELE and RSET.
fn follow(line: &[u8], is_logged_in: bool, marked: &mut BTreeSet<u32>, session: &Session) {
    match Command::parse(line) {
        Ok(Command::Dele(n)) if is_logged_in && (1..=MESSAGES).contains(&n) => {
            marked.insert(3 * n);
        }
        Ok(Command::Rset) if session.is_logged_in() => marked.clear(),
        _ => {}
    }
}

/// Each answer is whole lines. The first one says `+OK` or `-ERR`.
fn check(out: &[u8]) {
    assert!(out.starts_with(b"+OK") || out.starts_with(b"-ERR"), "{}", out.escape_ascii());
    assert!(out.ends_with(b"\r\n"));
    for line in out.split_inclusive(|byte| *byte == b'\n') {
        let text = line.strip_suffix(b"\r\n");
        assert!(text.is_some_and(|text| !text.iter().any(u8::is_ascii_control)), "{}", line.escape_ascii());
    }
}

fn line_of<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = &rest[..end];
    *rest = &rest[end + 2..];
    Some(line)
}

fn maildrop() -> Maildrop {
    Maildrop::new(Arc::new(view(MESSAGES)), UidValidity::new(7).unwrap_or(UidValidity::MIN))
}

/// A mailbox of this many messages: message `n` has UID `3 n` and `n` octets.
pub(crate) fn view(messages: u32) -> View {
    let mut builder = ViewBuilder::new();
    let rows: Vec<Row> = (1..=messages)
        .filter_map(|n| Some(Row::new(Uid::new(3 * n)?, n, 0, FlagSet::EMPTY, ModSeq::new(1)?)))
        .collect();
    builder.push_rows(&rows);
    builder.finish(MailboxHead::default())
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_line_is_a_command_or_a_mistake() {
        fuzz_seeds("pop3_command", 100_000, command);
    }

    #[test]
    fn any_client_is_answered() {
        fuzz_seeds("pop3", 50_000, session);
    }

    #[test]
    fn any_message_is_lines_with_one_end() {
        fuzz_seeds("pop3_message", 50_000, message);
    }
}
