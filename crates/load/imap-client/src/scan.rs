//! Bytes to responses, without sockets.
//!
//! The scanner gets bytes as they arrive and calls a [`Handler`] once per complete response. A
//! response that is complete in the input is passed without a copy, with its literals. Only those
//! that a read splits are copied. Every byte of a line is looked at once (one `memchr` per line),
//! and those of a literal are skipped.
//!
//! Literals of up to `INLINE_LIMIT` bytes stay in their response. Longer ones stream to
//! [`Handler::literal`] and are left out of it. So a message of 40 MB is never in memory.

use memchr::memchr;

/// Literals up to this many bytes stay inside their response. 8 KiB: header sections and envelopes
/// fit, message bodies mostly do not.
pub(crate) const INLINE_LIMIT: u64 = 8 * 1024;
/// The longest response kept: an untagged SEARCH naming 1,000,000 UIDs of seven digits is 8 MB;
/// four times that.
const RESPONSE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Buffers above this are given back once a response is done, so that an idle client stays small.
const KEEP_BYTES: usize = 16 * 1024;

/// The status with which a command, or a greeting, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok,
    /// Not done.
    No,
    /// Not understood.
    Bad,
    /// Greeting of an authenticated connection.
    PreAuth,
    /// The server is going to close.
    Bye,
}

