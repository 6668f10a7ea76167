//! The grammar of commands: RFC 5804 §4.

use posthaste_directory::SCRIPT_BYTES_MAX;

/// Octets of one command before a login. A response of SASL has at most 8192 octets, 10,924 in
/// base64; twice this has no use.
pub const STRANGER_LEN_MAX: usize = 12 * 1024;
/// Octets of one command after it: a script, its name and the words around them.
pub(crate) const USER_LEN_MAX: usize = SCRIPT_BYTES_MAX + 4 * 1024;
/// Arguments of a command at most: no command has more than two.
const ARGUMENTS_MAX: usize = 4;

/// Literals of a command at most. No command has more strings: RFC 5804 §2.
pub(crate) const LITERALS_MAX: usize = 2;

/// The extent to which a command has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framed {
    /// More is needed.
    Part,
    /// The command has this many octets, its line end included.
    Whole(usize),
    /// The command is over the limit: at least this many octets.
    TooLong(u64),
    /// The command has more literals than any has. Its end was not looked for.
    TooManyLiterals,
}

/// Finds the end of one command, which comes in pieces. An octet is looked at once, however small
/// the pieces are. Between two calls the caller may append to the input but take nothing from it.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// The beginning of the command's present line, after its earlier lines and literals.
    line_start: usize,
    /// The end of what was looked at: no line ends between the two.
    scanned: usize,
    literals: usize,
}

impl Framer {
    /// Looks at what came since the last call. The command may have `max` octets. Literals are
    /// skipped, not read. After any answer but [`Framed::Part`], take another framer.
    pub(crate) fn next(&mut self, input: &[u8], max: usize) -> Framed {
        loop {
            // Nothing is new while a literal is not whole.
            let Some(fresh) = input.get(self.scanned..) else { return Framed::Part };
            let Some(end) = memchr::memchr(b'\n', fresh) else {
                self.scanned = input.len();
                return if input.len() > max { Framed::TooLong(0) } else { Framed::Part };
            };
            let end = self.scanned + end + 1;
            let Some(octets) = literal_at_end(input.get(self.line_start..end).unwrap_or_default()) else {
                return if end > max { Framed::TooLong(0) } else { Framed::Whole(end) };
            };
            self.literals += 1;
            if self.literals > LITERALS_MAX {
                return Framed::TooManyLiterals;
            }
            if octets > (max as u64).saturating_sub(end as u64) {
                return Framed::TooLong(end as u64 + octets);
            }
            // It fits `max`, so it fits.
            self.line_start = end + octets as usize;
            self.scanned = self.line_start;
        }
    }
}

/// The size of a literal that a line ends with: `{12+}`. RFC 5804 §4: clients send no others.
pub(crate) fn literal_at_end(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"+}\r\n")?;
    let digits = line.get(line.iter().rposition(|byte| *byte == b'{')? + 1..)?;
    if digits.is_empty() || digits.len() > 10 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Authenticate { mechanism: String, initial: Option<String> },
    StartTls,
    Logout,
    Capability,
    HaveSpace { name: String, octets: u64 },
    PutScript { name: String, text: String },
    ListScripts,
    SetActive(String),
    GetScript(String),
    DeleteScript(String),
    RenameScript { from: String, to: String },
    CheckScript(String),
    Noop(Option<String>),
    Unauthenticate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Argument {
    Text(String),
    Number(u64),
}

/// Reads a whole command, as [`Framer`] found it; what is wrong with it.
pub(crate) fn parse(bytes: &[u8]) -> Result<Command, &'static str> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(bytes.len());
    let (word, mut rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
    let word = String::from_utf8_lossy(word).to_ascii_uppercase();
    let mut arguments = Vec::new();
    while rest != b"\r\n" {
        let after = rest.strip_prefix(b" ").ok_or("a space or the end of the line is expected")?;
        let (argument, after) = argument(after)?;
        if arguments.len() == ARGUMENTS_MAX {
            return Err("there are too many arguments");
        }
        arguments.push(argument);
        rest = after;
    }
    command(&word, arguments)
}

