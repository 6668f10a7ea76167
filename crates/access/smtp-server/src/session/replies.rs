//! Every reply of the server, and the total maps from failures to replies. The party at fault
//! decides the class.

use posthaste_delivery::{ErrorKind, ResolveError};
use posthaste_directory::LoginFailure;
use posthaste_filter::{COPIES_LATER, Delivered, Undelivered};
use posthaste_mime_summary::{HEADER_FIELDS_MAX, HEADER_LEN_MAX};
use posthaste_net::{AccountLimit, SubmissionRefused};
use posthaste_scanner::Verdict;
use posthaste_screening::Refusal;

use crate::RelayRefusal;
use crate::reply::{Enhanced, Reply};
use crate::syntax::SyntaxError;

fn reply(code: u16, enhanced: (u8, u16, u16), text: impl Into<std::borrow::Cow<'static, str>>) -> Reply {
    Reply::new(code, Enhanced(enhanced.0, enhanced.1, enhanced.2), text)
}

pub(super) fn ok(text: &'static str) -> Reply {
    reply(250, (2, 0, 0), text)
}
pub(super) fn goodbye(host: &str) -> Reply {
    reply(221, (2, 0, 0), format!("{host} closes the connection"))
}
pub(super) fn help() -> Reply {
    reply(214, (2, 0, 0), "See RFC 5321, RFC 6409 and RFC 2033")
}
pub(super) fn vrfy() -> Reply {
    reply(252, (2, 0, 0), "Cannot verify the address; send mail to find out")
}
pub(super) fn start_tls() -> Reply {
    reply(220, (2, 0, 0), "Begin TLS")
}
pub(super) fn authenticated() -> Reply {
    reply(235, (2, 7, 0), "Logged in")
}
pub(super) fn sender_ok() -> Reply {
    reply(250, (2, 1, 0), "Sender taken")
}
/// RFC 6710 §4.1, §10: the text begins with the priority that counts.
pub(super) fn priority_lowered() -> Reply {
    reply(250, (2, 3, 6), "0 is the highest priority without a login")
}
pub(super) fn recipient_ok() -> Reply {
    reply(250, (2, 1, 5), "Recipient taken")
}
pub(super) fn start_mail_input() -> Reply {
    Reply::bare(354, "Send the message, end with a dot on a line of its own")
}
/// The reply to the delivery of a message to one recipient.
pub(crate) fn outcome(id: &str, outcome: &Delivered) -> Reply {
    match outcome {
        Ok(_) => delivered(id),
        Err(Undelivered::Delivery(error)) => delivery(error.kind()),
        // RFC 3463 §3.3: mailing list expansion problem.
        Err(Undelivered::TooManyCopies(_)) => reply(450, (4, 2, 4), COPIES_LATER),
        Err(Undelivered::Rejected(reason)) => rejected(reason),
    }
}

/// RFC 5429 §2.1.1: the reason of a script, with a line of the reply for each of its lines, in
/// ASCII.
fn rejected(reason: &str) -> Reply {
    /// Lines of a reply: a client keeps them, and reports quote them. Ten times what people write.
    const LINES_MAX: usize = 100;
    let plain = |c: char| match c {
        _ if c.is_control() => ' ',
        _ if c.is_ascii() => c,
        _ => '?',
    };
    let reason: String = reason.trim().chars().map(|c| if c == '\n' { c } else { plain(c) }).collect();
    if reason.is_empty() {
        return reply(550, (5, 7, 1), "The recipient refuses the message");
    }
    let mut lines = reason.split('\n').flat_map(|line| wrapped(line.trim_end()));
    let first = lines.next().unwrap_or_default().to_owned();
    lines.take(LINES_MAX - 1).fold(reply(550, (5, 7, 1), first), |reply, line| reply.line(line.to_owned()))
}

