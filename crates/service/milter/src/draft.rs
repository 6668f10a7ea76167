//! The message, while filters change it: its fields one by one, and its body.

use bytes::Bytes;
use posthaste_mime_summary::{HeaderFields, Span};
use posthaste_net::{copying, freed_elsewhere};

/// RFC 5322 §2.1.1.
const LINE_MAX: usize = 998;
/// Octets of a name.
const NAME_MAX: usize = 100;
/// Fields that a filter may add.
const ADDED_MAX: usize = 1_000;
/// Octets by which filters may make the header longer. Each value could have a mebibyte.
const ADDED_LEN_MAX: usize = 192 * 1024;

/// The message without what this server put in front.
#[derive(Debug, Clone)]
pub struct Draft {
    fields: Vec<Bytes>,
    /// The empty line after the header, and the body.
    body: Bytes,
    added: usize,
    /// Octets by which filters made the header longer.
    added_len: usize,
    /// Changes over a bound.
    ignored: usize,
    /// The body that a filter gives instead, as it comes.
    replaced: Option<Vec<u8>>,
}

impl Draft {
    /// Splits a message into its fields and its body.
    pub fn new(message: &Bytes) -> Self {
        let span = Span::new(0, u32::try_from(message.len()).unwrap_or(u32::MAX));
        let (mut fields, mut end) = (Vec::new(), 0);
        for field in HeaderFields::new(message, span) {
            let span = field.span();
            let (from, to) = (span.start as usize, span.end as usize);
            if from < end || to > message.len() || from > to {
                break;
            }
            fields.push(message.slice(from..to));
            end = to;
        }
        Self { fields, body: message.slice(end..), added: 0, added_len: 0, ignored: 0, replaced: None }
    }

    /// Name and value of each field, the value without its last line end, with the blanks after
    /// the colon.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().filter_map(|field| {
            let colon = field.iter().position(|octet| *octet == b':')?;
            let (name, value) = (&field[..colon], &field[colon + 1..]);
            let value = value.strip_suffix(b"\n").unwrap_or(value);
            Some((name.trim_ascii_end(), value.strip_suffix(b"\r").unwrap_or(value)))
        })
    }

    /// The body, without the empty line before it.
    pub fn body(&self) -> &[u8] {
        let body = self.body.strip_prefix(b"\r\n").or_else(|| self.body.strip_prefix(b"\n"));
        body.unwrap_or(&self.body)
    }

    /// Adds a field after all others.
    pub fn add(&mut self, name: &str, value: &[u8]) {
        self.insert(self.fields.len(), name, value);
    }

    /// Adds a field at a place, if it is one (RFC 5322 §2.2).
    pub fn insert(&mut self, at: usize, name: &str, value: &[u8]) {
        let Some(field) = field(name, value) else { return };
        if self.added == ADDED_MAX {
            self.ignored += 1;
        } else if self.takes(field.len()) {
            self.added += 1;
            self.fields.insert(at.min(self.fields.len()), field);
        }
    }

    /// Gives the n-th field of a name, counted from 1, another value, or removes it if that is
    /// empty. If there is no such field, it is added.
    pub fn change(&mut self, nth: usize, name: &str, value: &[u8]) {
        let is_named = |field: &Bytes| {
            field
                .iter()
                .position(|octet| *octet == b':')
                .and_then(|colon| field.get(..colon))
                .is_some_and(|found| found.trim_ascii_end().eq_ignore_ascii_case(name.as_bytes()))
        };
        let mut of_name = (0..self.fields.len()).filter(|at| self.fields.get(*at).is_some_and(is_named));
        match (of_name.nth(nth.max(1) - 1), value.is_empty()) {
            (Some(at), true) => _ = self.fields.remove(at),
            (Some(at), false) => {
                let Some(field) = field(name, value) else { return };
                let before = self.fields.get(at).map_or(0, Bytes::len);
                if self.takes(field.len().saturating_sub(before))
                    && let Some(place) = self.fields.get_mut(at)
                {
                    *place = field;
                }
            }
            (None, true) => {}
            (None, false) => self.add(name, value),
        }
    }

    /// Counts octets by which the header becomes longer. `false` if they are too many.
    fn takes(&mut self, octets: usize) -> bool {
        let len = self.added_len.saturating_add(octets);
        let fits = len <= ADDED_LEN_MAX;
        if fits {
            self.added_len = len;
        } else {
            self.ignored += 1;
        }
        fits
    }

    /// How many changes were not made because they are over a bound.
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// Adds a part of another body.
    pub fn replace_body(&mut self, part: &[u8]) {
        self.replaced.get_or_insert_default().extend_from_slice(part);
    }

    /// Octets of the other body so far.
    pub fn replaced_len(&self) -> usize {
        self.replaced.as_ref().map_or(0, Vec::len)
    }

    /// Applies the body that a filter has made: the next filter gets it. A large one is copied on
    /// another thread.
    pub async fn apply_body(&mut self) {
        if let Some(body) = self.replaced.take() {
            let octets = body.len();
            self.body = copying(octets, move || freed_elsewhere(body_with_line_ends(&body))).await;
        }
    }

    /// The message after the fields that this server put in front.
    pub fn print(&self, front: &[u8]) -> Bytes {
        let len = front.len() + self.body.len() + self.fields.iter().map(Bytes::len).sum::<usize>();
        let mut out = Vec::with_capacity(len);
        out.extend_from_slice(front);
        self.fields.iter().for_each(|field| out.extend_from_slice(field));
        out.extend_from_slice(&self.body);
        Bytes::from(out)
    }
}