fn command(word: &str, arguments: Vec<Argument>) -> Result<Command, &'static str> {
    use Argument::{Number, Text};
    let mut given = arguments.into_iter();
    let command = match (word, given.next(), given.next(), given.next()) {
        ("AUTHENTICATE", Some(Text(mechanism)), None, None) => {
            Command::Authenticate { mechanism, initial: None }
        }
        ("AUTHENTICATE", Some(Text(mechanism)), Some(Text(initial)), None) => {
            Command::Authenticate { mechanism, initial: Some(initial) }
        }
        ("STARTTLS", None, None, None) => Command::StartTls,
        ("LOGOUT", None, None, None) => Command::Logout,
        ("CAPABILITY", None, None, None) => Command::Capability,
        ("HAVESPACE", Some(Text(name)), Some(Number(octets)), None) => Command::HaveSpace { name, octets },
        ("PUTSCRIPT", Some(Text(name)), Some(Text(text)), None) => Command::PutScript { name, text },
        ("LISTSCRIPTS", None, None, None) => Command::ListScripts,
        ("SETACTIVE", Some(Text(name)), None, None) => Command::SetActive(name),
        ("GETSCRIPT", Some(Text(name)), None, None) => Command::GetScript(name),
        ("DELETESCRIPT", Some(Text(name)), None, None) => Command::DeleteScript(name),
        ("RENAMESCRIPT", Some(Text(from)), Some(Text(to)), None) => Command::RenameScript { from, to },
        ("CHECKSCRIPT", Some(Text(text)), None, None) => Command::CheckScript(text),
        ("NOOP", None, None, None) => Command::Noop(None),
        ("NOOP", Some(Text(tag)), None, None) => Command::Noop(Some(tag)),
        ("UNAUTHENTICATE", None, None, None) => Command::Unauthenticate,
        _ => return Err("there is no such command with these arguments"),
    };
    Ok(command)
}

/// A line that is one string: a response of SASL.
pub(crate) fn parse_string(bytes: &[u8]) -> Result<String, &'static str> {
    match argument(bytes)? {
        (Argument::Text(text), b"\r\n") => Ok(text),
        _ => Err("one string is expected"),
    }
}

fn argument(bytes: &[u8]) -> Result<(Argument, &[u8]), &'static str> {
    match bytes.first() {
        Some(b'"') => quoted(&bytes[1..]),
        Some(b'{') => literal(bytes),
        Some(byte) if byte.is_ascii_digit() => {
            let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
            let (digits, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
            let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            // RFC 5804 §4: 32 bits.
            match number.filter(|number: &u64| u32::try_from(*number).is_ok()) {
                Some(number) => Ok((Argument::Number(number), rest)),
                None => Err("the number is too large"),
            }
        }
        _ => Err("a string or a number is expected"),
    }
}

fn quoted(bytes: &[u8]) -> Result<(Argument, &[u8]), &'static str> {
    let (mut text, mut at) = (Vec::new(), 0);
    loop {
        match bytes.get(at) {
            Some(b'"') => break,
            Some(b'\\') => match bytes.get(at + 1) {
                Some(byte @ (b'"' | b'\\')) => {
                    text.push(*byte);
                    at += 2;
                }
                _ => return Err("a backslash may precede only a quote or a backslash"),
            },
            Some(b'\r' | b'\n' | 0) | None => return Err("a quoted string has no end on its line"),
            Some(byte) => {
                text.push(*byte);
                at += 1;
            }
        }
    }
    let text = String::from_utf8(text).map_err(|_| "a string is written in UTF-8")?;
    Ok((Argument::Text(text), &bytes[at + 1..]))
}

