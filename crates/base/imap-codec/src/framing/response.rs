//! The framer of responses, for a client.

use bytes::{Buf, Bytes, BytesMut};

use super::literal_header;

/// The limits of the responses that a client accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseLimits {
    /// Bytes of one response outside its literals. A SEARCH that finds a million messages takes 7
    /// MB.
    pub line_bytes_max: usize,
    /// Bytes of one literal, streamed or not.
    pub literal_bytes_max: u64,
    /// Literals over this are handed out in pieces as they come, instead of being gathered.
    pub stream_above: u64,
}

impl Default for ResponseLimits {
    /// 64 MiB of line, 1 GiB of literal, nothing streamed.
    fn default() -> Self {
        Self { line_bytes_max: 64 << 20, literal_bytes_max: 1 << 30, stream_above: u64::MAX }
    }
}

/// The next frame of a server's stream, from the bytes so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResponseFrame {
    /// A response with its literals and line end, for [`crate::parse_response`]. Where literals
    /// were streamed, each is `{0}` in it.
    Response(Bytes),
    /// A literal is about to be streamed: the response as far as it has come, up to the literal's
    /// header.
    LiteralStart {
        /// `* 12 FETCH (BODY[] {300000000}` CRLF.
        head: Bytes,
        /// Bytes to come.
        size: u64,
    },
    /// Some of the literal's bytes. It is whole when `size` of them have come.
    LiteralChunk(Bytes),
}

/// The server sends more than the client accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ResponseFrameError {
    /// Over [`ResponseLimits::line_bytes_max`].
    #[error("a response is over {0} bytes long")]
    Line(usize),
    /// Over [`ResponseLimits::literal_bytes_max`].
    #[error("a literal of {0} bytes is announced")]
    Literal(u64),
}

/// Cuts a server's stream into responses. Between two calls the caller may append to the buffer
/// but take nothing from it. After an error the stream is useless.
#[derive(Clone, Debug, Default)]
pub struct ResponseFramer {
    limits: ResponseLimits,
    line_start: usize,
    scanned: usize,
    line_bytes: usize,
    /// A literal that is being streamed: its unread bytes, and the bytes before it.
    streaming: Option<(u64, BytesMut)>,
}

