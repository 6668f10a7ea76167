//! mbox files, as RFC 4155 describes them and as programs write them.
//!
//! A message begins with a line `From sender date`, after an empty line or at the start of the
//! file. It ends with an empty line that is not part of it. Lines of the message that would look so
//! are quoted with `>`: once in mboxo, once more each time in mboxrd. One `>` is removed from every
//! `>…>From ` line. That is right for mboxrd, and for mboxo unless a message itself held `>From `.
//! mboxcl2 quotes nothing. Its Content-Length has the length of the body. That is believed only
//! where a message or the file does end there, since programs that edit messages leave it wrong.
//!
//! Our export and Thunderbird name no sender: `From - date`. They quote, so the Content-Length is
//! the sender's own. A false one could otherwise make later messages a part of this one.
//!
//! A `From ` line in the middle only counts if it has a date: "From here on it rains" begins
//! no message.

use std::io::{self, BufRead, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use super::status::Place;
use super::{Fault, ImportedMessage, Origin, Sink, status};
use crate::format::{date_field, is_quotable, lines, parse_from_line, to_crlf};

/// Octets of a line handled at a time: a longer line is handled in pieces, so that a file without
/// any is no danger.
const PIECE_LEN_MAX: u64 = 64 * 1024;

/// Octets read at the announced end of a body: two empty lines and a `From ` line.
const PEEK_LEN: usize = 512;

/// The source of an mbox, and the mailbox for its messages.
pub(super) struct Source<'a> {
    /// The file.
    pub path: &'a Arc<Path>,
    /// The mailbox for the messages.
    pub mailbox: &'a str,
    /// Reads the file at an offset. The main reading continues elsewhere: fills a buffer as far
    /// as the file has octets.
    pub peek: &'a dyn Fn(u64, &mut [u8]) -> io::Result<usize>,
}

/// Reads a file of this form to its end. An error of the disk is reported as a fault at its offset,
/// after what was read.
pub(super) fn read(
    input: &mut dyn BufRead,
    source: &Source<'_>,
    message_len_max: u64,
    sink: &mut dyn Sink,
) -> ControlFlow<()> {
    let mut reader = Reader { source, message_len_max, sink, offset: 0, first: true, current: None };
    let mut piece = Vec::new();
    let mut start = Start::AfterEmptyLine;
    loop {
        piece.clear();
        match input.take(PIECE_LEN_MAX).read_until(b'\n', &mut piece) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                // The part of the line that was read before the disk failed still counts.
                reader.piece(&piece, start)?;
                reader.offset += piece.len() as u64;
                reader.finish()?;
                let origin = reader.origin(reader.offset);
                return reader.sink.fault(Fault { origin, why: error.to_string() });
            }
        }
        reader.piece(&piece, start)?;
        reader.offset += piece.len() as u64;
        start = start.after(&piece);
    }
    reader.finish()
}

struct Reader<'a> {
    source: &'a Source<'a>,
    message_len_max: u64,
    sink: &'a mut dyn Sink,
    /// The offset in the file at which the current piece begins.
    offset: u64,
    /// No message was finished yet.
    first: bool,
    current: Option<Building>,
}

/// A message that has begun.
struct Building {
    /// The offset in the file at which the message's `From ` line begins.
    offset: u64,
    date: Option<u32>,
    /// The `From ` line names no sender.
    is_unnamed: bool,
    bytes: Vec<u8>,
    /// The octets of the message, kept or not.
    len: u64,
    /// The end of the message's body in the file, as far as known.
    body: Body,
}

#[derive(Clone, Copy)]
enum Body {
    /// Still in the header, which said this Content-Length or none.
    NotStarted(Option<u64>),
    /// Not before this offset: no line before it begins a message.
    Until(u64),
}

impl Building {
    fn new(offset: u64, date: Option<u32>, from_line: &[u8]) -> Self {
        let is_unnamed = from_line.starts_with(b"From - ");
        Self { offset, date, is_unnamed, bytes: Vec::new(), len: 0, body: Body::NotStarted(None) }
    }

    /// Whether a `From ` line at an offset can begin the next message.
    fn may_end_at(&self, offset: u64) -> bool {
        match self.body {
            Body::NotStarted(_) => true,
            Body::Until(end) => offset >= end,
        }
    }
}

/// The beginning of a piece of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Within a line that is longer than a piece.
    WithinLine,
    Line,
    /// A line, after an empty one or at the beginning of the file.
    AfterEmptyLine,
}

impl Start {
    /// The beginning of the piece after this one.
    fn after(self, piece: &[u8]) -> Self {
        match piece {
            b"\n" | b"\r\n" if self != Self::WithinLine => Self::AfterEmptyLine,
            _ if piece.ends_with(b"\n") => Self::Line,
            _ => Self::WithinLine,
        }
    }
}