fn literal(bytes: &[u8]) -> Result<(Argument, &[u8]), &'static str> {
    const WRONG: &str = "a literal begins with its size: {12+}";
    let end = memchr::memchr(b'\n', bytes).ok_or(WRONG)? + 1;
    let (line, rest) = bytes.split_at_checked(end).ok_or(WRONG)?;
    let octets = literal_at_end(line).and_then(|octets| usize::try_from(octets).ok()).ok_or(WRONG)?;
    let (text, rest) = rest.split_at_checked(octets).ok_or(WRONG)?;
    let text = std::str::from_utf8(text).map_err(|_| "a string is written in UTF-8")?;
    Ok((Argument::Text(text.to_owned()), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(input: &[u8], max: usize) -> Framed {
        Framer::default().next(input, max)
    }

    #[test]
    fn commands_are_framed_with_their_literals() {
        let put = b"PUTSCRIPT \"a\" {7+}\r\nkeep;\r\n\r\nNOOP\r\n";
        assert_eq!(frame(put, 100), Framed::Whole(29));
        let mut framer = Framer::default();
        for part in 0..29 {
            assert_eq!(frame(&put[..part], 100), Framed::Part, "{part}");
            assert_eq!(framer.next(&put[..part], 100), Framed::Part, "{part}");
        }
        assert_eq!(framer.next(put, 100), Framed::Whole(29));
        assert_eq!(frame(put, 20), Framed::TooLong(27));
        assert_eq!(frame(b"X {4294967296+}\r\n", 100), Framed::TooLong(17 + 4_294_967_296));
        assert_eq!(frame(&[b'x'; 101], 100), Framed::TooLong(0));
        assert_eq!(frame(b"X {5}\r\n", 100), Framed::Whole(7));
    }

    /// A client that sent one octet at a time had all of its command looked at again for each.
    #[test]
    fn an_octet_is_looked_at_once() {
        /// Octets before the line end in which a literal's size is looked for.
        const SIZE_LEN_MAX: usize = 16;
        let long = [b"NOOP \"".as_slice(), &[b'x'; 1000], b"\"\r\n"].concat();
        let text = [b"PUTSCRIPT {3+}\r\na\nb {500+}\r\n".as_slice(), &[b'\n'; 500], b"\r\n"].concat();
        for command in [long, text] {
            let (mut framer, mut came) = (Framer::default(), Vec::new());
            for (at, octet) in command.iter().enumerate() {
                came.push(*octet);
                if at + 1 == command.len() {
                    break;
                }
                assert_eq!(framer.next(&came, 2000), Framed::Part, "{at}");
                assert!(framer.scanned > at, "{at}: {framer:?}");
                // A second look at these would find the end of a line.
                let looked_at = framer.scanned.min(came.len()).saturating_sub(SIZE_LEN_MAX);
                came[..looked_at].fill(b'\n');
            }
            assert_eq!(framer.next(&came, 2000), Framed::Whole(command.len()));
        }
    }

    #[test]
    fn a_command_has_as_many_literals_as_one_can_use() {
        assert_eq!(frame(b"RENAMESCRIPT {1+}\r\na {1+}\r\nb\r\n", 100), Framed::Whole(30));
        assert_eq!(frame(b"PUTSCRIPT {0+}\r\n{0+}\r\n{0+}\r\n", 100), Framed::TooManyLiterals);
    }

    #[test]
    fn commands_are_read() {
        let put = |name: &str, text: &str| Command::PutScript { name: name.into(), text: text.into() };
        assert_eq!(
            parse(b"putScript \"a \\\"b\\\\\" {7+}\r\nkeep;\r\n\r\n"),
            Ok(put("a \"b\\", "keep;\r\n"))
        );
        assert_eq!(parse(b"PUTSCRIPT {1+}\r\na \"keep;\"\r\n"), Ok(put("a", "keep;")));
        assert_eq!(parse(b"HAVESPACE \"a\" 12\r\n"), Ok(Command::HaveSpace { name: "a".into(), octets: 12 }));
        assert_eq!(parse(b"NOOP \"x\"\r\n"), Ok(Command::Noop(Some("x".into()))));
        assert_eq!(parse(b"LOGOUT\r\n"), Ok(Command::Logout));
        for wrong in [
            "",
            "\r\n",
            "LOGOUT",
            "LOGOUT \r\n",
            "LOGOUT  \"x\"\r\n",
            "NOOP 1\r\n",
            "NOOP \"x\r\n",
            "NOOP \"\\x\"\r\n",
            "HAVESPACE \"a\" 4294967296\r\n",
            "HAVESPACE \"a\" 99999999999999999999999\r\n",
            "NOOP {3}\r\nabc\r\n",
            "NOOP {3+}\r\nab",
            "GETSCRIPT a\r\n",
            "LOGOUT\n",
            "NOOP \"a\" \"b\" \"c\" \"d\" \"e\"\r\n",
        ] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
        assert!(parse(b"NOOP \"\xff\"\r\n").is_err());
    }

    #[test]
    fn responses_are_one_string() {
        assert_eq!(parse_string(b"\"AGE=\"\r\n").as_deref(), Ok("AGE="));
        assert_eq!(parse_string(b"{4+}\r\nAGE=\r\n").as_deref(), Ok("AGE="));
        assert!(parse_string(b"\"a\" \"b\"\r\n").is_err() && parse_string(b"12\r\n").is_err());
    }
}