/// The empty line before a body, and the body. Filters may end lines with LF alone.
fn body_with_line_ends(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + text.len() + text.len() / 32);
    out.extend_from_slice(b"\r\n");
    let mut before = 0;
    for octet in text {
        if *octet == b'\n' && before != b'\r' {
            out.push(b'\r');
        }
        out.push(*octet);
        before = *octet;
    }
    out
}

/// A field with its CR LF. Continuation lines without a blank, and control characters, are
/// corrected. `None` for an invalid name, and for a line that is too long.
fn field(name: &str, value: &[u8]) -> Option<Bytes> {
    let is_name =
        (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    // RFC 5321 §4.4: the last host writes it.
    if !is_name || name.eq_ignore_ascii_case("Return-Path") {
        return None;
    }
    let mut out = format!("{name}:").into_bytes();
    for (at, line) in value.split(|octet| *octet == b'\n').enumerate() {
        let line: Vec<u8> =
            line.iter().copied().filter(|octet| *octet == b'\t' || !octet.is_ascii_control()).collect();
        if at > 0 {
            if line.trim_ascii().is_empty() {
                continue;
            }
            out.extend_from_slice(b"\r\n");
        }
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            out.push(if at > 0 { b'\t' } else { b' ' });
        }
        out.extend_from_slice(&line);
    }
    out.extend_from_slice(b"\r\n");
    let fits = out.split(|octet| *octet == b'\n').all(|line| line.len() <= LINE_MAX + 1);
    fits.then(|| Bytes::from(out))
}

#[cfg(test)]
mod tests {
    use posthaste_net::given_to_compute_threads;
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    const MESSAGE: &[u8] = b"Subject: a\r\nX-Two: 1\r\n\tfolded\r\nX-two: 2\r\n\r\nbody\r\n";

    fn text(draft: &Draft) -> String {
        String::from_utf8(draft.print(b"").to_vec()).unwrap()
    }

    #[test]
    fn a_message_that_nobody_changes_stays() {
        for message in [MESSAGE, b"", b"body alone", b"Subject: a\r\n", b"\r\nbody", b"A: b\n\nbody\n"] {
            let draft = Draft::new(&Bytes::from_static(message));
            assert_eq!(draft.print(b"front "), [b"front ".as_slice(), message].concat());
        }
        let draft = Draft::new(&Bytes::from_static(MESSAGE));
        let fields: Vec<_> = draft.fields().collect();
        assert_eq!(fields[1], (b"X-Two".as_slice(), b" 1\r\n\tfolded".as_slice()));
        assert_eq!(draft.body(), b"body\r\n");
    }

    /// It was copied in one poll of the client's session, however long it was.
    #[tokio::test]
    async fn a_large_body_is_copied_by_another_thread() {
        for (octets, is_elsewhere) in [(1000, false), (2 << 20, true)] {
            let mut draft = Draft::new(&Bytes::from_static(MESSAGE));
            draft.replace_body(&vec![b'x'; octets]);
            let given = given_to_compute_threads();
            draft.apply_body().await;
            assert_eq!(given_to_compute_threads() - given, usize::from(is_elsewhere), "{octets} octets");
        }
    }

    #[tokio::test]
    async fn fields_and_body_are_changed() {
        let mut draft = Draft::new(&Bytes::from_static(MESSAGE));
        draft.change(2, "X-TWO", b"second");
        draft.change(1, "x-two", b"");
        draft.change(1, "X-New", b"new");
        draft.change(9, "X-Not", b"");
        draft.insert(0, "X-First", b" one\n\ttwo\nSubject: injected\r\n\r\n");
        draft.add("Return-Path", b"<x>");
        draft.add("No name", b"x");
        draft.add("X-Long", &[b'x'; 2_000]);
        draft.replace_body(b"other\nbo");
        draft.replace_body(b"dy\r\n");
        draft.apply_body().await;
        assert_eq!(
            text(&draft),
            "X-First: one\r\n\ttwo\r\n\tSubject: injected\r\nSubject: a\r\nX-TWO: second\r\nX-New: new\r\n\r\n\
             other\r\nbody\r\n"
        );
    }

    /// A filter could add a thousand fields of a mebibyte, and change as many.
    #[test]
    fn filters_make_the_header_longer_by_a_bound() {
        let long = [&[b'x'; 900][..], b"\n "].concat().repeat(50);
        for nth in [1, usize::MAX] {
            let mut draft = Draft::new(&Bytes::from(b"X-A: 1\r\n".repeat(100)));
            for n in 0..100 {
                draft.change(nth.min(n + 1), "X-A", &long);
                draft.insert(n, "X-B", &long);
            }
            assert!(draft.ignored() > 0);
            let len = draft.print(b"").len();
            assert!((ADDED_LEN_MAX - long.len()..=ADDED_LEN_MAX + 1_000).contains(&len), "{len}");
            // A field that becomes no longer is changed.
            draft.change(1, "X-A", b"2");
            assert_eq!(draft.fields().find(|(name, _)| *name == b"X-A").unwrap().1, b" 2");
        }
        let mut draft = Draft::new(&Bytes::from_static(MESSAGE));
        (0..=ADDED_MAX).for_each(|_| draft.add("X-A", b"1"));
        assert_eq!(draft.ignored(), 1);
    }

    properties! {
        /// Whatever is added, it is one field, and the body stays.
        #[test]
        fn the_body_stays(name in "[ -~]{0,8}", value in "\\PC{0,40}(\n\\PC{0,9}){0,3}", nth in 0_usize..4) {
            let mut draft = Draft::new(&Bytes::from_static(b"Subject: s\r\n\r\nbody"));
            draft.insert(nth, &name, value.as_bytes());
            draft.change(nth, &name, value.as_bytes());
            let out = draft.print(b"");
            prop_assert!(out.ends_with(b"\r\n\r\nbody"));
            prop_assert!(Draft::new(&out).fields().count() <= 3);
        }
    }
}