/// An ASCII text as lines of a reply, broken at spaces where there are some.
fn wrapped(line: &str) -> impl Iterator<Item = &str> {
    /// A reply line has 512 octets (RFC 5321 §4.5.3.1.5); codes and end are among them.
    const LEN_MAX: usize = 400;
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some((head, _)) = text.split_at_checked(LEN_MAX).filter(|(_, tail)| !tail.is_empty()) else {
            return Some(text);
        };
        let end = head.rfind(' ').filter(|space| *space > 0).unwrap_or(LEN_MAX);
        let (line, tail) = text.split_at_checked(end).unwrap_or((text, ""));
        rest = Some(tail.trim_start()).filter(|tail| !tail.is_empty());
        Some(line.trim_end())
    })
}
fn delivered(id: &str) -> Reply {
    reply(250, (2, 0, 0), format!("Delivered, id {id}"))
}
/// The reply to a message for other domains.
/// RFC 7372 §3.2, and RFC 7489 §10.3: the policy is the author's.
pub(crate) fn refused_by_author(author: &str) -> Reply {
    let plain: String = author.chars().filter(char::is_ascii_graphic).take(255).collect();
    reply(550, (5, 7, 26), format!("SPF and DKIM do not pass for {plain}, and its DMARC policy is reject"))
}
pub(crate) fn queued(id: &str) -> Reply {
    reply(250, (2, 0, 0), format!("Queued, id {id}"))
}
/// The reply to a message for other domains that was not taken.
pub(crate) fn not_relayed(refusal: &RelayRefusal) -> Reply {
    match refusal {
        // RFC 5321 §6.3.
        RelayRefusal::Loop => reply(554, (5, 4, 6), "The message is in a mail loop"),
        RelayRefusal::Domain(address) => {
            reply(550, (5, 1, 2), format!("<{address}> has no domain that mail could be sent to"))
        }
        RelayRefusal::AccountFull { limit } => {
            let text = format!("Messages of yours that wait may have {limit} octets; try again later");
            reply(452, (4, 3, 1), text)
        }
        // RFC 5321 §4.2.3; RFC 3463 §3.4: X.3.1 is a mail system that is full.
        RelayRefusal::QueueFull => reply(452, (4, 3, 1), "Too many messages wait here; try again later"),
        RelayRefusal::Delivery(error) => delivery(error.kind()),
    }
}

/// An HTTP client came by: RFC 5321 §3.8 lets us hang up.
pub(super) fn no_web_server() -> Reply {
    reply(421, (4, 7, 0), "This is a mail server")
}

pub(super) fn wrong_greeting(right: &'static str) -> Reply {
    reply(500, (5, 5, 1), format!("Use {right} here"))
}
pub(super) fn not_implemented() -> Reply {
    reply(502, (5, 5, 1), "Not offered here")
}
pub(super) fn sequence(text: &'static str) -> Reply {
    reply(503, (5, 5, 1), text)
}
pub(super) fn no_recipients() -> Reply {
    reply(503, (5, 5, 1), "No valid recipients")
}
pub(super) fn login_required() -> Reply {
    reply(530, (5, 7, 0), "Log in first")
}
/// RFC 8689 §4.1: the parameter counts inside TLS alone.
pub(super) fn needs_tls() -> Reply {
    reply(530, (5, 7, 10), "REQUIRETLS needs TLS here, too: send STARTTLS first")
}
pub(super) fn login_cancelled() -> Reply {
    reply(501, (5, 7, 0), "Login cancelled")
}
/// RFC 4468 §4.
pub(super) fn url_refused() -> Reply {
    reply(554, (5, 6, 6), "The URL names nothing that you may send")
}
pub(super) fn too_large(limit: usize) -> Reply {
    reply(552, (5, 3, 4), format!("Message size exceeds the limit of {limit} octets"))
}
/// A message that could not be verified yet.
pub(crate) fn unverified() -> Reply {
    reply(451, (4, 3, 2), "Too many messages are being verified; try again later")
}
/// RFC 3463 §3.5: X.4.3 is a directory server that fails.
pub(crate) fn unanswered_by_dns() -> Reply {
    reply(451, (4, 4, 3), "DNS look-ups about the sender took too long; try again later")
}
/// RFC 3463 §3.4: X.3.4 is a message that is too big.
pub(crate) fn header_too_large() -> Reply {
    let (octets, fields) = (HEADER_LEN_MAX, HEADER_FIELDS_MAX);
    reply(552, (5, 3, 4), format!("The header exceeds the limit of {octets} octets and {fields} fields"))
}
/// RFC 5321 §2.3.8; RFC 3463 §3.7: X.6.0 is something wrong with the message itself.
pub(crate) fn bare_cr() -> Reply {
    reply(550, (5, 6, 0), "The header has a CR without LF: end each line with CR LF")
}
pub(super) fn no_room() -> Reply {
    reply(452, (4, 3, 1), "Too many messages are arriving; try again later")
}
pub(super) fn too_many_recipients() -> Reply {
    reply(452, (4, 5, 3), "Too many recipients; send the rest in another transaction")
}
/// RFC 4954 §6: the login may be tried again.
pub(super) fn too_many_connections() -> Reply {
    reply(454, (4, 7, 0), "Your account has too many connections; close some of them and try again")
}

