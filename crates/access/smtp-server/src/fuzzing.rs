//! Bytes of a client on their way through the parser and the session machine, without a socket. For
//! fuzz targets, and for the tests below.
//!
//! A session's first byte selects the answers of look-ups, and how the message is cut into pieces.

use std::sync::Arc;

use bytes::BytesMut;
use posthaste_delivery::{Recipient, ResolveError};
use posthaste_directory::sasl::{Mechanism, Mechanisms};
use posthaste_directory::{Account, Address, LoginError, LoginFailure, Target};
use posthaste_mail_model::{AccountId, Id};
use time::OffsetDateTime;

use crate::command::{Command, response};
use crate::dots::DotReader;
use crate::options::LINE_MAX;
use crate::reply::Reply;
use crate::session::replies;
use crate::{Action, Link, Role, Session, SmtpOptions};

/// Octets of messages for which there is room.
const ROOM: usize = 1 << 20;

/// One line as a command and as base64 of an exchange: what is understood is printed and
/// understood again.
pub fn command(line: &[u8]) {
    if let Ok(command) = Command::parse(line) {
        let printed = command.to_string();
        assert_eq!(Command::parse(printed.as_bytes()), Ok(command), "printed: {printed:?}");
    }
    if let Ok(octets) = response(line) {
        use base64::Engine;
        assert_eq!(base64::engine::general_purpose::STANDARD.encode(octets).as_bytes(), line);
    }
}

/// A client of LMTP.
pub fn lmtp(data: &[u8]) {
    session(Role::Lmtp, data);
}

/// A client of submission.
pub fn submission(data: &[u8]) {
    session(Role::Submission, data);
}

/// Another host.
pub fn smtp(data: &[u8]) {
    session(Role::Smtp, data);
}

/// A message after DATA: the same in pieces of any size, and nothing is taken after its end.
pub fn dots(data: &[u8]) {
    let Some((&first, wire)) = data.split_first() else { return };
    let read = |step: usize| {
        let (mut reader, mut out, mut used) = (DotReader::new(), BytesMut::new(), 0);
        for piece in wire.chunks(step) {
            let progress = reader.read(piece, &mut out);
            used += progress.used;
            assert!(progress.used <= piece.len() && (progress.ended || progress.used == piece.len()));
            if progress.ended {
                return (out, used, true);
            }
        }
        (out, used, false)
    };
    let whole = read(wire.len().max(1));
    assert_eq!(read(usize::from(first % 17) + 1), whole);
    let (message, used, ended) = whole;
    // RFC 5321 §4.5.2: the line of a dot alone is the end, and the first one is.
    if ended {
        assert!(wire[..used].ends_with(b".\r\n") && message.len() + 3 <= used);
        let before = &wire[..used - 3];
        assert!(before.is_empty() || before.ends_with(b"\r\n"));
        assert!(!before.windows(5).any(|five| five == b"\r\n.\r\n") && !before.starts_with(b".\r\n"));
    }
}

fn session(role: Role, data: &[u8]) {
    let Some((&flags, mut rest)) = data.split_first() else { return };
    let mut options = SmtpOptions::new("mail.example");
    (options.message_size_max, options.recipients_max) = (ROOM, 100);
    let link = Link {
        peer: std::net::SocketAddr::from(([192, 0, 2, 1], 4711)),
        tls: None,
        starttls: flags & 1 != 0,
        mechanisms: Mechanisms::of(&[Mechanism::ScramSha256, Mechanism::Plain]),
    };
    let mut session = Session::new(role, Arc::new(options), link);
    check(&session.welcome());
    while let Some(line) = line_of(&mut rest) {
        let mut action = session.line(line, ROOM);
        loop {
            action = match action {
                Action::Resolve(mailbox) => {
                    let found = found(flags, &mailbox.to_string());
                    session.recipient_resolved(mailbox, found)
                }
                Action::CheckSender(mailbox) => {
                    Action::Reply(session.sender_resolved(found(flags, &mailbox.to_string())))
                }
                Action::Authenticate { .. } if flags & 2 != 0 => {
                    Action::Reply(session.authenticated(account(1)))
                }
                Action::Authenticate { .. } if flags & 4 != 0 => session.login_cancelled(None),
                Action::Authenticate { .. } => {
                    session.login_failed(&LoginError::at_once(LoginFailure::Credentials))
                }
                Action::Reply(reply) => {
                    check(&reply);
                    break;
                }
                Action::Close(reply) => return check(&reply),
                Action::StartTls(reply) => {
                    check(&reply);
                    session.tls_started(None, Mechanisms::of(&[Mechanism::Plain]));
                    break;
                }
                Action::Data(reply) => {
                    check(&reply);
                    check_trace(&session);
                    let mut message = BytesMut::new();
                    rest = &rest[DotReader::new().read(rest, &mut message).used..];
                    deliver(&mut session);
                    break;
                }
                Action::Chunk { size, last } => {
                    check_trace(&session);
                    skip(&mut rest, size);
                    if last {
                        deliver(&mut session);
                    }
                    break;
                }
                Action::Url { last, .. } => {
                    check_trace(&session);
                    if last {
                        deliver(&mut session);
                    }
                    break;
                }
                Action::Discard { size, reply } => {
                    skip(&mut rest, size);
                    action = Action::Reply(reply);
                    continue;
                }
            };
        }
    }
}

