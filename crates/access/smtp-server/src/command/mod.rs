//! Command lines to typed values and back.
//!
//! The commands: RFC 5321 §4.1.1 (SMTP), RFC 2033 §4.1 (LHLO), RFC 3207 (STARTTLS), RFC 4954 §4
//! (AUTH), RFC 3030 §2 and §3 (BDAT, BINARYMIME), RFC 4468 (BURL). The parameters: RFC 1870 §6
//! (SIZE), RFC 6152 §3 (BODY), RFC 6531 §3.4 (SMTPUTF8), RFC 3461 §4 (RET, ENVID, NOTIFY, ORCPT),
//! RFC 6710 §4.1 (MT-PRIORITY). A line comes without its CRLF and is UTF-8; bare CR, bare LF and
//! NUL are no part of any command.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_queue::{EnvelopeId, Notify, OriginalRecipient, Priority, Return, xtext};

use crate::address::{Mailbox, ReversePath, bracketed, is_domain, is_literal};
use crate::syntax::SyntaxError;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Greeting of a client that knows extensions.
    Ehlo(String),
    /// Greeting of one that does not.
    Helo(String),
    /// Greeting in LMTP.
    Lhlo(String),
    /// Begins a transaction.
    Mail {
        /// The address that reports go to.
        from: ReversePath,
        /// The parameters of extensions.
        parameters: MailParameters,
    },
    /// Adds a recipient.
    Rcpt {
        /// The recipient.
        to: Mailbox,
        /// The parameters of extensions.
        parameters: RcptParameters,
    },
    /// The message follows, with dots stuffed.
    Data,
    /// The number of octets of the message that follow.
    Bdat {
        /// The number of octets.
        size: u64,
        /// Whether they are the last of it.
        last: bool,
    },
    /// The data that this IMAP URL names comes next in the message: RFC 4468 §3.
    Burl {
        /// The URL, which the mailbox's owner has authorised.
        url: String,
        /// Whether it is the last of it.
        last: bool,
    },
    /// Forgets the transaction.
    Rset,
    /// Does nothing (RFC 5321 §4.1.1.9).
    Noop,
    /// The end.
    Quit,
    /// A word of help.
    Help,
    /// Is there such a user?
    Vrfy(String),
    /// A query for the members of a list.
    Expn(String),
    /// TLS from here on.
    StartTls,
    /// Logs in.
    Auth {
        /// As the client names it.
        mechanism: String,
        /// Decoded; `None` if the command brought none, empty for `=`.
        initial: Option<Vec<u8>>,
    },
}

/// Parameters of MAIL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailParameters {
    /// Octets the client believes the message has.
    pub size: Option<u64>,
    /// The kind of octets.
    pub body: Option<BodyKind>,
    /// Addresses and header may be UTF-8.
    pub smtputf8: bool,
    /// The author, as a relaying client names it (RFC 4954 §5): xtext, read and not used.
    pub auth: Option<String>,
    /// The part of the message that a report about a failure returns.
    pub ret: Option<Return>,
    /// The client's name for the transaction, for reports.
    pub envid: Option<EnvelopeId>,
    /// TLS at every step from here on (RFC 8689 §2).
    pub require_tls: bool,
    /// The message's priority (RFC 6710 §4.1).
    pub priority: Option<Priority>,
}

/// Parameters of RCPT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RcptParameters {
    /// The events to report.
    pub notify: Option<Notify>,
    /// The address before any alias, for reports.
    pub orcpt: Option<OriginalRecipient>,
}

/// `BODY=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// `7BIT`.
    SevenBit,
    /// `8BITMIME`.
    EightBitMime,
    /// `BINARYMIME`: any octets, sent by BDAT.
    BinaryMime,
}

impl Command {
    /// Reads a line, without its CRLF.
    pub fn parse(line: &[u8]) -> Result<Self, SyntaxError> {
        if line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(SyntaxError::Line);
        }
        let line = std::str::from_utf8(line).map_err(|_| SyntaxError::Line)?.trim_end_matches([' ', '\t']);
        let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
        let argument = argument.trim_start_matches(' ');
        let parse = VERBS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(verb))
            .map(|(_, parse)| parse)
            .ok_or(SyntaxError::Verb)?;
        parse(argument)
    }
}

