//! The header fields that a scanner adds and removes.

use bytes::{Bytes, BytesMut};
use posthaste_mime_summary::{HeaderFields, InBounds, Span};

/// Fields that a scanner cannot change: this server writes them, and others believe them.
pub const OURS: [&str; 3] = ["Authentication-Results", "Return-Path", "Received"];

/// The field that a scanner's answer "add header" adds. It is removed from every message that is
/// scanned, so that none brings its own.
pub const SPAM: &str = "X-Spam";

/// RFC 5322 §2.1.1.
const LINE_MAX: usize = 998;
/// Octets of all fields that are added.
const ADDED_MAX: usize = 16 * 1024;
/// Removals at most: each looks at all fields of the message. An answer has room for a million.
const REMOVED_MAX: usize = 100;

/// Changes of a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldChanges {
    add: Vec<u8>,
    remove: Vec<(String, Occurrence)>,
    /// Changes over a bound.
    ignored: usize,
}

/// Which of the fields of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// All of them.
    All,
    /// One, counted from 1: from the first on, or with a minus from the last on.
    Nth(i64),
}

impl FieldChanges {
    /// Adds a field. It adds nothing for a name that RFC 5322 §2.2 does not allow, for one of
    /// [`OURS`], or if no space is left. A value may be folded. Lines that do not continue with a
    /// blank, and control characters, are repaired.
    pub fn add(&mut self, name: &str, value: &str) {
        if !may_change(name) {
            return;
        }
        let mut field = format!("{name}: ");
        for (at, line) in value.split('\n').map(|line| line.trim_end_matches('\r')).enumerate() {
            let line: String = line.chars().filter(|c| *c == '\t' || !c.is_control()).collect();
            if at > 0 && line.trim().is_empty() {
                continue;
            }
            if at > 0 {
                field.push_str("\r\n");
                if !line.starts_with([' ', '\t']) {
                    field.push('\t');
                }
            }
            field.push_str(&line);
        }
        field.push_str("\r\n");
        let fits = field.split("\r\n").all(|line| line.len() <= LINE_MAX);
        if fits && self.add.len() + field.len() <= ADDED_MAX {
            self.add.extend_from_slice(field.as_bytes());
        } else {
            self.ignored += 1;
        }
    }

    /// Removes fields of a name, unless there are too many removals.
    pub fn remove(&mut self, name: &str, which: Occurrence) {
        if !may_change(name) {
            return;
        }
        if self.remove.len() < REMOVED_MAX {
            self.remove.push((name.to_owned(), which));
        } else {
            self.ignored += 1;
        }
    }

    /// How many changes are not made because they are over a bound.
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// The message with the changes. Its first `trace_len` octets, which this server put there,
    /// stay; added fields follow them.
    pub fn applied(&self, message: &Bytes, trace_len: usize) -> Bytes {
        let trace_len = trace_len.min(message.len());
        let (trace, received) = message.split_at(trace_len);
        let removed = self.removed(received);
        if self.add.is_empty() && removed.is_empty() {
            return message.clone();
        }
        let mut out = BytesMut::with_capacity(message.len() + self.add.len());
        out.extend_from_slice(trace);
        out.extend_from_slice(&self.add);
        let mut at = 0;
        for span in removed {
            out.extend_from_slice(received.in_bounds(at..span.start as usize));
            at = span.end as usize;
        }
        out.extend_from_slice(received.in_bounds(at..));
        out.freeze()
    }

    /// The fields to remove, in their order.
    fn removed(&self, received: &[u8]) -> Vec<Span> {
        let header = Span::new(0, u32::try_from(received.len()).unwrap_or(u32::MAX));
        let fields: Vec<_> = HeaderFields::new(received, header).collect();
        let mut spans = Vec::new();
        for (name, which) in &self.remove {
            let of_name = fields.iter().filter(|field| field.is(received, name));
            let of_name: Vec<Span> = of_name.map(|field| field.span()).collect();
            match *which {
                Occurrence::All => spans.extend(of_name),
                Occurrence::Nth(nth) => {
                    let place = usize::try_from(nth.unsigned_abs()).unwrap_or(usize::MAX).checked_sub(1);
                    let from_end = |place: usize| of_name.len().checked_sub(place + 1);
                    let place = if nth < 0 { place.and_then(from_end) } else { place };
                    spans.extend(place.and_then(|place| of_name.get(place)));
                }
            }
        }
        spans.sort_unstable_by_key(|span| span.start);
        spans.dedup();
        spans
    }
}

