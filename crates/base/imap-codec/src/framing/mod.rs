//! Whole commands and whole responses out of a stream of bytes, without knowing where the bytes
//! come from.
//!
//! A command ends at a line end without a literal header before it: RFC 9051 §4.3. The framers own
//! no buffer. The caller reads into a `BytesMut` and hands it over. Complete frames leave it as
//! slices that share its memory.

mod command;
mod incoming;
mod response;

use bytes::Bytes;

pub use command::{CommandFramer, FramerLimits};
pub use incoming::IncomingMessage;
pub use response::{ResponseFrame, ResponseFrameError, ResponseFramer, ResponseLimits};

use crate::Tag;

/// The next frame of a client's stream, from the bytes so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandFrame {
    /// A command with its literals and line end, for [`crate::parse_command`].
    Command(Bytes),
    /// A literal is announced. Nothing more comes until the caller accepts or refuses it.
    LiteralWanted(LiteralWanted),
    /// A line is over the limit: answer BAD. Its rest is dropped without being kept.
    LineTooLong {
        /// The command's tag, if one could be read.
        tag: Option<Tag>,
    },
}

/// An announced literal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiteralWanted {
    /// Bytes.
    pub size: u64,
    /// Whether the client waits for `+`.
    pub sync: LiteralSync,
    /// `~{n}`: RFC 3516.
    pub literal8: bool,
    /// The command is an APPEND or a REPLACE, so this may be a message.
    pub append: bool,
    /// The literal is a message or a part of one, as far as the command's lines show:
    /// [`CommandFramer::message`] reads more about it.
    pub message: bool,
    /// The command is a SETMETADATA, so this may be the value of an annotation.
    pub annotation: bool,
    /// The command is a STORE, so this may be the value of an annotation of a message.
    pub store: bool,
    /// The command's tag, if one could be read.
    pub tag: Option<Tag>,
    /// Bytes of the command so far, its earlier literals included.
    pub held: usize,
}

/// Whether a client waits before it sends a literal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LiteralSync {
    /// `{n}`: it waits for `+`.
    Waits,
    /// `{n+}`: the bytes follow at once (RFC 7888).
    Follows,
}

/// `{n}`, `{n+}` or `~{n}` at the end of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LiteralHeader {
    size: u64,
    sync: LiteralSync,
    literal8: bool,
}

/// The literal that a line announces, line end included. A size over 64 bits is taken as the
/// largest, so that it is refused and not mistaken for text.
fn literal_header(line: &[u8]) -> Option<LiteralHeader> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_suffix(b"}")?;
    let (line, sync) = match line.strip_suffix(b"+") {
        Some(line) => (line, LiteralSync::Follows),
        None => (line, LiteralSync::Waits),
    };
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, digits) = line.split_at(line.len() - digits);
    let before = before.strip_suffix(b"{")?;
    if digits.is_empty() {
        return None;
    }
    let add = |n: u64, &b: &u8| n.saturating_mul(10).saturating_add(u64::from(b - b'0'));
    Some(LiteralHeader { size: digits.iter().fold(0, add), sync, literal8: before.ends_with(b"~") })
}