type Parse = fn(&str) -> Result<Command, SyntaxError>;

const VERBS: [(&str, Parse); 18] = [
    ("EHLO", |argument| Ok(Command::Ehlo(client_name(argument)?))),
    ("HELO", |argument| Ok(Command::Helo(client_name(argument)?))),
    ("LHLO", |argument| Ok(Command::Lhlo(client_name(argument)?))),
    ("MAIL", mail),
    ("RCPT", rcpt),
    ("DATA", |argument| alone(argument, Command::Data)),
    ("BDAT", bdat),
    ("BURL", burl),
    ("RSET", |argument| alone(argument, Command::Rset)),
    // RFC 5321 §4.1.1.9, §4.1.1.8: these may have an argument.
    ("NOOP", |_| Ok(Command::Noop)),
    ("HELP", |_| Ok(Command::Help)),
    ("QUIT", |argument| alone(argument, Command::Quit)),
    ("VRFY", |argument| Ok(Command::Vrfy(something(argument)?))),
    ("EXPN", |argument| Ok(Command::Expn(something(argument)?))),
    ("STARTTLS", |argument| alone(argument, Command::StartTls)),
    ("AUTH", auth),
    // SEND and its kin are obsolete (RFC 5321 appendix F.6); named to keep them from ever meaning
    // anything else.
    ("SEND", |_| Err(SyntaxError::Verb)),
    ("TURN", |_| Err(SyntaxError::Verb)),
];

fn alone(argument: &str, command: Command) -> Result<Command, SyntaxError> {
    if argument.is_empty() {
        Ok(command)
    } else {
        Err(SyntaxError::Argument("this command takes no argument"))
    }
}

fn something(argument: &str) -> Result<String, SyntaxError> {
    if argument.is_empty() {
        Err(SyntaxError::Argument("a name must follow"))
    } else {
        Ok(argument.to_owned())
    }
}

/// `Domain / address-literal`. It goes into `Received:` headers, so what could break one is
/// refused.
fn client_name(argument: &str) -> Result<String, SyntaxError> {
    if is_domain(argument) || is_literal(argument) {
        Ok(argument.to_owned())
    } else {
        Err(SyntaxError::Argument("give your host name or [address]"))
    }
}

fn keyword<'a>(argument: &'a str, word: &str) -> Option<&'a str> {
    let (found, rest) = argument.split_at_checked(word.len())?;
    // A space after the colon is not in the grammar and in many clients.
    found.eq_ignore_ascii_case(word).then(|| rest.trim_start_matches(' '))
}

fn mail(argument: &str) -> Result<Command, SyntaxError> {
    let path = keyword(argument, "FROM:").ok_or(SyntaxError::Argument("MAIL FROM:<address>"))?;
    let (path, rest) = bracketed(path)?;
    let from = ReversePath::parse(path)?;
    let mut parameters = MailParameters::default();
    for parameter in parameters_of(rest)? {
        parameters.take(parameter)?;
    }
    Ok(Command::Mail { from, parameters })
}

fn rcpt(argument: &str) -> Result<Command, SyntaxError> {
    let path = keyword(argument, "TO:").ok_or(SyntaxError::Argument("RCPT TO:<address>"))?;
    let (path, rest) = bracketed(path)?;
    let to = Mailbox::parse(path)?;
    let mut parameters = RcptParameters::default();
    for parameter in parameters_of(rest)? {
        parameters.take(parameter)?;
    }
    Ok(Command::Rcpt { to, parameters })
}

/// `*(SP esmtp-param)` after a path.
fn parameters_of(rest: &str) -> Result<impl Iterator<Item = &str>, SyntaxError> {
    if rest.is_empty() || rest.starts_with(' ') {
        Ok(rest.split(' ').filter(|parameter| !parameter.is_empty()))
    } else {
        Err(SyntaxError::Path("a space must follow it"))
    }
}