fn may_change(name: &str) -> bool {
    let is_name =
        !name.is_empty() && name.len() <= 100 && name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
    is_name && !OURS.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    const TRACE: &[u8] = b"Return-Path: <a@b>\r\nReceived: from x\r\n";

    fn applied(changes: &FieldChanges, received: &str) -> String {
        let message = Bytes::from([TRACE, received.as_bytes()].concat());
        let out = changes.applied(&message, TRACE.len());
        let rest = out.strip_prefix(TRACE).expect("the trace stays first");
        String::from_utf8(rest.to_vec()).unwrap()
    }

    #[test]
    fn fields_come_behind_the_trace_and_go_wherever_they_are() {
        let mut changes = FieldChanges::default();
        changes.remove("x-spam", Occurrence::All);
        changes.remove("X-Two", Occurrence::Nth(2));
        changes.remove("X-Last", Occurrence::Nth(-1));
        changes.remove("X-None", Occurrence::Nth(7));
        changes.add("X-Score", "3");
        let before = "X-Spam: No\r\n\tat all\r\nSubject: s\r\nX-Two: a\r\nX-Last: a\r\nX-TWO: b\r\nX-SPAM : x\r\n\
                      X-Last: b\r\n\r\nX-Spam: body\r\n";
        let after = "X-Score: 3\r\nSubject: s\r\nX-Two: a\r\nX-Last: a\r\n\r\nX-Spam: body\r\n";
        assert_eq!(applied(&changes, before), after);
    }

    #[test]
    fn no_value_breaks_the_header_and_none_is_in_our_name() {
        let mut changes = FieldChanges::default();
        changes.add("X-A", "one\r\n\ttwo\nthree\r\n\r\nSubject: injected\u{0}\u{7}");
        changes.add("Authentication-Results", "mx.example.org; dkim=pass");
        changes.add("RECEIVED", "x");
        changes.add("No name", "x");
        changes.add("No:name", "x");
        changes.add("", "x");
        changes.add("X-Long", &"x".repeat(2_000));
        changes.remove("Received", Occurrence::All);
        assert_eq!(
            applied(&changes, "Received: y\r\n\r\nbody"),
            "X-A: one\r\n\ttwo\r\n\tthree\r\n\tSubject: injected\r\nReceived: y\r\n\r\nbody"
        );
        let mut many = FieldChanges::default();
        (0..10_000).for_each(|_| many.add("X-A", "0123456789"));
        assert!(applied(&many, "\r\n").len() <= ADDED_MAX + 2);
    }

    /// An answer of four mebibytes could name a million. Each looked through the whole header.
    #[test]
    fn removals_have_a_bound() {
        let mut changes = FieldChanges::default();
        (0..=REMOVED_MAX).for_each(|n| changes.remove(&format!("X-{n}"), Occurrence::All));
        assert_eq!((changes.remove.len(), changes.ignored()), (REMOVED_MAX, 1));
        let before = format!("X-0: a\r\nX-99: a\r\nX-{REMOVED_MAX}: a\r\n\r\n");
        assert_eq!(applied(&changes, &before), format!("X-{REMOVED_MAX}: a\r\n\r\n"));
    }

    properties! {
        /// Whatever is added and removed, the body stays, and each added field is one field.
        #[test]
        fn the_body_stays(name in "[ -~]{0,8}", value in "\\PC{0,40}", nth in -3_i64..3, body in "[ -~\r\n]{0,40}") {
            let mut changes = FieldChanges::default();
            changes.add(&name, &value);
            changes.remove(&name, if nth == 0 { Occurrence::All } else { Occurrence::Nth(nth) });
            let out = applied(&changes, &format!("Subject: s\r\n\r\n{body}"));
            prop_assert!(out.ends_with(&format!("\r\n\r\n{body}")), "{out:?}");
            let (header, _) = out.split_once("\r\n\r\n").unwrap();
            let header = format!("{header}\r\n");
            let span = Span::new(0, header.len() as u32);
            prop_assert!(HeaderFields::new(header.as_bytes(), span).count() <= 2, "{header:?}");
        }
    }
}
