//! The reader that both parsers share.
//!
//! The reader looks at the bytes of one whole command or response and only ever moves forward; what
//! it hands out are slices of them. Every failure names its place and the expected element.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;
use posthaste_mail_model::NumSet;

use crate::chars::{is_astring_char, is_atom_char, is_word_char};
use crate::limits::{SKIP_NESTING_MAX, TEXT_LITERAL_BYTES_MAX};
use crate::{ParseError, ParseErrorKind, Tag};

/// A broken rule, before the tag of the answer is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ParseErrorKind,
    pub(crate) offset: usize,
    pub(crate) expected: &'static str,
}

impl Fault {
    pub(crate) fn with_tag(self, tag: Option<Tag>) -> ParseError {
        ParseError { tag, kind: self.kind, offset: self.offset, expected: self.expected }
    }
}

pub(crate) type Parsed<T> = Result<T, Fault>;

/// The way of reading strings in quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quoting {
    /// `\` only before `"` and `\` (RFC 9051 §9, QUOTED-CHAR): what a server reads.
    Strict,
    /// `\` before anything: servers in the field escape too much.
    Lenient,
}

/// A word of the grammar in capitals, on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    bytes: [u8; Self::LEN_MAX],
    len: usize,
}

impl Word {
    /// Bytes. The longest word is `AUTHENTICATIONFAILED` with 20.
    const LEN_MAX: usize = 24;

