//! Reads one address from a printed ENVELOPE, for SORT by display name (RFC 5957 §4: "from the
//! [IMAP] envelope structure resulting from a FETCH ENVELOPE").

use std::borrow::Cow;

use crate::response::Address;

/// A list of addresses in an ENVELOPE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EnvelopeList {
    /// env-from
    From,
    /// env-to
    To,
}

/// The first address of a list in an ENVELOPE as [`crate::print::envelope`] prints it. `None` if
/// the list is NIL, or if this is no ENVELOPE.
pub fn first_address(envelope: &[u8], list: EnvelopeList) -> Option<Address<'_>> {
    let mut scan = Scan { rest: envelope.strip_prefix(b"(")? };
    // Date and subject, then the lists: From, Sender, Reply-To, To.
    let before = match list {
        EnvelopeList::From => 2,
        EnvelopeList::To => 5,
    };
    for _ in 0..before {
        scan.skip()?;
        scan.eat(b' ')?;
    }
    scan.eat(b'(')?;
    scan.eat(b'(')?;
    let mut next = |end: u8| {
        let text = scan.nstring()?;
        scan.eat(end)?;
        Some(text)
    };
    Some(Address { name: next(b' ')?, route: next(b' ')?, mailbox: next(b' ')?, host: next(b')')? })
}

/// The rest of the text.
struct Scan<'e> {
    rest: &'e [u8],
}

impl<'e> Scan<'e> {
    fn eat(&mut self, byte: u8) -> Option<()> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        (*first == byte).then_some(())
    }

    fn take(&mut self, len: usize) -> Option<&'e [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    /// `nstring`; the outer `None` if there is none here.
    fn nstring(&mut self) -> Option<Option<Cow<'e, [u8]>>> {
        match self.rest.first()? {
            b'"' => self.quoted().map(Some),
            b'{' => self.literal().map(|text| Some(Cow::Borrowed(text))),
            _ => (self.take(3)? == b"NIL").then_some(None),
        }
    }

    fn quoted(&mut self) -> Option<Cow<'e, [u8]>> {
        self.eat(b'"')?;
        let mut at = 0;
        let mut has_escape = false;
        loop {
            at += memchr::memchr2(b'"', b'\\', self.rest.get(at..)?)?;
            if self.rest.get(at) == Some(&b'"') {
                break;
            }
            has_escape = true;
            at += 2;
        }
        let text = self.take(at)?;
        self.eat(b'"')?;
        if !has_escape {
            return Some(Cow::Borrowed(text));
        }
        let (mut plain, mut bytes) = (Vec::with_capacity(text.len()), text.iter());
        while let Some(&byte) = bytes.next() {
            plain.extend(if byte == b'\\' { bytes.next().copied() } else { Some(byte) });
        }
        Some(Cow::Owned(plain))
    }

    fn literal(&mut self) -> Option<&'e [u8]> {
        self.eat(b'{')?;
        let digits = memchr::memchr(b'}', self.rest)?;
        let len = std::str::from_utf8(self.take(digits)?).ok()?.parse().ok()?;
        (self.take(3)? == b"}\r\n").then_some(())?;
        self.take(len)
    }

    /// A string, NIL, or parentheses with such in them.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0;
        loop {
            match self.rest.first()? {
                b'(' => {
                    depth += 1;
                    self.take(1)?;
                    continue;
                }
                b' ' => {
                    self.take(1)?;
                    continue;
                }
                b')' => {
                    depth -= 1;
                    self.take(1)?;
                }
                _ => _ = self.nstring()?,
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print;
    use crate::response::Envelope;

    fn address(texts: [Option<&'static [u8]>; 4]) -> Address<'static> {
        let [name, route, mailbox, host] = texts.map(|text| text.map(Cow::Borrowed));
        Address { name, route, mailbox, host }
    }

    #[test]
    fn the_first_address_is_found_behind_anything() {
        let several = [
            address([Some(b"A \"b\" \\ (c)"), None, Some(b"m) (n"), Some(b"h")]),
            address([None, Some(b"@r"), Some(b""), Some(b"")]),
            address([None, None, Some(b"group"), None]),
            address([None, None, None, None]),
            address([Some(b"line\r\nend"), None, Some("ü".as_bytes()), Some(b"h")]),
        ];
        let texts: [Option<&[u8]>; 4] = [None, Some(b"\") (\\"), Some(b"a\r\n) ("), Some("ü".as_bytes())];
        for first in &several {
            for other in &several {
                for text in texts {
                    let envelope = Envelope {
                        date: text.map(Cow::Borrowed),
                        subject: text.map(Cow::Borrowed),
                        from: vec![first.clone(), other.clone()],
                        to: vec![other.clone(), first.clone()],
                        ..Envelope::default()
                    };
                    let mut out = Vec::new();
                    print::envelope(&mut out, &envelope);
                    assert_eq!(first_address(&out, EnvelopeList::From).as_ref(), Some(first));
                    assert_eq!(first_address(&out, EnvelopeList::To).as_ref(), Some(other));
                    // A part of it is never read beyond its end.
                    for len in 0..out.len() {
                        let _ = first_address(&out[..len], EnvelopeList::To);
                    }
                }
            }
        }
        let mut out = Vec::new();
        print::envelope(&mut out, &Envelope::default());
        assert_eq!(first_address(&out, EnvelopeList::From), None);
        assert_eq!(first_address(b"nonsense", EnvelopeList::To), None);
    }
}