impl MailParameters {
    fn take(&mut self, parameter: &str) -> Result<(), SyntaxError> {
        let (name, value) = name_and_value(parameter);
        match (name.as_str(), value) {
            ("SIZE", Some(value)) => once(&mut self.size, number(value), "SIZE=octets"),
            ("BODY", Some(value)) => {
                once(&mut self.body, BodyKind::from_name(value), "BODY=7BIT, 8BITMIME or BINARYMIME")
            }
            ("AUTH", Some(value)) => {
                once(&mut self.auth, xtext(value).map(|_| value.to_owned()), "AUTH=address as xtext")
            }
            ("RET", Some(value)) => once(&mut self.ret, Return::parse(value), "RET=FULL or RET=HDRS"),
            ("ENVID", Some(value)) => {
                once(&mut self.envid, EnvelopeId::parse(value), "ENVID=printable ASCII as xtext")
            }
            ("MT-PRIORITY", Some(value)) => {
                once(&mut self.priority, Priority::parse(value), "MT-PRIORITY=-9 to 9")
            }
            ("SMTPUTF8", None) => {
                self.smtputf8 = true;
                Ok(())
            }
            ("REQUIRETLS", None) => {
                self.require_tls = true;
                Ok(())
            }
            ("SIZE" | "BODY" | "AUTH" | "RET" | "ENVID" | "SMTPUTF8" | "REQUIRETLS" | "MT-PRIORITY", _) => {
                Err(SyntaxError::ParameterValue("a value is missing or superfluous"))
            }
            _ => Err(SyntaxError::Parameter),
        }
    }
}

impl RcptParameters {
    fn take(&mut self, parameter: &str) -> Result<(), SyntaxError> {
        let (name, value) = name_and_value(parameter);
        match (name.as_str(), value) {
            ("NOTIFY", Some(value)) => {
                once(&mut self.notify, Notify::parse(value), "NOTIFY=NEVER, or of SUCCESS,FAILURE,DELAY")
            }
            ("ORCPT", Some(value)) => {
                once(&mut self.orcpt, OriginalRecipient::parse(value), "ORCPT=type;address as xtext")
            }
            ("NOTIFY" | "ORCPT", None) => {
                Err(SyntaxError::ParameterValue("a value is missing or superfluous"))
            }
            _ => Err(SyntaxError::Parameter),
        }
    }
}

/// A parameter's name in upper case, and its value.
fn name_and_value(parameter: &str) -> (String, Option<&str>) {
    match parameter.split_once('=') {
        Some((name, value)) => (name.to_ascii_uppercase(), Some(value)),
        None => (parameter.to_ascii_uppercase(), None),
    }
}

/// A parameter may be given once, and its value must be valid.
fn once<T>(place: &mut Option<T>, value: Option<T>, form: &'static str) -> Result<(), SyntaxError> {
    if place.is_some() || value.is_none() {
        return Err(SyntaxError::ParameterValue(form));
    }
    *place = value;
    Ok(())
}

/// `1*20DIGIT` (RFC 1870 §6, RFC 3030 §2); what passes 64 bits counts as their largest value.
fn number(text: &str) -> Option<u64> {
    let digits = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn bdat(argument: &str) -> Result<Command, SyntaxError> {
    let (size, rest) = argument.split_once(' ').unwrap_or((argument, ""));
    let size = number(size).ok_or(SyntaxError::Argument("BDAT octets [LAST]"))?;
    match rest.trim_start_matches(' ') {
        "" => Ok(Command::Bdat { size, last: false }),
        rest if rest.eq_ignore_ascii_case("LAST") => Ok(Command::Bdat { size, last: true }),
        _ => Err(SyntaxError::Argument("BDAT octets [LAST]")),
    }
}

/// RFC 4468 §5: `"BURL" SP absolute-URI [SP end-marker]`
fn burl(argument: &str) -> Result<Command, SyntaxError> {
    const WANTED: SyntaxError = SyntaxError::Argument("BURL imap-url [LAST]");
    let (url, rest) = argument.split_once(' ').unwrap_or((argument, ""));
    if url.is_empty() || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(WANTED);
    }
    let last = match rest.trim_start_matches(' ') {
        "" => false,
        rest if rest.eq_ignore_ascii_case("LAST") => true,
        _ => return Err(WANTED),
    };
    Ok(Command::Burl { url: url.to_owned(), last })
}

