//! The folded texts of a message, for those who collect its words.

use crate::envelope_text::{EnvelopeText, search_part};
use crate::fold::fold_into;
use crate::summary::SummaryRef;
use crate::words::decode_words;

/// Takes the folded texts of a message in which keys are looked for.
pub type Tap<'t> = &'t mut dyn FnMut(Tapped<'_>);

/// A piece of a text.
#[derive(Debug, Clone, Copy)]
pub struct Tapped<'t> {
    /// Folded. Pieces end between characters.
    pub text: &'t [u8],
    /// Whether its text ends with it.
    pub is_last: bool,
    /// Whether it is of a text that was given before: HTML as a reader sees it. If no key is looked
    /// for, it is the words of it that were not given before.
    pub is_repeated: bool,
}

impl<'t> Tapped<'t> {
    pub(crate) const fn whole(text: &'t [u8]) -> Self {
        Self { text, is_last: true, is_repeated: false }
    }
}

/// Gives the subject and the addresses of a summary: the texts of FROM, TO, CC, BCC and SUBJECT.
pub fn tap_envelope(summary: &SummaryRef<'_>, tap: &mut dyn FnMut(&[u8])) {
    use EnvelopeText::{Bcc, Cc, From, Subject, To};
    for text in [From, To, Cc, Bcc, Subject] {
        tap(text.folded(summary));
        if let Some(again) = text.folded_again(summary) {
            tap(&again);
        }
    }
}

/// The value of a field, decoded and folded; the beginning of a very long one.
pub(crate) fn field_text(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    fold_into(&decode_words(search_part(raw)), &mut text);
    text
}
