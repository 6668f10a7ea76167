//! The base subject, by which SORT and THREAD group messages. RFC 5256 §2.1.
//!
//! The steps work on the folded subject, and each only cuts at its ends. So the base subject is a
//! range of it, and a summary stores two numbers and no second text.

use crate::in_bounds::InBounds;
use crate::scan::Span;

/// The position of the base subject in the folded subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseSubject {
    /// The range.
    pub span: Span,
    /// Whether something was cut that marks a reply or a forward.
    pub is_reply: bool,
}

/// Finds the base subject in a folded subject (lower case, white space collapsed).
pub fn base_subject(folded: &[u8]) -> BaseSubject {
    let mut cut = SubjectCut { text: folded, start: 0, end: folded.len(), is_reply: false };
    loop {
        // §2.1 (2)
        while cut.trailer() {}
        // §2.1 (3), (4), (5)
        while cut.leader() || cut.blob() {}
        // §2.1 (6)
        if !cut.forward() {
            break;
        }
    }
    BaseSubject { span: Span::new(cut.start as u32, cut.end as u32), is_reply: cut.is_reply }
}

struct SubjectCut<'t> {
    text: &'t [u8],
    start: usize,
    end: usize,
    is_reply: bool,
}

impl SubjectCut<'_> {
    fn rest(&self) -> &[u8] {
        self.text.in_bounds(self.start..self.end)
    }

    /// `subj-trailer = "(fwd)" / WSP`
    fn trailer(&mut self) -> bool {
        if self.rest().ends_with(b"(fwd)") {
            self.end -= 5;
            self.is_reply = true;
        } else if self.rest().ends_with(b" ") {
            self.end -= 1;
        } else {
            return false;
        }
        true
    }

    /// `subj-leader = (*subj-blob subj-refwd) / WSP`
    fn leader(&mut self) -> bool {
        if self.rest().starts_with(b" ") {
            self.start += 1;
            return true;
        }
        let mut at = 0;
        while let Some(len) = blob_len(self.rest().in_bounds(at..)) {
            at += len;
        }
        match refwd_len(self.rest().in_bounds(at..)) {
            Some(len) => {
                self.start += at + len;
                self.is_reply = true;
                true
            }
            None => false,
        }
    }

    /// Every `subj-blob` here, as long as something remains without it. All of them at once: no
    /// reply mark follows them, or `leader` would have cut it, and one by one would be quadratic.
    fn blob(&mut self) -> bool {
        let before = self.start;
        while let Some(len) = blob_len(self.rest()).filter(|len| *len < self.rest().len()) {
            self.start += len;
        }
        self.start > before
    }

    /// `[fwd: … ]`
    fn forward(&mut self) -> bool {
        let is_forward = self.rest().starts_with(b"[fwd:") && self.rest().ends_with(b"]");
        if is_forward {
            self.start += 5;
            self.end -= 1;
            self.is_reply = true;
        }
        is_forward
    }
}

/// `subj-blob = "[" *BLOBCHAR "]" *WSP`
fn blob_len(text: &[u8]) -> Option<usize> {
    let inside = text.strip_prefix(b"[")?;
    let len = inside.iter().position(|b| matches!(b, b'[' | b']'))?;
    if inside.get(len) != Some(&b']') {
        return None;
    }
    let after = inside.in_bounds(len + 1..);
    Some(len + 2 + after.iter().take_while(|&&b| b == b' ').count())
}

/// `subj-refwd = ("re" / ("fw" ["d"])) *WSP [subj-blob] ":"`
fn refwd_len(text: &[u8]) -> Option<usize> {
    let word = [&b"re"[..], b"fwd", b"fw"].into_iter().find(|word| text.starts_with(word))?.len();
    let after = text.get(word..)?;
    let mut at = after.iter().take_while(|&&b| b == b' ').count();
    at += blob_len(after.get(at..)?).unwrap_or(0);
    (after.get(at) == Some(&b':')).then_some(word + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::folded;

    #[test]
    fn known_answers() {
        for (subject, base, is_reply) in [
            ("Hello", "hello", false),
            ("Re: Hello", "hello", true),
            ("RE:hello (fwd)", "hello", true),
            ("re: Fwd: [list] re[2]: Hello ", "hello", true),
            ("[list] Hello", "hello", false),
            ("[list] Re: Hello", "hello", true),
            ("[only]", "[only]", false),
            ("[fwd: Re: Hello]", "hello", true),
            ("Re:", "", true),
            ("Regarding: x", "regarding: x", false),
            ("[a] [b] c", "c", false),
            ("Re: [a]", "[a]", true),
            ("", "", false),
        ] {
            let text = folded(subject);
            let found = base_subject(&text);
            assert_eq!(found.span.of(&text), base.as_bytes(), "{subject}");
            assert_eq!(found.is_reply, is_reply, "{subject}");
        }
    }
}