impl ResponseFramer {
    /// A framer at the start of a response.
    pub fn new(limits: ResponseLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The next frame; `None` until more bytes have come.
    pub fn next_frame(&mut self, buffer: &mut BytesMut) -> Result<Option<ResponseFrame>, ResponseFrameError> {
        if let Some(chunk) = self.chunk(buffer) {
            return Ok(Some(chunk));
        }
        loop {
            if self.streaming.is_some() || buffer.len() <= self.scanned {
                return Ok(None);
            }
            let found = memchr::memchr(b'\n', &buffer[self.scanned..]);
            let end = found.map_or(buffer.len(), |end| self.scanned + end + 1);
            if self.line_bytes + (end - self.line_start) > self.limits.line_bytes_max {
                return Err(ResponseFrameError::Line(self.limits.line_bytes_max));
            }
            if found.is_none() {
                self.scanned = end;
                return Ok(None);
            }
            self.line_bytes += end - self.line_start;
            let header = literal_header(&buffer[self.line_start..end]).filter(|_| may_hold_literals(buffer));
            let Some(header) = header else {
                (self.line_start, self.scanned, self.line_bytes) = (0, 0, 0);
                return Ok(Some(ResponseFrame::Response(buffer.split_to(end).freeze())));
            };
            if header.size > self.limits.literal_bytes_max {
                return Err(ResponseFrameError::Literal(header.size));
            }
            if header.size > self.limits.stream_above {
                return Ok(Some(self.start_streaming(buffer, end, header.size)));
            }
            self.line_start = end + usize::try_from(header.size).unwrap_or(usize::MAX - end);
            self.scanned = self.line_start;
        }
    }

    /// Bytes of a literal that are not read yet: a reader may request them from the socket at
    /// once.
    pub fn missing(&self, buffer: &BytesMut) -> usize {
        match &self.streaming {
            Some((left, _)) => usize::try_from(*left).unwrap_or(usize::MAX),
            None => self.line_start.saturating_sub(buffer.len()),
        }
    }

    fn start_streaming(&mut self, buffer: &mut BytesMut, end: usize, size: u64) -> ResponseFrame {
        let head = buffer.split_to(end).freeze();
        let brace = memchr::memrchr(b'{', &head).unwrap_or(head.len());
        let mut kept = BytesMut::with_capacity(brace + 256);
        kept.extend_from_slice(&head[..brace]);
        kept.extend_from_slice(b"{0}\r\n");
        self.streaming = Some((size, kept));
        ResponseFrame::LiteralStart { head, size }
    }

    /// A piece of the literal being streamed. When it is whole, the bytes before it go back in
    /// front of the buffer: at most one read's worth of bytes is moved.
    fn chunk(&mut self, buffer: &mut BytesMut) -> Option<ResponseFrame> {
        let (left, kept) = self.streaming.as_mut()?;
        let n = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        if n == 0 {
            return None;
        }
        let chunk = buffer.split_to(n).freeze();
        *left -= n as u64;
        if *left == 0 {
            let mut whole = std::mem::take(kept);
            (self.line_start, self.scanned) = (whole.len(), whole.len());
            whole.extend_from_slice(buffer);
            buffer.advance(buffer.len());
            *buffer = whole;
            self.streaming = None;
        }
        Some(ResponseFrame::LiteralChunk(chunk))
    }
}

/// Only data can: the text of a status response may end in `{5}` and mean nothing by it
/// (RFC 9051 §9, resp-text).
fn may_hold_literals(response: &[u8]) -> bool {
    let Some(rest) = response.strip_prefix(b"* ") else { return false };
    let word = rest.split(|b| !b.is_ascii_alphabetic()).next().unwrap_or_default();
    ![&b"OK"[..], b"NO", b"BAD", b"BYE", b"PREAUTH"].iter().any(|s| s.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(limits: ResponseLimits, text: &str, step: usize) -> Vec<ResponseFrame> {
        let (mut framer, mut buffer, mut frames) = (ResponseFramer::new(limits), BytesMut::new(), Vec::new());
        for piece in text.as_bytes().chunks(step) {
            buffer.extend_from_slice(piece);
            while let Some(frame) = framer.next_frame(&mut buffer).unwrap() {
                frames.push(frame);
            }
        }
        assert!(buffer.is_empty());
        frames
    }

    #[test]
    fn literals_belong_to_their_response() {
        let text =
            "* OK see {3}\r\n* 1 FETCH (BODY[] {5}\r\na\r\nbc BODY[1] {1}\r\n\n)\r\na OK {1}\r\n+ {2}\r\n";
        for step in [1, 2, 7, 1000] {
            let lengths: Vec<_> = frames(ResponseLimits::default(), text, step)
                .into_iter()
                .map(|f| match f {
                    ResponseFrame::Response(b) => b.len(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(lengths, [14, 46, 10, 7]);
        }
    }

    #[test]
    fn a_large_literal_is_streamed() {
        let text = "* 1 FETCH (BODY[] {9}\r\n012345678 UID 7)\r\na OK x\r\n";
        let limits = ResponseLimits { stream_above: 8, ..ResponseLimits::default() };
        for step in [1, 3, 1000] {
            let mut got = frames(limits, text, step).into_iter();
            assert_eq!(
                got.next(),
                Some(ResponseFrame::LiteralStart { head: "* 1 FETCH (BODY[] {9}\r\n".into(), size: 9 })
            );
            let mut bytes = Vec::new();
            let rest = loop {
                match got.next() {
                    Some(ResponseFrame::LiteralChunk(b)) => bytes.extend_from_slice(&b),
                    other => break other,
                }
            };
            assert_eq!(bytes, b"012345678");
            assert_eq!(rest, Some(ResponseFrame::Response("* 1 FETCH (BODY[] {0}\r\n UID 7)\r\n".into())));
            assert_eq!(got.next(), Some(ResponseFrame::Response("a OK x\r\n".into())));
        }
    }

    #[test]
    fn limits_hold() {
        let limits = ResponseLimits { line_bytes_max: 10, literal_bytes_max: 100, stream_above: u64::MAX };
        let mut buffer = BytesMut::from("* SEARCH 1 2 3 4 5");
        assert_eq!(ResponseFramer::new(limits).next_frame(&mut buffer), Err(ResponseFrameError::Line(10)));
        let mut buffer = BytesMut::from("* A {101}\r\n");
        let limits = ResponseLimits { line_bytes_max: 50, ..limits };
        assert_eq!(
            ResponseFramer::new(limits).next_frame(&mut buffer),
            Err(ResponseFrameError::Literal(101))
        );
    }
}