/// RFC 5321 §4.3.2 has 450 and 550 for DATA, "rejections for policy reasons"; RFC 3463 §3.6 and
/// §3.8.
pub(crate) fn over_limit(refused: &SubmissionRefused) -> Reply {
    let SubmissionRefused { limit, count, again_in } = refused;
    let (detail, may) = match limit {
        AccountLimit::MessagesPerHour => ((7, 1), format!("send {count} messages an hour")),
        AccountLimit::MessagesPerDay => ((7, 1), format!("send {count} messages a day")),
        AccountLimit::RecipientsPerHour => ((5, 3), format!("send to {count} recipients an hour")),
        _ => ((5, 3), format!("send to {count} recipients a day")),
    };
    match again_in {
        Some(wait) => {
            let minutes = wait.as_secs() / 60 + 1;
            let text = format!("Your account may {may}; try again in {minutes} min");
            reply(450, (4, detail.0, detail.1), text)
        }
        None => reply(550, (5, detail.0, detail.1), format!("Your account may {may}; send this in parts")),
    }
}

pub(super) fn needs_smtputf8() -> Reply {
    reply(553, (5, 6, 7), "This address needs SMTPUTF8")
}
pub(super) fn not_your_address() -> Reply {
    reply(553, (5, 7, 1), "This is not an address of yours")
}
/// RFC 6409 §6.1 names 550 for a message that the rules of a site do not let its sender submit.
pub(crate) fn not_your_author(field: &str, author: Option<&str>) -> Reply {
    let Some(author) = author else {
        let text = format!("Each {field} field needs an address of yours, and no more than 16");
        return reply(550, (5, 7, 1), text);
    };
    let plain: String = author.chars().filter(char::is_ascii_graphic).take(255).collect();
    reply(550, (5, 7, 1), format!("The {field} field names {plain}, which is not an address of yours"))
}
pub(crate) fn directory_away() -> Reply {
    reply(451, (4, 3, 0), "The directory is unavailable; try again later")
}
pub(super) fn too_many_errors() -> Reply {
    reply(421, (4, 7, 0), "Too many errors")
}

/// The command whose path is faulty.
#[derive(Clone, Copy)]
pub(super) enum PathOf {
    /// The path of MAIL.
    Sender,
    /// The path of RCPT; also for all commands without a path.
    Recipient,
}

/// The reply to a line that is no command (RFC 5321 §4.2.4, RFC 3463 §3.6).
pub(super) fn syntax(error: &SyntaxError, path: PathOf) -> Reply {
    let (code, enhanced) = match error {
        SyntaxError::Line => (500, (5, 5, 2)),
        SyntaxError::Verb => (500, (5, 5, 1)),
        SyntaxError::Argument(_) | SyntaxError::ParameterValue(_) => (501, (5, 5, 4)),
        SyntaxError::Path(_) => match path {
            PathOf::Sender => (501, (5, 1, 7)),
            PathOf::Recipient => (501, (5, 1, 3)),
        },
        // RFC 5321 §4.1.1.11.
        SyntaxError::Parameter => (555, (5, 5, 4)),
    };
    reply(code, enhanced, capital(error.to_string()))
}

/// RFC 4954 §6, RFC 5248.
pub(super) fn login(failure: &LoginFailure) -> Reply {
    let (code, enhanced) = match failure {
        LoginFailure::Credentials | LoginFailure::AuthorizationId | LoginFailure::ChannelBinding(_) => {
            (535, (5, 7, 8))
        }
        LoginFailure::Certificate | LoginFailure::Token(_) => (535, (5, 7, 8)),
        LoginFailure::Expired | LoginFailure::Scope => (535, (5, 7, 8)),
        LoginFailure::Disabled => (535, (5, 7, 13)),
        LoginFailure::Malformed(_) => (501, (5, 5, 2)),
        LoginFailure::UnknownMechanism => (504, (5, 5, 4)),
        LoginFailure::EncryptionRequired => (538, (5, 7, 11)),
        LoginFailure::TooMany | LoginFailure::Unavailable(_) => (454, (4, 7, 0)),
    };
    let text = match failure {
        // Unauthenticated clients learn nothing about the store's state.
        LoginFailure::Unavailable(_) => "Logins are unavailable; try again later".to_owned(),
        failure => capital(failure.to_string()),
    };
    reply(code, enhanced, text)
}

