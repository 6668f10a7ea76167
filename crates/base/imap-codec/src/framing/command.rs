//! The framer of commands, for a server.
//!
//! Memory is bounded by the caller's own decisions: it holds at most one line limit, the accepted
//! literals and one read. A line is looked at once, however small the pieces it comes in.

use bytes::{Buf, BytesMut};

use super::incoming::{self, IncomingMessage};
use super::{CommandFrame, LiteralSync, LiteralWanted, literal_header};
use crate::Tag;
use crate::limits::{LINE_BYTES_MAX, TAG_BYTES_MAX};

/// The limits of a client's input before it is parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FramerLimits {
    /// Bytes of one command outside its literals.
    pub line_bytes_max: usize,
}

impl Default for FramerLimits {
    fn default() -> Self {
        Self { line_bytes_max: LINE_BYTES_MAX }
    }
}

/// Cuts a client's stream into commands. Between two calls the caller may append to the buffer but
/// take nothing from it.
#[derive(Clone, Debug, Default)]
pub struct CommandFramer {
    limits: FramerLimits,
    state: State,
    /// The position in the buffer at which the command's present line starts: after its earlier
    /// lines and literals.
    line_start: usize,
    /// The end of the part of the buffer that has no line end.
    scanned: usize,
    /// Bytes of the command's earlier lines.
    line_bytes: usize,
    /// Whether some of the command's literals are no messages.
    other_literals: bool,
    /// What the first line of an APPEND or a REPLACE says, once it was read. A command may have
    /// thousands of literals.
    first_line: Option<Option<Box<IncomingMessage>>>,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Looking for the end of a line.
    #[default]
    Line,
    /// A literal is announced; the caller accepts or refuses it.
    Deciding,
    /// The rest of a command is discarded. First come the bytes of a literal, then the rest of
    /// the line. If that line announces a literal that follows at once, both continue.
    Dropping { literal: u64, tail: Tail },
}

/// The last bytes of a line of which nothing else is kept: as many as a literal header can have.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    bytes: [u8; Self::LEN],
    len: usize,
}

impl Tail {
    /// `{`, 20 digits, `+`, `}`, CR and some to spare.
    const LEN: usize = 32;

