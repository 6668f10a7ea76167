//! Command lines to typed values and back.
//!
//! RFC 1939 §3 – §7, RFC 2449 §4 (CAPA), RFC 2595 §4 (STLS), RFC 5034 §4 (AUTH), RFC 6856
//! §2 and §3 (UTF8, LANG). A line comes without its CRLF and is UTF-8. Bare CR, bare LF and NUL
//! are part of no command.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use posthaste_mail_model::Secret;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Names the account.
    User(String),
    /// The password: all after the first space, spaces included (RFC 1939 §7).
    Pass(Secret<String>),
    /// Logs in by SASL.
    Auth {
        /// In capitals; `None` requests the list, as clients from before RFC 5034 do.
        mechanism: Option<String>,
        /// Decoded; `None` if the command brought none, empty for `=`.
        initial: Option<Secret<Vec<u8>>>,
    },
    /// Is not offered.
    Apop,
    /// A query for the capabilities.
    Capa,
    /// TLS from here on.
    Stls,
    /// Names, passwords and headers may be UTF-8.
    Utf8,
    /// The language of answers: which there are, or this one.
    Lang(Option<String>),
    /// The number of messages and of octets.
    Stat,
    /// The sizes of all messages, or of one.
    List(Option<u32>),
    /// The unique ids of all messages, or of one.
    Uidl(Option<u32>),
    /// A message.
    Retr(u32),
    /// A message's header and the first lines of its body.
    Top {
        /// The message.
        number: u32,
        /// The number of lines of the body.
        lines: u64,
    },
    /// Marks a message for removal at QUIT.
    Dele(u32),
    /// Does nothing (RFC 1939 §5).
    Noop,
    /// Takes all marks back.
    Rset,
    /// The end.
    Quit,
}

/// The reason why a line is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// Not text, or with bare CR, bare LF or NUL in it.
    #[error("A command is a line of UTF-8 that ends with CR LF")]
    Line,
    /// The line is longer than any command.
    #[error("The line is too long")]
    TooLong,
    /// No such command.
    #[error("No such command")]
    Verb,
    /// The argument is missing, superfluous or malformed.
    #[error("Syntax: {0}")]
    Argument(&'static str),
}

impl Command {
    /// Reads a line, without its CRLF.
    pub fn parse(line: &[u8]) -> Result<Self, SyntaxError> {
        if line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(SyntaxError::Line);
        }
        let line = std::str::from_utf8(line).map_err(|_| SyntaxError::Line)?;
        let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
        let is = |name: &str| name.eq_ignore_ascii_case(verb);
        // RFC 1939 §7: a password may have spaces anywhere.
        if is("PASS") {
            return Ok(Self::Pass(Secret::new(argument.to_owned())));
        }
        let argument = argument.trim_matches([' ', '\t']);
        match () {
            () if is("USER") => named(argument).map(Self::User),
            () if is("AUTH") => auth(argument),
            () if is("APOP") => Ok(Self::Apop),
            () if is("CAPA") => alone(argument, Self::Capa),
            () if is("STLS") => alone(argument, Self::Stls),
            () if is("UTF8") => alone(argument, Self::Utf8),
            () if is("LANG") => Ok(Self::Lang((!argument.is_empty()).then(|| argument.to_owned()))),
            () if is("STAT") => alone(argument, Self::Stat),
            () if is("LIST") => of_one_or_all(argument).map(Self::List),
            () if is("UIDL") => of_one_or_all(argument).map(Self::Uidl),
            () if is("RETR") => message(argument).map(Self::Retr),
            () if is("TOP") => top(argument),
            () if is("DELE") => message(argument).map(Self::Dele),
            () if is("NOOP") => alone(argument, Self::Noop),
            () if is("RSET") => alone(argument, Self::Rset),
            () if is("QUIT") => alone(argument, Self::Quit),
            () => Err(SyntaxError::Verb),
        }
    }
}

fn alone(argument: &str, command: Command) -> Result<Command, SyntaxError> {
    if argument.is_empty() {
        Ok(command)
    } else {
        Err(SyntaxError::Argument("this command takes no argument"))
    }
}

fn named(argument: &str) -> Result<String, SyntaxError> {
    if argument.is_empty() { Err(SyntaxError::Argument("USER name")) } else { Ok(argument.to_owned()) }
}

fn of_one_or_all(argument: &str) -> Result<Option<u32>, SyntaxError> {
    if argument.is_empty() { Ok(None) } else { message(argument).map(Some) }
}

/// A message number. One that no message can have is a number anyway.
fn message(argument: &str) -> Result<u32, SyntaxError> {
    let n = number(argument).ok_or(SyntaxError::Argument("give the number of a message"))?;
    Ok(u32::try_from(n).unwrap_or(u32::MAX))
}

