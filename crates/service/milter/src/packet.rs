//! The packets: a length of four octets, a letter, and its data.

/// Octets of a packet's data that are accepted. A filter may replace 64 KiB of a body at once, or 1
/// MiB where that is agreed.
pub const DATA_LEN_MAX: usize = 1024 * 1024 + 64;

/// The newest version that is spoken.
pub const VERSION: u32 = 6;
/// The oldest one.
pub const VERSION_MIN: u32 = 2;

/// The actions that filters may request: add, change and insert fields, replace the body, add and
/// remove recipients, quarantine, change the sender, add recipients with parameters.
pub const ACTIONS: u32 = 0xff;

/// The steps that a filter may leave out or leave unanswered.
pub mod flags {
    /// No connection, greeting, sender, recipients, body, fields, end of the header.
    pub const NO_CONNECT: u32 = 0x1;
    /// See [`NO_CONNECT`].
    pub const NO_HELO: u32 = 0x2;
    /// See [`NO_CONNECT`].
    pub const NO_MAIL: u32 = 0x4;
    /// See [`NO_CONNECT`].
    pub const NO_RCPT: u32 = 0x8;
    /// See [`NO_CONNECT`].
    pub const NO_BODY: u32 = 0x10;
    /// See [`NO_CONNECT`].
    pub const NO_HEADERS: u32 = 0x20;
    /// See [`NO_CONNECT`].
    pub const NO_EOH: u32 = 0x40;
    /// No answer to a field.
    pub const NR_HEADER: u32 = 0x80;
    /// No DATA.
    pub const NO_DATA: u32 = 0x200;
    /// No answer to the connection, and so on.
    pub const NR_CONNECT: u32 = 0x1000;
    /// See [`NR_CONNECT`].
    pub const NR_HELO: u32 = 0x2000;
    /// See [`NR_CONNECT`].
    pub const NR_MAIL: u32 = 0x4000;
    /// See [`NR_CONNECT`].
    pub const NR_RCPT: u32 = 0x8000;
    /// See [`NR_CONNECT`].
    pub const NR_DATA: u32 = 0x1_0000;
    /// See [`NR_CONNECT`].
    pub const NR_EOH: u32 = 0x4_0000;
    /// See [`NR_CONNECT`].
    pub const NR_BODY: u32 = 0x8_0000;
    /// Values of fields come with the blanks after the colon.
    pub const LEADING_SPACE: u32 = 0x10_0000;
    /// All that this side knows. `0x100` and `0x20000` are about unknown commands. With `0x400` a
    /// filter may decline further commands of a kind.
    pub const ALL: u32 = 0x1f_f7ff;
}

/// The answer of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Continue,
    /// Accept the message without further commands.
    Accept,
    /// Accept and discard it.
    Discard,
    /// Refuse it.
    Reject,
    /// Refuse it for now.
    Tempfail,
    /// Refuse it with this reply, 4xx or 5xx.
    Reply(String),
    /// PROGRESS: more time is needed.
    Progress,
    /// No more of this kind.
    Skip,
    /// A field at the end: name, value.
    AddHeader(String, Vec<u8>),
    /// A field at a place among all: 0 is the first.
    InsertHeader(u32, String, Vec<u8>),
    /// The n-th field of a name gets another value; none removes it.
    ChangeHeader(u32, String, Vec<u8>),
    /// A part of another body.
    ReplaceBody(Vec<u8>),
    /// One more recipient.
    AddRecipient(String),
    /// One recipient less.
    DeleteRecipient(String),
    /// Another sender.
    ChangeFrom(String),
    /// Quarantine it, for this reason.
    Quarantine(String),
    /// Version, actions, flags.
    Options(u32, u32, u32),
}

/// A command, as it is sent.
pub fn command(letter: u8, data: &[u8]) -> Vec<u8> {
    let len = u32::try_from(data.len() + 1).unwrap_or(u32::MAX);
    let mut packet = len.to_be_bytes().to_vec();
    packet.push(letter);
    packet.extend_from_slice(data);
    packet
}

/// Strings, each with its NUL. A NUL within one would end it: octets after it are left out.
pub fn strings<'s>(all: impl IntoIterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut data = Vec::new();
    for one in all {
        data.extend(one.iter().take_while(|octet| **octet != 0));
        data.push(0);
    }
    data
}

impl Answer {
    /// Reads the letter and data of a packet; `None` if there is no such answer.
    pub fn parse(letter: u8, data: &[u8]) -> Option<Self> {
        let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
        let number = |data: &[u8]| Some(u32::from_be_bytes(data.get(..4)?.try_into().ok()?));
        let mut parts = data.split(|octet| *octet == 0);
        Some(match letter {
            b'c' => Self::Continue,
            b'a' => Self::Accept,
            b'd' => Self::Discard,
            b'r' => Self::Reject,
            b't' => Self::Tempfail,
            b'p' => Self::Progress,
            b's' => Self::Skip,
            b'y' => Self::Reply(text(parts.next()?)),
            b'h' => Self::AddHeader(text(parts.next()?), parts.next()?.to_vec()),
            b'i' | b'm' => {
                let index = number(data)?;
                let mut parts = data.get(4..)?.split(|octet| *octet == 0);
                let (name, value) = (text(parts.next()?), parts.next()?.to_vec());
                match letter {
                    b'i' => Self::InsertHeader(index, name, value),
                    _ => Self::ChangeHeader(index, name, value),
                }
            }
            b'b' => Self::ReplaceBody(data.to_vec()),
            b'+' | b'2' => Self::AddRecipient(text(parts.next()?)),
            b'-' => Self::DeleteRecipient(text(parts.next()?)),
            b'e' => Self::ChangeFrom(text(parts.next()?)),
            b'q' => Self::Quarantine(text(parts.next()?)),
            b'O' => Self::Options(number(data)?, number(data.get(4..)?)?, number(data.get(8..)?)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets() {
        assert_eq!(command(b'H', &strings([b"a.test".as_slice()])), b"\0\0\0\x08Ha.test\0");
        assert_eq!(strings([b"a\0b".as_slice(), b""]), b"a\0\0");
        assert_eq!(
            Answer::parse(b'i', b"\0\0\0\x01X-A\0 b\0"),
            Some(Answer::InsertHeader(1, "X-A".into(), b" b".to_vec()))
        );
        assert_eq!(
            Answer::parse(b'O', &[0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 0, 2]),
            Some(Answer::Options(6, 1, 2))
        );
        for (letter, data) in
            [(b'O', b"\0\0\0\x06".as_slice()), (b'm', b"\0\0"), (b'm', b"\0\0\0\0X"), (b'?', b"")]
        {
            assert_eq!(Answer::parse(letter, data), None);
        }
    }

    properties! {
        #[test]
        fn any_octets_are_read(letter in any::<u8>(), data in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Answer::parse(letter, &data);
        }
    }
}