    fn push(&mut self, bytes: &[u8]) {
        let new = &bytes[bytes.len().saturating_sub(Self::LEN)..];
        let keep = self.len.min(Self::LEN - new.len());
        self.bytes.copy_within(self.len - keep..self.len, 0);
        self.bytes[keep..keep + new.len()].copy_from_slice(new);
        self.len = keep + new.len();
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Whether a line may announce a literal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Literals {
    Possible,
    None,
}

impl CommandFramer {
    /// A framer at the start of a command.
    pub fn new(limits: FramerLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The next frame; `None` until more bytes have come. Ask again and again until `None`: clients
    /// pipeline.
    pub fn next_frame(&mut self, buffer: &mut BytesMut) -> Option<CommandFrame> {
        self.next(buffer, Literals::Possible)
    }

    /// One line as it is, its line end taken off, as a `Command`: what follows a continuation of
    /// AUTHENTICATE or IDLE. A line over the limit is `LineTooLong`; `LiteralWanted` never comes.
    pub fn next_line(&mut self, buffer: &mut BytesMut) -> Option<CommandFrame> {
        let frame = self.next(buffer, Literals::None)?;
        Some(match frame {
            CommandFrame::Command(mut line) => {
                let end = line.strip_suffix(b"\n").unwrap_or(&line);
                let end = end.strip_suffix(b"\r").unwrap_or(end).len();
                line.truncate(end);
                CommandFrame::Command(line)
            }
            other => other,
        })
    }

    /// Takes the announced literal: its bytes become part of the command. The caller sends `+` if
    /// the client waits for it.
    pub fn accept_literal(&mut self, wanted: &LiteralWanted) {
        if let State::Deciding = self.state {
            self.state = State::Line;
            self.line_start =
                self.line_start.saturating_add(usize::try_from(wanted.size).unwrap_or(usize::MAX));
            self.scanned = self.line_start;
        }
    }

    /// Refuses the announced literal, and with it the command, which the caller answers NO or BAD.
    /// If the client sends it anyway, it is dropped.
    pub fn refuse_literal(&mut self, wanted: &LiteralWanted, buffer: &mut BytesMut) {
        if let State::Deciding = self.state {
            buffer.advance(self.line_start.min(buffer.len()));
            self.start_over();
            if wanted.sync == LiteralSync::Follows {
                self.state = State::Dropping { literal: wanted.size, tail: Tail::default() };
            }
        }
    }

    /// Drops a literal that was accepted, and with it the command, which the caller answers NO
    /// with the tag this returns. The bytes read are dropped, and the rest of the command is
    /// dropped without being kept.
    pub fn drop_literal(&mut self, buffer: &mut BytesMut) -> Option<Tag> {
        let tag = head(buffer).tag;
        let missing = self.missing(buffer) as u64;
        buffer.advance(self.line_start.min(buffer.len()));
        self.start_over();
        self.state = State::Dropping { literal: missing, tail: Tail::default() };
        tag
    }

    /// Bytes of an accepted literal that are not read yet: a reader may request them from the
    /// socket at once.
    pub fn missing(&self, buffer: &BytesMut) -> usize {
        self.line_start.saturating_sub(buffer.len())
    }

    /// Whether bytes of an unfinished command are held: the deadline for slow writers applies.
    pub fn mid_command(&self, buffer: &BytesMut) -> bool {
        !buffer.is_empty() || !matches!(self.state, State::Line)
    }

    fn start_over(&mut self) {
        (self.state, self.line_start, self.scanned, self.line_bytes) = (State::Line, 0, 0, 0);
        (self.other_literals, self.first_line) = (false, None);
    }

    fn next(&mut self, buffer: &mut BytesMut, literals: Literals) -> Option<CommandFrame> {
        if let State::Dropping { .. } = self.state
            && !self.drop_some(buffer)
        {
            return None;
        }
        if matches!(self.state, State::Deciding) || buffer.len() <= self.scanned {
            return None;
        }
        let Some(end) = memchr::memchr(b'\n', &buffer[self.scanned..]) else {
            self.scanned = buffer.len();
            let held = self.line_bytes + (buffer.len() - self.line_start);
            return (held > self.limits.line_bytes_max).then(|| self.too_long(buffer));
        };
        let end = self.scanned + end + 1;
        self.line_bytes += end - self.line_start;
        if self.line_bytes > self.limits.line_bytes_max {
            return Some(self.too_long(buffer));
        }
        if literals == Literals::Possible
            && let Some(header) = literal_header(&buffer[self.line_start..end])
        {
            let Head { tag, append, annotation, store } = head(buffer);
            self.other_literals |= append && incoming::names_other_literal(&buffer[self.line_start..end]);
            let message = append && !self.other_literals;
            (self.state, self.line_start) = (State::Deciding, end);
            return Some(CommandFrame::LiteralWanted(LiteralWanted {
                size: header.size,
                sync: header.sync,
                literal8: header.literal8,
                append,
                message,
                annotation,
                store,
                tag,
                held: end,
            }));
        }
        let command = buffer.split_to(end).freeze();
        self.start_over();
        Some(CommandFrame::Command(command))
    }

    /// The message whose literal was announced last and is not decided yet. `None` if the literal
    /// is no message, or if the first line names no mailbox. The first line is read here, and not
    /// with each frame: nobody asks about a short message.
    pub fn message(&mut self, wanted: &LiteralWanted, buffer: &BytesMut) -> Option<IncomingMessage> {
        if !wanted.message || !matches!(self.state, State::Deciding) {
            return None;
        }
        let command = buffer.get(..wanted.held)?;
        let before = wanted.held.saturating_sub(self.line_bytes) as u64;
        let read = || IncomingMessage::of(command, 0).map(Box::new);
        let message = self.first_line.get_or_insert_with(read).as_deref()?;
        Some(IncomingMessage { before, ..message.clone() })
    }

    fn too_long(&mut self, buffer: &mut BytesMut) -> CommandFrame {
        let tag = head(buffer).tag;
        // Earlier literals of the command were read; the rest of the line is still dropped.
        buffer.advance(self.line_start.min(buffer.len()));
        self.start_over();
        self.state = State::Dropping { literal: 0, tail: Tail::default() };
        CommandFrame::LineTooLong { tag }
    }

    /// Drops the bytes of a refused command; returns whether its end was reached.
    fn drop_some(&mut self, buffer: &mut BytesMut) -> bool {
        let State::Dropping { literal, tail } = &mut self.state else { return true };
        loop {
            let n = usize::try_from(*literal).unwrap_or(usize::MAX).min(buffer.len());
            buffer.advance(n);
            *literal -= n as u64;
            if *literal > 0 {
                return false;
            }
            let Some(end) = memchr::memchr(b'\n', buffer) else {
                tail.push(buffer);
                buffer.clear();
                return false;
            };
            tail.push(&buffer[..=end]);
            buffer.advance(end + 1);
            match literal_header(tail.get()) {
                // Nothing would follow a literal that waits: its command has been answered already.
                Some(header) if header.sync == LiteralSync::Follows => {
                    (*literal, *tail) = (header.size, Tail::default());
                }
                _ => {
                    self.start_over();
                    return true;
                }
            }
        }
    }
}

/// The tag and the kind of a command.
struct Head {
    tag: Option<Tag>,
    /// The command brings a message: APPEND, REPLACE and UID REPLACE do.
    append: bool,
    /// The command brings annotations: SETMETADATA.
    annotation: bool,
    /// The command is a STORE.
    store: bool,
}

/// The beginning of a command whose first line is available, at least in part. Bytes after that
/// line are not used: how many there are depends on the network.
fn head(buffer: &[u8]) -> Head {
    let begins = &buffer[..buffer.len().min(TAG_BYTES_MAX + 16)];
    let line = memchr::memchr(b'\n', begins).map_or(begins, |end| &begins[..end]);
    let mut words = line.split(|&b| b == b' ');
    let tag = words.next().and_then(Tag::new);
    let is = |word: Option<&[u8]>, name: &[u8]| word.is_some_and(|w| w.eq_ignore_ascii_case(name));
    let first = words.next();
    let name = if is(first, b"UID") { words.next() } else { first };
    Head {
        tag,
        append: is(first, b"APPEND") || is(name, b"REPLACE"),
        annotation: is(first, b"SETMETADATA"),
        store: is(name, b"STORE"),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::{one_of, properties};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_literal_that_is_given_up_is_dropped_to_the_end_of_its_command() {
        for (announced, rest) in [("{10+}", ""), ("{10}", " {3+}\r\nabc")] {
            let (mut framer, mut buffer) = (CommandFramer::default(), BytesMut::new());
            buffer.extend_from_slice(format!("a APPEND x {announced}\r\n").as_bytes());
            let frame = wanted(framer.next_frame(&mut buffer));
            framer.accept_literal(&frame);
            buffer.extend_from_slice(b"0123");
            assert_eq!(framer.next_frame(&mut buffer), None);
            assert_eq!(framer.drop_literal(&mut buffer), Tag::new(b"a"));
            assert!(buffer.is_empty() && framer.mid_command(&buffer));
            buffer.extend_from_slice(format!("456789{rest}\r\nb NOOP\r\n").as_bytes());
            assert_eq!(framer.next_frame(&mut buffer), Some(command("b NOOP\r\n")));
            assert!(!framer.mid_command(&buffer));
        }
    }

    fn command(text: &str) -> CommandFrame {
        CommandFrame::Command(bytes::Bytes::copy_from_slice(text.as_bytes()))
    }

    fn wanted(frame: Option<CommandFrame>) -> LiteralWanted {
        match frame {
            Some(CommandFrame::LiteralWanted(wanted)) => wanted,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_come_one_by_one_and_byte_by_byte() {
        let text = "a NOOP\r\nb NOOP\nc";
        let mut framer = CommandFramer::default();
        let mut buffer = BytesMut::from(text);
        assert_eq!(framer.next_frame(&mut buffer), Some(command("a NOOP\r\n")));
        assert_eq!(framer.next_frame(&mut buffer), Some(command("b NOOP\n")));
        assert_eq!(framer.next_frame(&mut buffer), None);
        let mut frames = Vec::new();
        let (mut framer, mut buffer) = (CommandFramer::default(), BytesMut::new());
        for b in text.bytes() {
            buffer.extend_from_slice(&[b]);
            frames.extend(framer.next_frame(&mut buffer));
        }
        assert_eq!(frames, [command("a NOOP\r\n"), command("b NOOP\n")]);
        assert!(framer.mid_command(&buffer));
    }

    #[test]
    fn a_literal_shows_nothing_of_its_command() {
        let mut framer = CommandFramer::default();
        let mut buffer = BytesMut::from("~{60000000+}\r\na APPEND x");
        let frame = wanted(framer.next_frame(&mut buffer));
        assert!(!frame.append && frame.tag.is_none(), "{frame:?}");
    }

    #[test]
    fn an_accepted_literal_is_part_of_its_command() {
        let mut framer = CommandFramer::default();
        let mut buffer = BytesMut::from("a append x ~{5}\r\n");
        let first = wanted(framer.next_frame(&mut buffer));
        assert_eq!(
            first,
            LiteralWanted {
                size: 5,
                sync: LiteralSync::Waits,
                literal8: true,
                append: true,
                message: true,
                annotation: false,
                store: false,
                tag: Tag::new("a"),
                held: 17
            }
        );
        let message = IncomingMessage { mailbox: "x".into(), before: 0, replaces: false };
        assert_eq!(framer.message(&first, &buffer), Some(message));
        assert_eq!(framer.next_frame(&mut buffer), None);
        framer.accept_literal(&first);
        assert_eq!(framer.message(&first, &buffer), None, "it is decided");
        assert_eq!(framer.missing(&buffer), 5);
        buffer.extend_from_slice(b"1\r\n25 {1");
        assert_eq!(framer.next_frame(&mut buffer), None);
        buffer.extend_from_slice(b"+}\r\n");
        let second = wanted(framer.next_frame(&mut buffer));
        assert_eq!((second.size, second.sync), (1, LiteralSync::Follows));
        framer.accept_literal(&second);
        buffer.extend_from_slice(b"\n\r\nb NOOP\r\n");
        assert_eq!(
            framer.next_frame(&mut buffer),
            Some(command("a append x ~{5}\r\n1\r\n25 {1+}\r\n\n\r\n"))
        );
        assert_eq!(framer.next_frame(&mut buffer), Some(command("b NOOP\r\n")));
    }

    /// A long first line was copied and parsed again for each of the thousands of literals that a
    /// command may have.
    #[test]
    fn the_first_line_of_a_command_is_read_once() {
        let mut framer = CommandFramer::default();
        let mut buffer = BytesMut::from("a APPEND Sent {2+}\r\nxy {3+}\r\nxyz\r\nb APPEND x {1}\r\n");
        let mut message = |framer: &mut CommandFramer| {
            let literal = wanted(framer.next_frame(&mut buffer));
            let message = framer.message(&literal, &buffer);
            framer.accept_literal(&literal);
            message.expect("a message")
        };
        let (first, second) = (message(&mut framer), message(&mut framer));
        assert_eq!((&first.mailbox[..], first.before), (&b"Sent"[..], 0));
        assert_eq!(IncomingMessage { before: 2, ..first.clone() }, second);
        assert_eq!(first.mailbox.as_ptr(), second.mailbox.as_ptr());
        assert!(matches!(framer.next_frame(&mut buffer), Some(CommandFrame::Command(_))));
        let next = wanted(framer.next_frame(&mut buffer));
        let next = framer.message(&next, &buffer).expect("a message");
        assert_eq!((&next.mailbox[..], next.before), (&b"x"[..], 0));
    }

    #[test]
    fn a_refused_literal_is_drained_only_if_it_comes() {
        let mut framer = CommandFramer::default();
        let mut buffer = BytesMut::from("a APPEND x {999}\r\nb NOOP\r\n");
        let first = wanted(framer.next_frame(&mut buffer));
        framer.refuse_literal(&first, &mut buffer);
        assert_eq!(framer.next_frame(&mut buffer), Some(command("b NOOP\r\n")));

        // MULTIAPPEND with literals that follow at once: all of the command goes.
        buffer.extend_from_slice(b"c APPEND x {10+}\r\n0123");
        let first = wanted(framer.next_frame(&mut buffer));
        framer.refuse_literal(&first, &mut buffer);
        assert_eq!(framer.next_frame(&mut buffer), None);
        assert!(buffer.is_empty());
        buffer.extend_from_slice(b"456789 {");
        assert_eq!(framer.next_frame(&mut buffer), None);
        buffer.extend_from_slice(b"3+}\r\nx\r\n\r\nd NOOP\r\n");
        assert_eq!(framer.next_frame(&mut buffer), Some(command("d NOOP\r\n")));
    }

    #[test]
    fn a_long_line_is_reported_once_and_dropped() {
        let mut framer = CommandFramer::new(FramerLimits { line_bytes_max: 20 });
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for _ in 0..1000 {
            buffer.extend_from_slice(b"a xxxxxxxxx");
            frames.extend(framer.next_frame(&mut buffer));
            assert!(buffer.len() <= 22);
        }
        assert_eq!(frames, [CommandFrame::LineTooLong { tag: Tag::new("a") }]);
        // Its last literal is no command of its own.
        buffer.extend_from_slice(b" {8+}\r\nz NOOP\r\n\r\nb NOOP\r\n");
        assert_eq!(framer.next_frame(&mut buffer), Some(command("b NOOP\r\n")));
    }

    #[test]
    fn a_line_after_a_continuation_is_only_a_line() {
        let mut framer = CommandFramer::default();
        let mut buffer = BytesMut::from("dGVzdA=={3}\r\nDONE\nx");
        assert_eq!(framer.next_line(&mut buffer), Some(command("dGVzdA=={3}")));
        assert_eq!(framer.next_line(&mut buffer), Some(command("DONE")));
        assert_eq!(framer.next_line(&mut buffer), None);
    }

    #[test]
    fn absurd_sizes() {
        let mut framer = CommandFramer::default();
        let mut buffer = BytesMut::from("a APPEND x {99999999999999999999999999}\r\nb NOOP\r\n");
        let first = wanted(framer.next_frame(&mut buffer));
        assert_eq!(first.size, u64::MAX);
        framer.refuse_literal(&first, &mut buffer);
        assert_eq!(framer.next_frame(&mut buffer), Some(command("b NOOP\r\n")));
    }

    /// The length of a command up to a frame; of a literal, its size and message, too.
    type Frame = (usize, Option<(u64, Option<IncomingMessage>)>);

    /// The frames of a stream that is there at once. All literals are accepted.
    fn plain_frames(stream: &[u8]) -> Vec<Frame> {
        let (mut frames, mut start, mut line) = (Vec::new(), 0, 0);
        let (mut before, mut has_others) = (0, false);
        while let Some(rest) = stream.get(line..)
            && let Some(at) = rest.iter().position(|octet| *octet == b'\n')
        {
            let end = line + at + 1;
            let command = &stream[start..end];
            let Some(header) = literal_header(&stream[line..end]) else {
                frames.push((command.len(), None));
                (start, line, before, has_others) = (end, end, 0, false);
                continue;
            };
            let append = head(command).append;
            has_others |= append && incoming::names_other_literal(&stream[line..end]);
            let is_message = append && !has_others;
            let message = is_message.then(|| IncomingMessage::of(command, before)).flatten();
            frames.push((command.len(), Some((header.size, message))));
            before += header.size;
            line = end.saturating_add(usize::try_from(header.size).unwrap_or(usize::MAX));
        }
        frames
    }

    properties! {
        /// What was read of a command before is what would be read again.
        #[test]
        fn frames_are_those_of_a_stream_that_is_there_at_once(
            stream in prop::collection::vec(one_of![
                4 => prop::sample::select(vec![
                    "a ", "APPEND ", "UID ", "REPLACE 1 ", "x ", "\"y z\" ", "annotation ", "URL ",
                    "\r\n", "\n",
                ]),
                3 => prop::sample::select(vec!["{3}\r\n", "{2+}\r\n", "~{0+}\r\n", "{1}\n", "{9+}\r\n"]),
            ], 0..40),
            cuts in prop::collection::vec(1usize..9, 1..9),
        ) {
            let stream = stream.concat().into_bytes();
            let (mut framer, mut buffer) = (CommandFramer::default(), BytesMut::new());
            let mut frames = Vec::new();
            let (mut left, mut cuts) = (&stream[..], cuts.iter().cycle());
            while let Some(cut) = cuts.next().filter(|_| !left.is_empty()) {
                let (piece, rest) = left.split_at(left.len().min(*cut));
                left = rest;
                buffer.extend_from_slice(piece);
                while let Some(frame) = framer.next_frame(&mut buffer) {
                    frames.push(match frame {
                        CommandFrame::Command(command) => (command.len(), None),
                        CommandFrame::LiteralWanted(literal) => {
                            let message = framer.message(&literal, &buffer);
                            framer.accept_literal(&literal);
                            (literal.held, Some((literal.size, message)))
                        }
                        other @ CommandFrame::LineTooLong { .. } => panic!("{other:?}"),
                    });
                }
            }
            prop_assert_eq!(frames, plain_frames(&stream));
        }
    }

    properties! {
        /// However the stream is cut, the same frames come out, and the held bytes stay within
        /// limits.
        #[test]
        fn cuts_do_not_matter(
            stream in prop::collection::vec(one_of![
                4 => prop::sample::select(vec!["a ", "APPEND ", "x", "{3}\r\n", "{3+}\r\n", "~{0+}\r\n", "\r\n", "\n", "{40+}\r\n"])
                    .prop_map(|s| s.as_bytes().to_vec()),
                1 => prop::collection::vec(any::<u8>(), 0..20),
            ], 0..30),
            cuts in prop::collection::vec(1usize..9, 1..9),
        ) {
            let stream = stream.concat();
            let run = |cuts: &[usize]| {
                let mut framer = CommandFramer::new(FramerLimits { line_bytes_max: 30 });
                let (mut buffer, mut frames, mut at) = (BytesMut::new(), Vec::new(), 0);
                for cut in cuts.iter().cycle() {
                    if at == stream.len() {
                        break;
                    }
                    let end = (at + cut).min(stream.len());
                    buffer.extend_from_slice(&stream[at..end]);
                    at = end;
                    while let Some(frame) = framer.next_frame(&mut buffer) {
                        if let CommandFrame::LiteralWanted(wanted) = &frame {
                            if wanted.size > 10 {
                                framer.refuse_literal(wanted, &mut buffer);
                            } else {
                                framer.accept_literal(wanted);
                            }
                        }
                        frames.push(frame);
                    }
                }
                frames
            };
            prop_assert_eq!(run(&cuts), run(&[1]));
        }
    }
}