    /// A word from its letters. A word that is too long is unknown and becomes empty.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut word = Self { bytes: [0; Self::LEN_MAX], len: 0 };
        if text.len() <= Self::LEN_MAX {
            for (slot, b) in word.bytes.iter_mut().zip(text) {
                *slot = b.to_ascii_uppercase();
            }
            word.len = text.len();
        }
        word
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    whole: &'a Bytes,
    bytes: &'a [u8],
    at: usize,
    quoting: Quoting,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(whole: &'a Bytes, quoting: Quoting) -> Self {
        Self { whole, bytes: whole, at: 0, quoting }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn fail<T>(&self, expected: &'static str) -> Parsed<T> {
        Err(Fault { kind: ParseErrorKind::Syntax, offset: self.at, expected })
    }

    pub(crate) fn limit<T>(&self, what: &'static str) -> Parsed<T> {
        Err(Fault { kind: ParseErrorKind::Limit, offset: self.at, expected: what })
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The byte after the next one.
    pub(crate) fn peek_second(&self) -> Option<u8> {
        self.bytes.get(self.at + 1).copied()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Goes on by `n` bytes, at most to the end.
    pub(crate) fn advance(&mut self, n: usize) {
        self.at = (self.at + n).min(self.bytes.len());
    }

    pub(crate) fn eat(&mut self, b: u8) -> bool {
        let yes = self.peek() == Some(b);
        self.at += usize::from(yes);
        yes
    }

    pub(crate) fn expect(&mut self, b: u8, expected: &'static str) -> Parsed<()> {
        if self.eat(b) { Ok(()) } else { self.fail(expected) }
    }

    pub(crate) fn sp(&mut self) -> Parsed<()> {
        self.expect(b' ', "a space")
    }

    /// Passes over any spaces: servers in the field are loose with them.
    pub(crate) fn spaces(&mut self) {
        while self.eat(b' ') {}
    }

    pub(crate) fn take_while(&mut self, class: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let len = rest.iter().position(|&b| !class(b)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    /// The end of the line: spaces before it are forgiven, a missing CR or line end too.
    pub(crate) fn end(&mut self) -> Parsed<()> {
        self.spaces();
        match self.rest() {
            b"" | b"\n" | b"\r\n" => Ok(()),
            _ => self.fail("the end of the line"),
        }
    }

    /// Whether only the line end is left.
    pub(crate) fn at_end(&self) -> bool {
        matches!(self.rest(), b"" | b"\n" | b"\r\n")
    }

    /// Passes over the one space before a further argument; false if only the end of the line is
    /// left.
    pub(crate) fn more(&mut self) -> Parsed<bool> {
        let before = self.at;
        self.spaces();
        if self.at_end() {
            return Ok(false);
        }
        self.at = before;
        self.sp()?;
        Ok(true)
    }

    /// A word of the grammar; empty if there is no word here.
    pub(crate) fn word(&mut self) -> Word {
        Word::new(self.take_while(is_word_char))
    }

    /// The label of a value that an extension may have added: a word, or `tagged-ext-label` of
    /// RFC 9051 §9.
    pub(crate) fn label(&mut self) -> Word {
        Word::new(self.take_while(|b| is_word_char(b) || matches!(b, b'_' | b':')))
    }

    /// Reads a word if it is here, in any case, and ends here.
    pub(crate) fn eat_word(&mut self, word: &[u8]) -> bool {
        let rest = self.rest();
        let yes = rest.get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word))
            && !rest.get(word.len()).is_some_and(|&b| is_word_char(b));
        self.at += if yes { word.len() } else { 0 };
        yes
    }

    pub(crate) fn atom(&mut self, expected: &'static str) -> Parsed<&'a [u8]> {
        let atom = self.take_while(is_atom_char);
        if atom.is_empty() { self.fail(expected) } else { Ok(atom) }
    }

    /// The text of bytes that are ASCII by their class.
    pub(crate) fn text(&self, bytes: &[u8]) -> Parsed<String> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => self.fail("text in UTF-8"),
        }
    }

    /// Digits of at most 63 bits.
    pub(crate) fn number64(&mut self, expected: &'static str) -> Parsed<u64> {
        let start = self.at;
        let mut n: u64 = 0;
        while let Some(b @ b'0'..=b'9') = self.peek() {
            // 2^63 - 1 has 19 digits, and 20 nines do not overflow 2^64 before the check sees 19 of
            // them.
            n = match n.checked_mul(10).and_then(|n| n.checked_add(u64::from(b - b'0'))) {
                Some(n) if n <= i64::MAX as u64 => n,
                _ => return self.limit("The number is over 63 bits"),
            };
            self.at += 1;
        }
        if self.at == start { self.fail(expected) } else { Ok(n) }
    }

    pub(crate) fn number(&mut self, expected: &'static str) -> Parsed<u32> {
        let n = self.number64(expected)?;
        match u32::try_from(n) {
            Ok(n) => Ok(n),
            Err(_) => self.limit("The number is over 32 bits"),
        }
    }

    /// `nz-number`: no leading zero either.
    pub(crate) fn nz_number(&mut self, expected: &'static str) -> Parsed<u32> {
        if self.peek() == Some(b'0') { self.fail(expected) } else { self.number(expected) }
    }

    /// Reads `{n}` CRLF, answers the range of the literal's bytes, and moves past them. The caller
    /// reads a `~` before it.
    pub(crate) fn literal(&mut self) -> Parsed<Range<usize>> {
        self.expect(b'{', "a literal")?;
        let size = self.number64("the size of a literal")?;
        self.eat(b'+');
        self.expect(b'}', "} after the size of a literal")?;
        self.eat(b'\r');
        self.expect(b'\n', "a line end after the size of a literal")?;
        let end = usize::try_from(size).ok().and_then(|n| self.at.checked_add(n));
        match end {
            Some(end) if end <= self.bytes.len() => {
                let range = self.at..end;
                self.at = end;
                Ok(range)
            }
            _ => self.fail("as many bytes as the literal announced"),
        }
    }

    /// The bytes of a range, sharing the input's memory.
    pub(crate) fn slice(&self, range: Range<usize>) -> Bytes {
        self.whole.slice(range)
    }

    /// The text in quotes, as a range, and whether it holds a `\`.
    fn quoted(&mut self) -> Parsed<(Range<usize>, bool)> {
        self.expect(b'"', "a string in quotes")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((start..self.at - 1, escaped));
                }
                Some(b'\\') => {
                    escaped = true;
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\') => self.at += 1,
                        Some(b) if self.quoting == Quoting::Lenient && !matches!(b, 0 | b'\r' | b'\n') => {
                            self.at += 1;
                        }
                        _ => return self.fail("\" or \\ after a \\ in quotes"),
                    }
                }
                None | Some(0 | b'\r' | b'\n') => return self.fail("the closing quote of a string"),
                Some(_) => self.at += 1,
            }
        }
    }

    fn unescape(&self, range: Range<usize>) -> Vec<u8> {
        let mut out = Vec::with_capacity(range.len());
        let mut bytes = self.bytes[range].iter();
        while let Some(&b) = bytes.next() {
            out.push(if b == b'\\' { bytes.next().copied().unwrap_or(b) } else { b });
        }
        out
    }

    /// `string`: in quotes or a literal. A literal holds no NUL (RFC 9051 §9, CHAR8).
    pub(crate) fn string(&mut self, expected: &'static str) -> Parsed<Cow<'a, [u8]>> {
        match self.peek() {
            Some(b'"') => {
                let (range, escaped) = self.quoted()?;
                Ok(if escaped { self.unescape(range).into() } else { self.bytes[range].into() })
            }
            Some(b'{') => {
                let at = self.clone();
                let bytes = &self.bytes[self.literal()?];
                // The literals of an APPEND may be as long as a message. A text of one is copied.
                if self.quoting == Quoting::Strict && bytes.len() as u64 > TEXT_LITERAL_BYTES_MAX {
                    return at.limit("The literal is too long for a text");
                }
                if memchr::memchr(0, bytes).is_some() {
                    return self.fail("a literal without NUL");
                }
                Ok(bytes.into())
            }
            _ => self.fail(expected),
        }
    }

    /// `astring`
    pub(crate) fn astring(&mut self, expected: &'static str) -> Parsed<Cow<'a, [u8]>> {
        match self.peek() {
            Some(b'"' | b'{') => self.string(expected),
            Some(b) if is_astring_char(b) => Ok(self.take_while(is_astring_char).into()),
            _ => self.fail(expected),
        }
    }

    /// `astring` that is text.
    pub(crate) fn astring_text(&mut self, expected: &'static str) -> Parsed<String> {
        let bytes = self.astring(expected)?;
        self.text(&bytes)
    }

    /// `NIL`, if it is here.
    pub(crate) fn nil(&mut self) -> bool {
        self.eat_word(b"NIL")
    }

    /// `nstring`
    pub(crate) fn nstring(&mut self, expected: &'static str) -> Parsed<Option<Cow<'a, [u8]>>> {
        if self.nil() { Ok(None) } else { self.string(expected).map(Some) }
    }

    /// `nstring` or `literal8` as bytes that share the input's memory; they may hold anything.
    pub(crate) fn nstring_bytes(&mut self, expected: &'static str) -> Parsed<Option<Bytes>> {
        if self.peek() == Some(b'~') && self.peek_second() == Some(b'{') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'{') => {
                let range = self.literal()?;
                Ok(Some(self.slice(range)))
            }
            Some(b'"') => {
                let (range, escaped) = self.quoted()?;
                Ok(Some(if escaped { self.unescape(range).into() } else { self.slice(range) }))
            }
            _ if self.nil() => Ok(None),
            _ => self.fail(expected),
        }
    }

    /// `1:3,7` without `*`, in written order.
    pub(crate) fn ranges(&mut self, expected: &'static str) -> Parsed<Vec<(u32, u32)>> {
        let mut ranges = Vec::new();
        loop {
            let low = self.nz_number(expected)?;
            let high = if self.eat(b':') { self.nz_number(expected)? } else { low };
            ranges.push((low, high));
            if !self.eat(b',') {
                return Ok(ranges);
            }
        }
    }

    /// `1:3,7` as a set.
    pub(crate) fn num_set<N>(&mut self, expected: &'static str) -> Parsed<NumSet<N>> {
        self.ranges(expected).map(NumSet::from_ranges)
    }

    /// `( item item … )`, at most `max`; `what` names the limit.
    pub(crate) fn list<T>(
        &mut self,
        max: usize,
        what: &'static str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect(b'(', "(")?;
        let mut items = Vec::new();
        if self.eat(b')') {
            return Ok(items);
        }
        loop {
            if items.len() == max {
                return self.limit(what);
            }
            items.push(item(self)?);
            if self.eat(b')') {
                return Ok(items);
            }
            self.expect(b' ', "a space or )")?;
        }
    }

    /// Passes over one value of any sort: a word, a string, or parentheses with such in them.
    pub(crate) fn skip_value(&mut self) -> Parsed<()> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'(') => {
                    depth += 1;
                    self.at += 1;
                    if depth > SKIP_NESTING_MAX {
                        return self.limit("Parentheses are nested too deep");
                    }
                }
                Some(b')') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b' ') if depth > 0 => self.at += 1,
                Some(b'"') => _ = self.quoted()?,
                Some(b'{') => _ = self.literal()?,
                Some(b'~') if self.peek_second() == Some(b'{') => self.at += 1,
                Some(b) if !matches!(b, b' ' | b')' | b'\r' | b'\n' | 0) => {
                    self.at += 1;
                    self.take_while(|b| !matches!(b, b' ' | b'(' | b')' | b'"' | b'{' | b'\r' | b'\n' | 0));
                }
                _ => return self.fail("a value"),
            }
            // Outside of parentheses, a word continues after a quote or a parenthesis within it:
            // `a"b"`, `a(b)`.
            let continues = matches!(self.peek(), Some(b) if !matches!(b, b' ' | b')' | b'\r' | b'\n'));
            if depth == 0 && !continues {
                return Ok(());
            }
        }
    }
}
