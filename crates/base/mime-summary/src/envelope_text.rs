//! The texts of SUBJECT, FROM, TO, CC and BCC, and those that SORT compares, exactly.
//!
//! A summary has them folded, which loses the number of blanks and some differences of letters. It
//! says whether it lost any ([`SummaryRef::has_exact_texts`]). If it did, the text is made again
//! from the kept fields.

use std::borrow::Cow;

use crate::address::{ADDRESSES_MAX, Address, addresses_up_to, write_addresses};
use crate::casemap::casemap_into;
use crate::exact::{exact, exact_of_folded};
use crate::fold::fold_into;
use crate::in_bounds::InBounds;
use crate::known::FieldMask;
use crate::record::{LOCAL_PART_MAX, SEARCH_TEXT_MAX};
use crate::subject::base_subject;
use crate::summary::SummaryRef;
use crate::words::decode_words;

/// A text of the envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeText {
    /// The subject.
    Subject,
    /// The addresses of From.
    From,
    /// The addresses of To.
    To,
    /// The addresses of Cc.
    Cc,
    /// The addresses of Bcc.
    Bcc,
}

impl EnvelopeText {
    const fn name(self) -> &'static str {
        match self {
            Self::Subject => "Subject",
            Self::From => "From",
            Self::To => "To",
            Self::Cc => "Cc",
            Self::Bcc => "Bcc",
        }
    }

    /// The text, decoded and folded, as the summary has it.
    #[inline]
    pub fn folded<'s>(self, summary: &SummaryRef<'s>) -> &'s [u8] {
        match self {
            Self::Subject => summary.subject_folded(),
            Self::From => summary.from_folded(),
            Self::To => summary.to_folded(),
            Self::Cc => summary.cc_folded(),
            Self::Bcc => summary.bcc_folded(),
        }
    }

    /// The text as SEARCH compares it exactly. `None`: a field is too long for the summary, and its
    /// folded form lost something.
    pub(crate) fn exact(self, summary: &SummaryRef<'_>) -> Option<Vec<u8>> {
        match summary.has_exact_texts() {
            true => Some(exact_of_folded(self.folded(summary))),
            false => self.decoded(summary).map(|text| exact(&text)),
        }
    }

    /// The text folded again, if that makes another one: earlier programs stored the marks of a
    /// character in another order.
    pub(crate) fn folded_again(self, summary: &SummaryRef<'_>) -> Option<Vec<u8>> {
        let stored = self.folded(summary);
        if summary.has_exact_texts() || stored.is_ascii() {
            return None;
        }
        let mut again = Vec::with_capacity(stored.len());
        fold_into(&self.decoded(summary)?, &mut again);
        (again != stored).then_some(again)
    }

    /// The text from the kept fields, decoded; `None` if one of them was not kept.
    fn decoded(self, summary: &SummaryRef<'_>) -> Option<String> {
        let mask = FieldMask::only([self.name()]);
        if summary.needs_body(&mask) {
            return None;
        }
        let values = summary.field_values(&mask).map(search_part);
        match self {
            // If there are several, the last counts, as in the envelope.
            Self::Subject => {
                Some(values.last().map(|raw| decode_words(raw).into_owned()).unwrap_or_default())
            }
            _ => {
                let mut all = String::new();
                for raw in values {
                    if !all.is_empty() {
                        all.push_str(", ");
                    }
                    all.push_str(&people(&addresses_up_to(ADDRESSES_MAX, raw)));
                }
                Some(all)
            }
        }
    }
}

/// The part of a field that is searched.
pub(crate) fn search_part(raw: &[u8]) -> &[u8] {
    raw.get(..SEARCH_TEXT_MAX).unwrap_or(raw)
}

/// RFC 9051 §6.4.4: FROM, TO, CC and BCC look for their string in the envelope's addresses.
fn people(addresses: &[Address<'_>]) -> String {
    let mut text = Vec::new();
    write_addresses(addresses, &mut text);
    decode_words(&text).into_owned()
}

/// Appends the key of SORT SUBJECT: the base subject (RFC 5256 §2.1), by i;unicode-casemap.
pub fn order_subject_into(summary: &SummaryRef<'_>, into: &mut Vec<u8>) {
    let decoded = if summary.has_exact_texts() { None } else { EnvelopeText::Subject.decoded(summary) };
    match decoded {
        None => casemap_into(&String::from_utf8_lossy(summary.base_subject()), into),
        Some(text) => {
            let text = collapsed(&text);
            let span = base_subject(text.as_bytes()).span;
            casemap_into(&String::from_utf8_lossy(span.of(text.as_bytes())), into);
        }
    }
}

/// Appends the key of SORT FROM, TO and CC: the mailbox of the first address (RFC 5256 §3).
pub fn order_mailbox_into(of: EnvelopeText, summary: &SummaryRef<'_>, into: &mut Vec<u8>) {
    let folded = match of {
        EnvelopeText::To => summary.sort_to(),
        EnvelopeText::Cc => summary.sort_cc(),
        _ => summary.sort_from(),
    };
    if !folded.is_ascii() || !summary.has_exact_texts() {
        let mask = FieldMask::only([of.name()]);
        if let Some(raw) = summary.field_values(&mask).next().filter(|_| !summary.needs_body(&mask)) {
            let addresses = addresses_up_to(1, raw);
            let mailbox = addresses.first().and_then(|address| address.mailbox.as_deref());
            return casemap_into(&bounded(mailbox.unwrap_or_default()), into);
        }
    }
    casemap_into(&String::from_utf8_lossy(folded), into);
}

/// The local part; the beginning of a very long one.
fn bounded(mailbox: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(mailbox.in_bounds(..mailbox.len().min(LOCAL_PART_MAX)))
}

/// RFC 5256 §2.1 (1): each run of white space one space. The letters of ASCII are small, as
/// [`base_subject`] needs them; all others stay as they are.
fn collapsed(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut in_space = true;
    for c in text.chars() {
        let is_space = c.is_ascii_whitespace();
        if !is_space {
            made.push(c.to_ascii_lowercase());
        } else if !in_space {
            made.push(' ');
        }
        in_space = is_space;
    }
    made
}
