//! The Content-* fields of a part.

use crate::header::Field;
use crate::scan::Span;

/// The most bytes of a Content-* value that are read. The file names of RFC 2231 stay under a
/// thousand, and BODYSTRUCTURE repeats the value.
const CONTENT_VALUE_MAX: u32 = 16 * 1024;

/// The raw values of the Content-* fields of a part, by range; the first of each name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContentFields {
    /// Content-Type.
    pub media: Option<Span>,
    /// Content-Transfer-Encoding.
    pub encoding: Option<Span>,
    /// Content-Disposition.
    pub disposition: Option<Span>,
    /// Content-Language.
    pub language: Option<Span>,
    /// Content-Location.
    pub location: Option<Span>,
    /// Content-ID.
    pub id: Option<Span>,
    /// Content-Description.
    pub description: Option<Span>,
    /// Content-MD5.
    pub md5: Option<Span>,
}

impl ContentFields {
    pub(crate) fn note(&mut self, message: &[u8], field: &Field) {
        let Some((prefix, name)) = field.name(message).split_at_checked(8) else { return };
        if !prefix.eq_ignore_ascii_case(b"content-") {
            return;
        }
        let slot = match name.len() {
            4 if name.eq_ignore_ascii_case(b"type") => &mut self.media,
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => &mut self.encoding,
            11 if name.eq_ignore_ascii_case(b"disposition") => &mut self.disposition,
            8 if name.eq_ignore_ascii_case(b"language") => &mut self.language,
            8 if name.eq_ignore_ascii_case(b"location") => &mut self.location,
            2 if name.eq_ignore_ascii_case(b"id") => &mut self.id,
            11 if name.eq_ignore_ascii_case(b"description") => &mut self.description,
            3 if name.eq_ignore_ascii_case(b"md5") => &mut self.md5,
            _ => return,
        };
        let value = field.value_span();
        slot.get_or_insert(Span::new(
            value.start,
            value.end.min(value.start.saturating_add(CONTENT_VALUE_MAX)),
        ));
    }
}