impl Reader<'_> {
    fn piece(&mut self, piece: &[u8], start: Start) -> ControlFlow<()> {
        let is_line = start != Start::WithinLine;
        let may_begin = self.current.as_ref().is_none_or(|current| current.may_end_at(self.offset));
        if start == Start::AfterEmptyLine && may_begin && piece.starts_with(b"From ") {
            let date = parse_from_line(piece);
            if date.is_some() || self.offset == 0 {
                self.finish()?;
                self.current = Some(Building::new(self.offset, date, piece));
                return ControlFlow::Continue(());
            }
        }
        // Empty lines before the first message are nobody's; anything else is a message without its
        // first line.
        if self.current.is_none() && piece.trim_ascii().is_empty() {
            return ControlFlow::Continue(());
        }
        let (offset, source) = (self.offset, self.source);
        let current = self.current.get_or_insert_with(|| Building::new(offset, None, b""));
        if is_line && let Body::NotStarted(length) = &mut current.body {
            if matches!(piece, b"\n" | b"\r\n") {
                let body_start = offset + piece.len() as u64;
                let end =
                    length.and_then(|len| body_start.checked_add(len)).filter(|end| source.ends_at(*end));
                current.body = Body::Until(end.unwrap_or(body_start));
            } else if !current.is_unnamed
                && let Some(said) = content_length(piece)
            {
                *length = Some(said);
            }
        }
        let quoted = is_line && piece.first() == Some(&b'>') && is_quotable(piece);
        let text = if quoted { &piece[1..] } else { piece };
        current.len += text.len() as u64;
        // Two more than the limit: the empty line at the end does not count.
        if current.len <= self.message_len_max.saturating_add(2) {
            current.bytes.extend_from_slice(text);
        } else {
            current.bytes = Vec::new();
        }
        ControlFlow::Continue(())
    }

    /// Hands over the message that has ended.
    fn finish(&mut self) -> ControlFlow<()> {
        let Some(built) = self.current.take() else { return ControlFlow::Continue(()) };
        let origin = self.origin(built.offset);
        if built.bytes.len() as u64 != built.len {
            let why = format!(
                "a message of {} octets is over the limit of {}: raise the message size limit to import it",
                built.len, self.message_len_max
            );
            return self.sink.fault(Fault { origin, why });
        }
        let mut bytes = built.bytes;
        drop_empty_line(&mut bytes);
        if std::mem::take(&mut self.first) && !built.is_unnamed && status::is_folder_data(&bytes) {
            return ControlFlow::Continue(());
        }
        let place = if built.is_unnamed { Place::FirstRun } else { Place::Anywhere };
        let (message, flags) = status::take(bytes, place);
        let mailbox = self.source.mailbox.to_owned();
        let date = built.date.or_else(|| date_field(&message));
        self.sink.message(ImportedMessage { mailbox, flags, date, bytes: to_crlf(message), origin })
    }

    fn origin(&self, offset: u64) -> Origin {
        Origin { path: Arc::clone(self.source.path), offset }
    }
}

impl Source<'_> {
    /// Whether a body that ends at an offset is followed by a message, or by nothing more. A file
    /// that cannot be read there says nothing.
    fn ends_at(&self, end: u64) -> bool {
        let mut buffer = [0; PEEK_LEN];
        // With the octet before: reading it succeeds at the end of the file and fails beyond it.
        let Some(before) = end.checked_sub(1) else { return false };
        let Some(seen) = (self.peek)(before, &mut buffer).ok().and_then(|len| buffer.get(..len)) else {
            return false;
        };
        let Some((_, mut rest)) = seen.split_first() else { return false };
        for _ in 0..2 {
            rest = rest.strip_prefix(b"\r").unwrap_or(rest);
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        rest.is_empty()
            || (rest.starts_with(b"From ")
                && lines(rest).next().is_some_and(|l| parse_from_line(l).is_some()))
    }
}

/// The value of a Content-Length field.
fn content_length(line: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"Content-Length:";
    let name = line.get(..NAME.len())?;
    let value = line.get(NAME.len()..).filter(|_| name.eq_ignore_ascii_case(NAME))?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// Takes away the empty line that ends a message in the file.
fn drop_empty_line(bytes: &mut Vec<u8>) {
    for end in [&b"\r\n"[..], b"\n"] {
        if let Some(rest) = bytes.strip_suffix(end)
            && (rest.is_empty() || rest.ends_with(b"\n"))
        {
            bytes.truncate(rest.len());
            return;
        }
    }
}