fn top(argument: &str) -> Result<Command, SyntaxError> {
    const SYNTAX: SyntaxError = SyntaxError::Argument("TOP message lines");
    let (which, lines) = argument.split_once(' ').ok_or(SYNTAX)?;
    let lines = number(lines.trim_start_matches(' ')).ok_or(SYNTAX)?;
    message(which).map_err(|_| SYNTAX).map(|number| Command::Top { number, lines })
}

/// `1*20DIGIT`; what passes 64 bits counts as their largest value.
fn number(text: &str) -> Option<u64> {
    let digits = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn auth(argument: &str) -> Result<Command, SyntaxError> {
    if argument.is_empty() {
        return Ok(Command::Auth { mechanism: None, initial: None });
    }
    let (mechanism, initial) = match argument.split_once(' ') {
        Some((mechanism, initial)) => (mechanism, Some(initial.trim_start_matches(' '))),
        None => (argument, None),
    };
    // RFC 4422 §3.1: 1 to 20 of A-Z, 0-9, `-` and `_`.
    let is_name = (1..=20).contains(&mechanism.len())
        && mechanism.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if !is_name {
        return Err(SyntaxError::Argument("AUTH mechanism [initial-response]"));
    }
    let initial = match initial {
        // RFC 5034 §4: a single `=` is an empty response, which is not the same as no response.
        Some("=") => Some(Secret::new(Vec::new())),
        Some(text) => Some(response(text.as_bytes())?),
        None => None,
    };
    Ok(Command::Auth { mechanism: Some(mechanism.to_ascii_uppercase()), initial })
}

/// A line of an authentication exchange: base64 of a response, decoded.
pub fn response(line: &[u8]) -> Result<Secret<Vec<u8>>, SyntaxError> {
    BASE64.decode(line).map(Secret::new).map_err(|_| SyntaxError::Argument("this is not base64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, SyntaxError> {
        Command::parse(line.as_bytes())
    }

    #[test]
    fn known_commands() {
        use Command::*;
        let auth = |mechanism: Option<&str>, initial: Option<&[u8]>| Auth {
            mechanism: mechanism.map(str::to_owned),
            initial: initial.map(|octets| Secret::new(octets.to_vec())),
        };
        for (line, command) in [
            ("USER ana@example.org", User("ana@example.org".to_owned())),
            ("user gr\u{fc}n ", User("gr\u{fc}n".to_owned())),
            ("PASS correct horse ", Pass(Secret::new("correct horse ".to_owned()))),
            ("PASS  x", Pass(Secret::new(" x".to_owned()))),
            ("PASS", Pass(Secret::new(String::new()))),
            ("AUTH", auth(None, None)),
            ("auth plain", auth(Some("PLAIN"), None)),
            ("AUTH PLAIN =", auth(Some("PLAIN"), Some(b""))),
            ("AUTH PLAIN AGEAYg==", auth(Some("PLAIN"), Some(b"\0a\0b"))),
            ("APOP ana c4c9334bac560ecc979e58001b3e22fb", Apop),
            ("CAPA", Capa),
            ("STLS", Stls),
            ("UTF8", Utf8),
            ("LANG", Lang(None)),
            ("LANG en-GB", Lang(Some("en-GB".to_owned()))),
            ("STAT", Stat),
            ("LIST", List(None)),
            ("LIST ", List(None)),
            ("list 07", List(Some(7))),
            ("UIDL", Uidl(None)),
            ("UIDL 4294967296", Uidl(Some(u32::MAX))),
            ("RETR 0", Retr(0)),
            ("TOP 1 0", Top { number: 1, lines: 0 }),
            ("TOP 1  99999999999999999999", Top { number: 1, lines: u64::MAX }),
            ("DELE 1", Dele(1)),
            ("NOOP", Noop),
            ("RSET", Rset),
            ("QUIT", Quit),
        ] {
            assert_eq!(parse(line), Ok(command), "{line:?}");
        }
    }

    #[test]
    fn known_mistakes() {
        let argument = |line: &str| matches!(parse(line), Err(SyntaxError::Argument(_)));
        for line in [
            "USER",
            "USER ",
            "RETR",
            "RETR x",
            "RETR -1",
            "RETR 1 2",
            "TOP 1",
            "TOP 1 -1",
            "TOP x 1",
            "DELE",
            "STAT 1",
            "QUIT now",
            "AUTH PLAIN !",
            "AUTH PL/AIN",
            "LIST one",
            "CAPA x",
        ] {
            assert!(argument(line), "{line:?}: {:?}", parse(line));
        }
        for line in ["", " ", "HELO", "GET / HTTP/1.1", "RETR\t1"] {
            assert_eq!(parse(line), Err(SyntaxError::Verb), "{line:?}");
        }
        for line in [&b"NOOP\r"[..], b"NO\nOP", b"USER \0", b"USER \xff"] {
            assert_eq!(Command::parse(line), Err(SyntaxError::Line), "{line:?}");
        }
    }
}