/// The next line. Those over [`LINE_MAX`] are left out: they are refused before a session has them.
fn line_of<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    loop {
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let line = &rest[..end];
        *rest = &rest[end + 2..];
        if end + 2 <= LINE_MAX {
            return Some(line);
        }
    }
}

fn skip(rest: &mut &[u8], size: u64) {
    *rest = &rest[usize::try_from(size).unwrap_or(usize::MAX).min(rest.len())..];
}

/// RFC 5321 §4.2.1: each line has the code, and no reply holds a line end of its own.
fn check(reply: &Reply) {
    let mut printed = Vec::new();
    reply.print(&mut printed);
    let (read, used) = Reply::parse(&printed).expect("a reply that was just printed");
    assert_eq!((read.code(), used), (reply.code(), printed.len()));
    assert!((200..600).contains(&reply.code()));
}

/// The name that a client gives itself cannot add a field to the message.
fn check_trace(session: &Session) {
    let trace = session.trace("id", OffsetDateTime::UNIX_EPOCH);
    assert!(trace.ends_with("\r\n"), "{trace:?}");
    let lines: Vec<&str> = trace.trim_end_matches("\r\n").split("\r\n").collect();
    let fields: Vec<&&str> = lines.iter().filter(|line| !line.starts_with(['\t', ' '])).collect();
    let known = |line: &&&str| line.starts_with("Return-Path: <") || line.starts_with("Received: from ");
    assert!(fields.len() <= 2 && fields.iter().all(known), "{trace:?}");
    assert!(
        !lines.iter().any(|line| line.contains(['\r', '\n', '\0']) || line.trim().is_empty()),
        "{trace:?}"
    );
}

fn deliver(session: &mut Session) {
    let transaction = session.message_received().expect("a message follows a transaction");
    let count = transaction.recipients.len();
    assert!((1..=100).contains(&count), "{count} recipients");
    let replies = vec![replies::outcome("id", &Ok(None)); count];
    session.delivered(replies).iter().for_each(check);
    session.refused(count, Reply::bare(452, "later")).iter().for_each(check);
}

/// An account of a number, `userN@example.org`.
pub(crate) fn account(number: u128) -> Account {
    Account {
        id: AccountId(Id::from_bytes(number.to_be_bytes())),
        name: format!("user{number}@example.org"),
        quota_bytes: None,
        quota_messages: None,
        command_limits: posthaste_directory::CommandLimits::default(),
        quota_mailboxes: None,
        folder_limits: posthaste_directory::FolderLimits::default(),
        own_limits: None,
        password_changes: 0,
        shared: false,
        forward: None,
        referral: None,
        mailbox_referrals: Box::default(),
        sets_quotas: false,
        scripts: Box::default(),
        format: None,
        keep_original: false,
        disabled: false,
        created: 0,
        version: 1,
    }
}

fn found(flags: u8, address: &str) -> Result<Target, ResolveError> {
    if flags & 8 != 0 {
        return Err(ResolveError::NoSuchUser);
    }
    let address = Address::parse(address)?;
    let recipient = Recipient { account: Arc::new(account(1)), address, detail: None };
    Ok(Target::Account(recipient))
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_line_is_a_command_or_a_mistake() {
        fuzz_seeds("smtp_command", 100_000, command);
    }

    #[test]
    fn any_client_of_lmtp_is_answered() {
        fuzz_seeds("lmtp", 30_000, lmtp);
    }

    #[test]
    fn any_host_is_answered() {
        fuzz_seeds("smtp", 30_000, smtp);
    }

    #[test]
    fn any_client_of_submission_is_answered() {
        fuzz_seeds("submission", 30_000, submission);
    }

    #[test]
    fn a_message_ends_at_its_dot_and_nowhere_else() {
        fuzz_seeds("dots", 50_000, dots);
    }
}