fn auth(argument: &str) -> Result<Command, SyntaxError> {
    let (mechanism, initial) = match argument.split_once(' ') {
        Some((mechanism, initial)) => (mechanism, Some(initial.trim_start_matches(' '))),
        None => (argument, None),
    };
    // RFC 4422 §3.1: 1 to 20 of A-Z, 0-9, `-` and `_`.
    let named = (1..=20).contains(&mechanism.len())
        && mechanism.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if !named {
        return Err(SyntaxError::Argument("AUTH mechanism [initial-response]"));
    }
    let initial = initial.map(initial_response).transpose()?;
    Ok(Command::Auth { mechanism: mechanism.to_ascii_uppercase(), initial })
}

/// RFC 4954 §4: a single `=` is an empty response, which is not the same as no response.
fn initial_response(text: &str) -> Result<Vec<u8>, SyntaxError> {
    if text == "=" { Ok(Vec::new()) } else { response(text.as_bytes()) }
}

/// A line of an authentication exchange: base64 of a response, decoded.
pub fn response(line: &[u8]) -> Result<Vec<u8>, SyntaxError> {
    BASE64.decode(line).map_err(|_| SyntaxError::Argument("this is not base64"))
}

impl BodyKind {
    fn name(self) -> &'static str {
        match self {
            Self::SevenBit => "7BIT",
            Self::EightBitMime => "8BITMIME",
            Self::BinaryMime => "BINARYMIME",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        let all = [Self::SevenBit, Self::EightBitMime, Self::BinaryMime];
        all.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ehlo(name) => write!(f, "EHLO {name}"),
            Self::Helo(name) => write!(f, "HELO {name}"),
            Self::Lhlo(name) => write!(f, "LHLO {name}"),
            Self::Mail { from, parameters } => write!(f, "MAIL FROM:{from}{parameters}"),
            Self::Rcpt { to, parameters } => write!(f, "RCPT TO:{to}{parameters}"),
            Self::Data => f.write_str("DATA"),
            Self::Bdat { size, last: false } => write!(f, "BDAT {size}"),
            Self::Bdat { size, last: true } => write!(f, "BDAT {size} LAST"),
            Self::Burl { url, last: false } => write!(f, "BURL {url}"),
            Self::Burl { url, last: true } => write!(f, "BURL {url} LAST"),
            Self::Rset => f.write_str("RSET"),
            Self::Noop => f.write_str("NOOP"),
            Self::Quit => f.write_str("QUIT"),
            Self::Help => f.write_str("HELP"),
            Self::Vrfy(name) => write!(f, "VRFY {name}"),
            Self::Expn(name) => write!(f, "EXPN {name}"),
            Self::StartTls => f.write_str("STARTTLS"),
            Self::Auth { mechanism, initial: None } => write!(f, "AUTH {mechanism}"),
            Self::Auth { mechanism, initial: Some(octets) } if octets.is_empty() => {
                write!(f, "AUTH {mechanism} =")
            }
            Self::Auth { mechanism, initial: Some(octets) } => {
                write!(f, "AUTH {mechanism} {}", BASE64.encode(octets))
            }
        }
    }
}

impl fmt::Display for MailParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(size) = self.size {
            write!(f, " SIZE={size}")?;
        }
        if let Some(body) = self.body {
            write!(f, " BODY={}", body.name())?;
        }
        if self.smtputf8 {
            f.write_str(" SMTPUTF8")?;
        }
        if let Some(auth) = &self.auth {
            write!(f, " AUTH={auth}")?;
        }
        if let Some(ret) = self.ret {
            write!(f, " RET={}", ret.name())?;
        }
        if let Some(envid) = &self.envid {
            write!(f, " ENVID={}", envid.as_xtext())?;
        }
        if self.require_tls {
            f.write_str(" REQUIRETLS")?;
        }
        if let Some(priority) = self.priority {
            write!(f, " MT-PRIORITY={priority}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RcptParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(notify) = self.notify {
            write!(f, " NOTIFY={notify}")?;
        }
        if let Some(orcpt) = &self.orcpt {
            write!(f, " ORCPT={}", orcpt.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
