//! SEARCH keys and the texts in which they are looked for.
//!
//! A key is folded once; a stored text is folded already, so that SEARCH SUBJECT is one substring search over some
//! fifty bytes. BODY and TEXT decode the text parts of the message piece by piece, in bounded memory.

use memchr::memmem::Finder;

use crate::charset::CharsetReader;
use crate::fold::{Folder, fold_into, folded};
use crate::header::HeaderFields;
use crate::media::{Media, media_of};
use crate::scan::Span;
use crate::summary::SummaryRef;
use crate::table::PartRow;
use crate::transfer::TransferDecoder;
use crate::words::decode_words;

/// How much of a body is decoded at a time: large enough for the substring search to run at memory speed, small
/// enough to stay in the processor's second cache together with what it becomes.
const PIECE_LEN: usize = 32 * 1024;

/// A string to be searched for.
#[derive(Debug, Clone)]
pub struct SearchKey {
    finder: Finder<'static>,
}

impl SearchKey {
    /// The key for this string; the empty string is in every text.
    pub fn new(text: &str) -> Self {
        SearchKey { finder: Finder::new(&folded(text)).into_owned() }
    }

    /// Whether it is in a text that is folded, as the texts of a summary are.
    #[inline]
    pub fn is_in(&self, folded: &[u8]) -> bool {
        self.finder.find(folded).is_some()
    }

    /// Whether it is in a field's raw value, for SEARCH HEADER. RFC 9051 §6.4.4.
    pub fn is_in_field(&self, raw: &[u8]) -> bool {
        let mut text = Vec::with_capacity(raw.len());
        fold_into(&decode_words(raw), &mut text);
        self.is_in(&text)
    }

    /// Whether it is in the body: the text parts, and the headers of nested messages. RFC 9051 §6.4.4: BODY.
    pub fn is_in_body(&self, message: &[u8], summary: &SummaryRef<'_>) -> bool {
        self.is_in_parts(message, summary, false)
    }

    /// Whether it is in the header, in the header of a part or in the body. RFC 9051 §6.4.4: TEXT.
    pub fn is_in_text(&self, message: &[u8], summary: &SummaryRef<'_>) -> bool {
        self.is_in_parts(message, summary, true)
    }

    fn is_in_parts(&self, message: &[u8], summary: &SummaryRef<'_>, with_headers: bool) -> bool {
        if self.finder.needle().is_empty() {
            return true;
        }
        let nested_roots: Vec<u32> = summary
            .parts()
            .filter(|row| row.kind == crate::structure::Kind::Message)
            .map(|row| row.first_child)
            .collect();
        (0_u32..).zip(summary.parts()).any(|(index, row)| {
            // Breadth first: the children of later rows are later rows.
            let has_header = with_headers || nested_roots.binary_search(&index).is_ok();
            (has_header && self.is_in_header(message, row.header)) || self.is_in_part(message, &row)
        })
    }

    fn is_in_header(&self, message: &[u8], header: Span) -> bool {
        let mut text = Vec::new();
        HeaderFields::new(message, header).any(|field| {
            text.clear();
            fold_into(&String::from_utf8_lossy(field.name(message)), &mut text);
            text.extend_from_slice(b": ");
            fold_into(&decode_words(field.raw_value(message)), &mut text);
            self.is_in(&text)
        })
    }

    fn is_in_part(&self, message: &[u8], row: &PartRow) -> bool {
        if row.text.is_none() {
            return false;
        }
        // What cannot be decoded is not text.
        let Ok(mut transfer) = TransferDecoder::new(row.encoding) else { return false };
        let media = media_in(message, row.header);
        let mut pieces = row.body.of(message).chunks(PIECE_LEN);
        let mut bytes = Vec::with_capacity(PIECE_LEN.min(row.body.len() as usize));
        transfer.decode(pieces.next().unwrap_or_default(), &mut bytes);
        let mut reader = CharsetReader::new(media.charset(), &bytes);
        let mut window = Window::default();
        loop {
            reader.read(&bytes, &mut window.text);
            if window.has(self, false) {
                return true;
            }
            bytes.clear();
            let Some(piece) = pieces.next() else { break };
            transfer.decode(piece, &mut bytes);
        }
        transfer.finish(&mut bytes);
        reader.read(&bytes, &mut window.text);
        reader.finish(&mut window.text);
        window.has(self, true)
    }
}

/// The part of a body that is being looked at.
#[derive(Default)]
struct Window {
    /// Decoded, not folded yet.
    text: String,
    /// Folded; begins with the end of what was searched before.
    folded: Vec<u8>,
    folder: Folder,
}

impl Window {
    /// Folds the decoded text and searches it; keeps as much as a match may begin in.
    fn has(&mut self, key: &SearchKey, is_last: bool) -> bool {
        // Marks belong to the character before them: stop after an ASCII one, which begins something new.
        let whole = if is_last {
            self.text.len()
        } else {
            self.text.bytes().rposition(|b| b.is_ascii()).unwrap_or(0)
        };
        // Text without any ASCII is taken as it comes, rather than kept without limit.
        let whole = if self.text.len() - whole > PIECE_LEN { self.text.len() } else { whole };
        let (ready, rest) = self.text.split_at_checked(whole).unwrap_or((&self.text, ""));
        self.folder.fold(ready, &mut self.folded);
        let rest = rest.to_owned();
        self.text = rest;
        if key.is_in(&self.folded) {
            return true;
        }
        let kept = self.folded.len().saturating_sub(key.finder.needle().len() - 1);
        self.folded.drain(..kept);
        false
    }
}

/// The media type that a part's header declares.
fn media_in(message: &[u8], header: Span) -> Media<'_> {
    HeaderFields::new(message, header)
        .find(|field| field.is(message, "Content-Type"))
        .and_then(|field| media_of(field.raw_value(message)))
        .unwrap_or(Media::TEXT_PLAIN)
}