/// One untagged or continuation response, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response<'a> {
    /// `* n EXISTS`
    Exists(u32),
    /// `* n RECENT`
    Recent(u32),
    /// `* n EXPUNGE`
    Expunge(u32),
    /// `* VANISHED …`: what follows the word.
    Vanished(&'a [u8]),
    /// `* n FETCH (…)`: sequence number and what is between the outer parentheses, see
    /// [`crate::fetch`].
    Fetch(u32, &'a [u8]),
    /// `* SEARCH …`: the numbers.
    Search(&'a [u8]),
    /// `* ESEARCH …`
    Esearch(&'a [u8]),
    /// `* LIST …`
    List(&'a [u8]),
    /// `* LSUB …`
    Lsub(&'a [u8]),
    /// `* STATUS …`
    Status(&'a [u8]),
    /// `* FLAGS …`
    Flags(&'a [u8]),
    /// `* CAPABILITY …`
    Capability(&'a [u8]),
    /// `* OK|NO|BAD|BYE|PREAUTH …`: status and text with its code.
    Condition(Status, &'a [u8]),
    /// Any other line that begins with `* `: the text after that.
    Other(&'a [u8]),
}

/// The receiver of responses.
pub trait Handler {
    /// One complete untagged response.
    fn response(&mut self, response: Response<'_>) {
        let _ = response;
    }
    /// Whether it takes lines of a plain listing by [`Self::listed`].
    fn takes_listings(&self) -> bool {
        false
    }
    /// `* sequence FETCH (UID uid FLAGS (flags))`, where [`Self::takes_listings`] says so. All
    /// other responses come by [`Self::response`].
    fn listed(&mut self, sequence: u32, uid: u32, flags: &[u8]) {
        let _ = (sequence, uid, flags);
    }
    /// A piece of a literal too long to stay in its response; the response follows when the literal
    /// is done.
    fn literal(&mut self, chunk: &[u8]) {
        let _ = chunk;
    }
    /// The start of the response a streamed literal belongs to, before its first byte.
    fn literal_starts(&mut self, so_far: &[u8], bytes: u64) {
        let _ = (so_far, bytes);
    }
    /// The raw line (literals included) of each response, for transcripts. Lines of listings come
    /// by [`Self::raw_listing`].
    fn raw(&mut self, line: &[u8]) {
        let _ = line;
    }
    /// The raw lines that [`Self::listed`] has just taken, and how many they are.
    fn raw_listing(&mut self, lines: &[u8], count: u64) {
        let _ = (lines, count);
    }
}

/// A handler that ignores everything.
impl Handler for () {}

/// The reason why the scanner stopped before the end of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// `a<tag> OK …`: tag number, status, text with its code.
    Tagged(u32, Status, String),
    /// `+ …`
    Continue(String),
}

/// Bytes that cannot be a response.
#[derive(Debug, PartialEq, Eq)]
pub struct NotImap {
    /// The expected element.
    pub what: &'static str,
    /// The start of what came.
    pub line: String,
}

/// The state between two reads.
#[derive(Default)]
pub struct Scanner {
    partial: Vec<u8>,
    /// The position where the last line of `partial` begins: after its last literal.
    line_start: usize,
    literal_left: u64,
    streaming: bool,
}

impl Scanner {
    /// Takes input up to its end or the next tagged or continuation response. Returns how much it
    /// took and why it stopped; the rest has to be offered again.
    pub fn scan<H: Handler>(
        &mut self,
        input: &[u8],
        handler: &mut H,
    ) -> Result<(usize, Option<Stop>), NotImap> {
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|r| !r.is_empty()) {
            if self.literal_left > 0 {
                at += self.take_literal(rest, handler)?;
                continue;
            }
            if self.partial.is_empty() && handler.takes_listings() {
                let taken = listing(rest, handler);
                if taken > 0 {
                    at += taken;
                    continue;
                }
            }
            if self.partial.is_empty()
                && let Some(bytes) = whole(rest)
            {
                at += bytes;
                let stop = dispatch(rest.get(..bytes).unwrap_or(rest), handler)?;
                if stop.is_some() {
                    return Ok((at, stop));
                }
                continue;
            }
            let Some(newline) = memchr(b'\n', rest) else {
                self.keep(rest)?;
                return Ok((input.len(), None));
            };
            let piece = &rest[..=newline];
            at += piece.len();
            self.keep(piece)?;
            let line = self.partial.get(self.line_start..).unwrap_or_default();
            if let Some(bytes) = trailing_literal(line, &self.partial) {
                self.literal_left = bytes;
                self.streaming = bytes > INLINE_LIMIT;
                if self.streaming {
                    handler.literal_starts(&self.partial, bytes);
                }
                continue;
            }
            let stop = dispatch(&self.partial, handler);
            self.partial.clear();
            self.partial.shrink_to(KEEP_BYTES);
            self.line_start = 0;
            let stop = stop?;
            if stop.is_some() {
                return Ok((at, stop));
            }
        }
        Ok((at, None))
    }

    fn take_literal<H: Handler>(&mut self, rest: &[u8], handler: &mut H) -> Result<usize, NotImap> {
        let take = usize::try_from(self.literal_left).unwrap_or(usize::MAX).min(rest.len());
        let chunk = rest.get(..take).unwrap_or(rest);
        if self.streaming {
            handler.literal(chunk);
        } else {
            self.keep(chunk)?;
        }
        self.literal_left -= take as u64;
        if self.literal_left == 0 {
            self.line_start = self.partial.len();
        }
        Ok(take)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), NotImap> {
        if self.partial.len() + bytes.len() > RESPONSE_BYTES_MAX {
            return Err(NotImap { what: "a response of acceptable length", line: start_of(&self.partial) });
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }
}

/// The length of the response at the start of the input, if all of it is there and none of its
/// literals streams.
fn whole(input: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    loop {
        let end = line_start + line_length(input.get(line_start..)?)?;
        let (line, all) = (input.get(line_start..end)?, input.get(..end)?);
        match trailing_literal(line, all) {
            None => return Some(end),
            Some(bytes) if bytes > INLINE_LIMIT => return None,
            Some(bytes) => line_start = end.checked_add(usize::try_from(bytes).ok()?)?,
        }
    }
}

/// The length of the line at the start of the input. Behind a literal it is mostly one parenthesis.
fn line_length(input: &[u8]) -> Option<usize> {
    if input.starts_with(b")\r\n") {
        return Some(3);
    }
    Some(memchr(b'\n', input)? + 1)
}

/// Whole lines of a plain listing at the start of the input: how many bytes they have. A folder of
/// a million messages is a million of these, so each byte of them is looked at once.
fn listing<H: Handler>(input: &[u8], handler: &mut H) -> usize {
    let (mut rest, mut lines) = (input, 0);
    while let Some((line, after)) = listing_line(rest) {
        handler.listed(line.sequence, line.uid, line.flags);
        rest = after;
        lines += 1;
    }
    let taken = input.len() - rest.len();
    if lines > 0 {
        handler.raw_listing(input.get(..taken).unwrap_or(input), lines);
    }
    taken
}

/// `* sequence FETCH (UID uid FLAGS (flags))`.
struct ListingLine<'a> {
    sequence: u32,
    uid: u32,
    flags: &'a [u8],
}

/// One line and what follows it; `None` if it is of another form, or cut.
#[inline]
fn listing_line(input: &[u8]) -> Option<(ListingLine<'_>, &[u8])> {
    let (sequence, rest) = leading_number(input.strip_prefix(b"* ")?)?;
    let (uid, rest) = leading_number(rest.strip_prefix(b" FETCH (UID ")?)?;
    let rest = rest.strip_prefix(b" FLAGS (")?;
    // Most messages are seen and nothing else, or have no flag.
    if let Some(after) = rest.strip_prefix(b"\\Seen))\r\n") {
        return Some((ListingLine { sequence, uid, flags: b"\\Seen" }, after));
    }
    let end = rest.iter().position(|b| matches!(b, b')' | b'\n'))?;
    let (flags, rest) = rest.split_at_checked(end)?;
    Some((ListingLine { sequence, uid, flags }, rest.strip_prefix(b"))\r\n")?))
}

/// A `u32` and what follows it. Up to seven digits are read as one word, up to nine singly. Longer
/// numbers, and those at the end of the input, take the other way.
#[inline]
pub(crate) fn leading_number(text: &[u8]) -> Option<(u32, &[u8])> {
    let word = u64::from_le_bytes(*text.first_chunk::<8>()?);
    // Digits become 0 to 9. The sum sets the highest bit in the first byte that is not a digit.
    let values = word ^ 0x3030_3030_3030_3030;
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let digits = (others.trailing_zeros() / 8) as usize;
    match digits {
        0 => None,
        1..8 => {
            // The digits with zeros before them: then pairs, fours, and all of them are joined.
            let padded = values << (64 - 8 * digits);
            let pairs = padded.wrapping_mul(10).wrapping_add(padded >> 8) & 0x00ff_00ff_00ff_00ff;
            let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
            let number = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) as u32;
            Some((number, text.get(digits..)?))
        }
        _ => leading_long_number(text),
    }
}

/// [`leading_number`] for eight or nine digits. Nine digits fit a `u32`.
fn leading_long_number(text: &[u8]) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((number64(number).filter(|_| digits <= 9)? as u32, rest))
}

/// The size announced by `{n}\r\n` at the end of `line`. Human-readable text may end so without
/// meaning it.
fn trailing_literal(line: &[u8], whole: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r\n").or_else(|| line.strip_suffix(b"\n"))?;
    let line = line.strip_suffix(b"}")?;
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (line, digits) = line.split_at(line.len() - digits);
    if !line.ends_with(b"{") {
        return None;
    }
    if digits.is_empty() || is_human_text(whole) {
        return None;
    }
    number64(digits)
}

/// Whether the response is one whose tail is prose: a condition, untagged or tagged, or a
/// continuation.
fn is_human_text(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"* ") else { return true };
    matches!(split_word(rest).0, word if status_of(word).is_some())
}

fn dispatch<H: Handler>(line: &[u8], handler: &mut H) -> Result<Option<Stop>, NotImap> {
    handler.raw(line);
    let text = line.strip_suffix(b"\r\n").or_else(|| line.strip_suffix(b"\n")).unwrap_or(line);
    if let Some(rest) = text.strip_prefix(b"* ") {
        handler.response(untagged(rest));
        return Ok(None);
    }
    if let Some(rest) = text.strip_prefix(b"+") {
        return Ok(Some(Stop::Continue(String::from_utf8_lossy(rest.trim_ascii()).into_owned())));
    }
    tagged(text).map(Some).ok_or_else(|| NotImap { what: "a response", line: start_of(text) })
}

/// Tags are `a` and a number: what [`crate::Client`] sends.
fn tagged(text: &[u8]) -> Option<Stop> {
    let (tag, rest) = split_word(text);
    let tag = number(tag.strip_prefix(b"a")?)?;
    let (word, rest) = split_word(rest);
    let status = status_of(word)?;
    Some(Stop::Tagged(tag, status, String::from_utf8_lossy(rest).into_owned()))
}

fn untagged(rest: &[u8]) -> Response<'_> {
    // Nearly all responses of a large answer are these.
    if let Some((n, tail)) = leading_number(rest)
        && let Some(items) = tail.strip_prefix(b" FETCH (").and_then(|t| t.strip_suffix(b")"))
    {
        return Response::Fetch(n, items);
    }
    let (word, tail) = split_word(rest);
    if let Some(n) = number(word) {
        let (kind, tail) = split_word(tail);
        return match kind {
            b"FETCH" => match tail.strip_prefix(b"(").and_then(|t| t.strip_suffix(b")")) {
                Some(items) => Response::Fetch(n, items),
                None => Response::Other(rest),
            },
            b"EXISTS" => Response::Exists(n),
            b"EXPUNGE" => Response::Expunge(n),
            b"RECENT" => Response::Recent(n),
            _ => Response::Other(rest),
        };
    }
    if let Some(status) = status_of(word) {
        return Response::Condition(status, tail);
    }
    match word {
        b"SEARCH" | b"SORT" => Response::Search(tail),
        b"ESEARCH" => Response::Esearch(tail),
        b"LIST" => Response::List(tail),
        b"LSUB" => Response::Lsub(tail),
        b"STATUS" => Response::Status(tail),
        b"FLAGS" => Response::Flags(tail),
        b"CAPABILITY" => Response::Capability(tail),
        b"VANISHED" => Response::Vanished(tail),
        _ => Response::Other(rest),
    }
}

fn status_of(word: &[u8]) -> Option<Status> {
    Some(match word {
        b"OK" => Status::Ok,
        b"NO" => Status::No,
        b"BAD" => Status::Bad,
        b"PREAUTH" => Status::PreAuth,
        b"BYE" => Status::Bye,
        _ => return None,
    })
}

/// The first word and what follows its space.
pub(crate) fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|&b| b == b' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (text, &[]),
    }
}

/// A decimal `u32`, nothing else.
pub fn number(digits: &[u8]) -> Option<u32> {
    u32::try_from(number64(digits)?).ok()
}

/// A decimal `u64`, nothing else.
pub fn number64(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let mut n = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        n = n * 10 + u64::from(digit - b'0');
    }
    Some(n)
}

/// The first 120 bytes, printable.
pub(crate) fn start_of(line: &[u8]) -> String {
    String::from_utf8_lossy(line.get(..120).unwrap_or(line)).trim_end().escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[derive(Default, PartialEq, Debug)]
    struct Seen(Vec<String>, Vec<u8>);
    impl Handler for Seen {
        fn response(&mut self, response: Response<'_>) {
            self.0.push(match response {
                Response::Fetch(n, items) => format!("fetch {n} {}", String::from_utf8_lossy(items)),
                other => format!("{other:?}"),
            });
        }
        fn literal(&mut self, chunk: &[u8]) {
            self.1.extend_from_slice(chunk);
        }
    }

    /// Takes plain listings, and writes them down as [`Seen`] does.
    #[derive(Default)]
    struct Lister(Seen);
    impl Handler for Lister {
        fn response(&mut self, response: Response<'_>) {
            self.0.response(response);
        }
        fn literal(&mut self, chunk: &[u8]) {
            self.0.literal(chunk);
        }
        fn takes_listings(&self) -> bool {
            true
        }
        fn listed(&mut self, sequence: u32, uid: u32, flags: &[u8]) {
            let items = format!("UID {uid} FLAGS ({})", String::from_utf8_lossy(flags));
            self.0.response(Response::Fetch(sequence, items.as_bytes()));
        }
    }

    #[test]
    fn listings_are_the_same_by_either_way_wherever_a_read_cuts_them() {
        let input = b"* 1 FETCH (UID 5 FLAGS ())\r\n* 2 FETCH (UID 999999999 FLAGS (\\Seen $X))\r\n\
            * 3 FETCH (UID 4294967295 FLAGS ())\r\n* 4 FETCH (FLAGS () UID 7)\r\n\
            * 5 FETCH (UID 8 FLAGS () MODSEQ (3))\r\n* 6 FETCH (UID 9 FLAGS ())\n* 7 EXISTS\r\n\
            * 8 FETCH (UID 10 FLAGS (\r\n* 9 FETCH (UID 11 BODY[] {4}\r\n* 1 ))\r\na1 OK done\r\n";
        let (plain, stops) = scan_in_pieces(input, input.len());
        assert_eq!(plain.0.len(), 9, "{plain:?}");
        for piece in 1..=input.len() {
            let (mut scanner, mut lister, mut ended) = (Scanner::default(), Lister::default(), Vec::new());
            for chunk in input.chunks(piece) {
                let mut rest = chunk;
                while !rest.is_empty() {
                    let (used, stop) = scanner.scan(rest, &mut lister).unwrap();
                    ended.extend(stop);
                    rest = &rest[used..];
                }
            }
            assert_eq!((&lister.0, &ended), (&plain, &stops), "in pieces of {piece}");
        }
    }

    fn scan_in_pieces(input: &[u8], piece: usize) -> (Seen, Vec<Stop>) {
        let (mut scanner, mut seen, mut stops) = (Scanner::default(), Seen::default(), Vec::new());
        for chunk in input.chunks(piece) {
            let mut rest = chunk;
            while !rest.is_empty() {
                let (used, stop) = scanner.scan(rest, &mut seen).unwrap();
                stops.extend(stop);
                rest = &rest[used..];
            }
        }
        (seen, stops)
    }

    fn sample() -> Vec<u8> {
        let mut bytes = b"* 3 EXISTS\r\n* OK [UIDVALIDITY 7] text {5}\r\n\
            * 1 FETCH (UID 9 FLAGS (\\Seen))\r\n* 2 FETCH (BODY[HEADER] {4}\r\nA: b UID 10)\r\n* 3 FETCH (BODY[] {9000}\r\n"
            .to_vec();
        bytes.extend(std::iter::repeat_n(b'\n', 9000));
        bytes.extend_from_slice(b" UID 11)\r\n+ idling\r\na12 OK [READ-WRITE] done\r\n");
        bytes
    }

    #[test]
    fn responses_are_distinguished_and_long_literals_stream() {
        let (seen, stops) = scan_in_pieces(&sample(), usize::MAX);
        assert_eq!(seen.0[0], "Exists(3)");
        assert_eq!(seen.0[2], "fetch 1 UID 9 FLAGS (\\Seen)");
        assert_eq!(seen.0[3], "fetch 2 BODY[HEADER] {4}\r\nA: b UID 10");
        assert_eq!(seen.0[4], "fetch 3 BODY[] {9000}\r\n UID 11");
        assert_eq!(seen.1.len(), 9000);
        assert_eq!(stops[0], Stop::Continue("idling".into()));
        assert_eq!(stops[1], Stop::Tagged(12, Status::Ok, "[READ-WRITE] done".into()));
    }

    #[test]
    fn numbers_of_any_length_are_read_with_what_follows() {
        for digits in 1..=12 {
            let number = &b"123456789012"[..digits];
            let text = [number, b" FETCH (UID"].concat();
            let read = leading_number(&text);
            let expected = (digits <= 9).then(|| (number64(number).unwrap() as u32, &text[digits..]));
            assert_eq!(read, expected, "{digits} digits");
        }
        assert_eq!(leading_number(b"0000009) FLAGS"), Some((9, &b") FLAGS"[..])));
        for text in [&b"1234567"[..], b"", b"x2345678", b"\xb12345678", b"/2345678", b":2345678"] {
            assert_eq!(leading_number(text), None, "{text:?}");
        }
        for byte in (0..=255).filter(|b: &u8| !b.is_ascii_digit()) {
            let text = [b"4321", &[byte][..], b"9999"].concat();
            assert_eq!(leading_number(&text).map(|read| read.0), Some(4321), "{byte}");
        }
    }

    #[test]
    fn a_literal_that_ends_like_an_announcement_announces_nothing() {
        // The literal ends with `{3`, and the line after it is `}`.
        let input = b"* 1 FETCH (X {2}\r\n{3}\r\n* 2 EXISTS\r\n";
        let (seen, _) = scan_in_pieces(input, input.len());
        assert_eq!(seen.0.last().map(String::as_str), Some("Exists(2)"), "{seen:?}");
        for piece in 1..input.len() {
            assert_eq!(scan_in_pieces(input, piece).0, seen, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_response_that_is_there_whole_is_measured_with_its_literals() {
        assert_eq!(whole(b"* 1 FETCH (B {4}\r\na\r\nb C {1}\r\n\n)\r\n* 2"), Some(34));
        for cut in [&b"* 1 FETCH (B {4}\r\na\r\n"[..], b"* 1 FETCH (B {4}\r\na\r\nb)", b"* 1", b""] {
            assert_eq!(whole(cut), None);
        }
        assert_eq!(whole(b"* 1 FETCH (B {9000}\r\n..."), None);
        assert_eq!(whole(b"* OK text {5}\r\nnext"), Some(15));
    }

    #[test]
    fn garbage_is_named() {
        let error = Scanner::default().scan(b"HTTP/1.1 400 Bad Request\r\n", &mut ()).unwrap_err();
        assert!(error.line.starts_with("HTTP/1.1"));
    }

    properties! {
        #[test]
        fn where_reads_cut_does_not_matter(piece in 1usize..200) {
            prop_assert_eq!(scan_in_pieces(&sample(), piece), scan_in_pieces(&sample(), usize::MAX));
        }
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Scanner::default().scan(&bytes, &mut Seen::default());
        }
    }
}