/// RFC 3463 §3.8; RFC 6647 §4 for deferrals.
pub(crate) fn screened(refusal: &Refusal) -> Reply {
    let (code, class) = if refusal.is_permanent() { (550, 5) } else { (451, 4) };
    reply(code, (class, 7, 1), capital(refusal.to_string()))
}

/// The reply to a scanner's verdict; `None` if the message is delivered.
pub(crate) fn scanned(verdict: &Verdict) -> Option<Reply> {
    match verdict {
        Verdict::Accept | Verdict::Junk => None,
        Verdict::Defer(why) => Some(reply(451, (4, 7, 1), why.clone())),
        Verdict::Reject(why) => Some(reply(550, (5, 7, 1), why.clone())),
    }
}

/// A milter says no, and not why.
pub(crate) fn filtered(code: u16, class: u8) -> Reply {
    reply(code, (class, 7, 1), "A filter of this server refuses the message")
}

/// A scanner did not answer.
pub(crate) fn unscanned() -> Reply {
    reply(451, (4, 7, 1), "The message could not be checked; try again later")
}

/// RFC 5321 §4.1.3; RFC 3463 §3.2.
pub(super) fn at_an_address() -> Reply {
    reply(550, (5, 1, 2), "Mail for that address literal is not accepted here; name a domain")
}

/// RFC 3463 §3.2.
pub(super) fn resolve(error: &ResolveError) -> Reply {
    let (code, enhanced) = match error {
        ResolveError::Invalid(_) => (501, (5, 1, 3)),
        ResolveError::NotLocal => (550, (5, 1, 2)),
        ResolveError::NoSuchUser => (550, (5, 1, 1)),
        ResolveError::Disabled => (550, (5, 2, 1)),
        ResolveError::Directory(_) => return directory_away(),
    };
    reply(code, enhanced, capital(error.to_string()))
}

/// See [`ErrorKind`]. The text says nothing about the store's state: unauthenticated clients need
/// not know it.
pub(crate) fn delivery(kind: ErrorKind) -> Reply {
    match kind {
        ErrorKind::TooLarge => reply(552, (5, 3, 4), "Message size exceeds the limit"),
        ErrorKind::OverQuota => reply(452, (4, 2, 2), "The mailbox is full"),
        ErrorKind::NoMailbox => reply(550, (5, 2, 1), "The mailbox takes no mail"),
        ErrorKind::Unavailable => reply(452, (4, 3, 1), "The mail store cannot take it now; try again later"),
        ErrorKind::Refused => reply(554, (5, 6, 0), "The message cannot be stored"),
        ErrorKind::ServerBug => reply(451, (4, 3, 0), "A fault of this server; try again later"),
    }
}

fn capital(text: String) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn refused(reason: &str) -> Reply {
        outcome("1", &Err(Undelivered::Rejected(reason.to_owned())))
    }

    /// RFC 5429 §2.1.1.
    #[test]
    fn a_reason_of_several_lines_is_a_reply_of_several_lines() {
        let said = refused("No mail,\r\n\r\nplease: gr\u{fc}\u{df} Gott\n").to_string();
        assert_eq!(said, "550-5.7.1 No mail,\r\n550-5.7.1 \r\n550 5.7.1 please: gr?? Gott\r\n");
        let said = refused(" \r\n").to_string();
        assert_eq!(said, "550 5.7.1 The recipient refuses the message\r\n");
        let long = format!("{} end", "word ".repeat(200).trim_end());
        assert_eq!(refused(&long).lines().collect::<Vec<_>>().join(" "), long);
    }

    properties! {
        /// RFC 5321 §4.5.3.1.5.
        #[test]
        fn no_line_of_a_reason_is_too_long(reason in "([a-z]{0,900}[ \r\n\u{fc}\t]{0,3}){0,6}") {
            let said = refused(&reason).to_string();
            let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).count();
            prop_assert!(said.split_inclusive("\r\n").all(|line| line.len() <= 512), "{said}");
            prop_assert!(Reply::parse(said.as_bytes()).is_some());
            if letters(&reason) > 0 {
                prop_assert_eq!(letters(&said), letters(&reason));
            }
        }
    }
}
