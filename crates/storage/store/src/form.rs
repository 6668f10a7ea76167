//! The header of a body that is stored in another form than clients see.
//!
//! Nearly every body is stored as clients see it, without this header. Another begins with 32
//! bytes:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0–15 | [`MAGIC`] |
//! | 16 | the form: [`Form`] |
//! | 17–19 | zero |
//! | 20–23 | octets that clients see (RFC822.SIZE), little-endian |
//! | 24–31 | the first bytes of the SHA-256 of what clients see |
//!
//! A body of the form [`Form::Unconverted`] was not converted when its header was written. Its
//! bytes 20–23 are the octets that were sent. Its bytes 24–31 say how it is converted. In a
//! body of the form [`Form::Compressed`], bytes 24–31 say how it is compressed
//! ([`crate::compressed`]).
//!
//! Invariants: a row's size and a summary are those of the message that clients see. Where
//! delivery did not convert a rich message, the row says so ([`crate::Row::lacks_items`]), and
//! the summary is empty until it is made. A message that begins with [`MAGIC`] by itself is
//! stored with a header ([`Form::Plain`]), so that no sender can forge one. So is a converted
//! message whose attachments look like rich mail, so that it is not converted again. Engines
//! store and return the bytes with the header.

use bytes::{BufMut, Bytes, BytesMut};

use crate::row::Row;

/// The beginning of a body with a header: random bytes. NUL and the bytes above 127 are in no
/// header of a message (RFC 5322 §2.2), so mail does not begin so.
pub const MAGIC: [u8; 16] =
    [0x00, 0xf0, 0x9b, 0xd1, 0x4e, 0xa7, 0xc2, 0x38, 0x8f, 0x05, 0xe9, 0x71, 0xb6, 0x1c, 0xda, 0x93];

/// The content after the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The message as clients see it.
    Plain,
    /// The message as it was sent, with rich parts (TNEF) that are converted for clients.
    Rich,
    /// TNEF that was made from a MIME message, and from which the message is restored byte for
    /// byte.
    Enriched,
    /// The message as clients see it, and after it the rich message as it was sent.
    WithOriginal,
    /// A message as it was sent, that may be rich and was not converted at delivery.
    Unconverted,
    /// The message as clients see it, compressed: [`crate::compressed`].
    Compressed,
    /// A form that this program does not know.
    Unknown(u8),
}

impl Form {
    const fn number(self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Rich => 1,
            Self::Enriched => 2,
            Self::WithOriginal => 3,
            Self::Unconverted => 4,
            Self::Compressed => 5,
            Self::Unknown(number) => number,
        }
    }

    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Plain,
            1 => Self::Rich,
            2 => Self::Enriched,
            3 => Self::WithOriginal,
            4 => Self::Unconverted,
            5 => Self::Compressed,
            other => Self::Unknown(other),
        }
    }
}

/// The header of a body in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormHeader {
    /// The form of the content after the header.
    pub form: Form,
    /// Octets that clients see; of [`Form::Unconverted`], those that were sent.
    pub served_len: u32,
    /// The first bytes of the SHA-256 of the message that clients see; of [`Form::Unconverted`],
    /// how it is converted; of [`Form::Compressed`], how it is compressed.
    pub digest: [u8; 8],
}

impl FormHeader {
    /// The header's bytes.
    pub const LEN: usize = 32;

    /// The header at the beginning of a stored body; `None` if the body is stored as clients see
    /// it.
    pub fn of(stored: &[u8]) -> Option<Self> {
        let header = stored.first_chunk::<{ Self::LEN }>()?;
        if !header.starts_with(&MAGIC) {
            return None;
        }
        let [len @ .., _, _, _, _, _, _, _, _] = header.last_chunk::<12>()?;
        Some(Self {
            form: Form::of(header[16]),
            served_len: u32::from_le_bytes(*len),
            digest: *header.last_chunk()?,
        })
    }

    /// A stored body: this header, and the content after it.
    pub fn before(&self, content: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(Self::LEN + content.len());
        out.put_slice(&MAGIC);
        out.put_slice(&[self.form.number(), 0, 0, 0]);
        out.put_u32_le(self.served_len);
        out.put_slice(&self.digest);
        out.put_slice(content);
        out.freeze()
    }

    /// The content of a stored body that has a header.
    pub fn content(stored: &Bytes) -> Bytes {
        stored.slice(Self::LEN.min(stored.len())..)
    }
}

/// Octets that clients see of a stored body: RFC822.SIZE. For [`Form::Unconverted`], the octets
/// that were sent.
pub fn served_len(stored: &[u8]) -> usize {
    FormHeader::of(stored).map_or(stored.len(), |header| header.served_len as usize)
}

/// Whether a stored body was not converted at delivery, so that its summary is made later.
pub fn lacks_items(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_some_and(|header| header.form == Form::Unconverted)
}

/// Whether a stored body lost its rich original, and these bytes of the same message have it. One
/// account gave the original up, and another one receives the message later. `stored` is the whole
/// body, or its first [`FormHeader::LEN`] bytes.
pub fn restores(stored: &[u8], bytes: &[u8]) -> bool {
    let has_original = |stored: &[u8]| {
        let form = FormHeader::of(stored).map(|header| header.form);
        matches!(form, Some(Form::Rich | Form::WithOriginal | Form::Unconverted))
    };
    has_original(bytes) && !has_original(stored)
}

/// Whether this is the body of a row, by the octets that both name. `begin` is the whole body, or
/// its first [`FormHeader::LEN`] bytes; `len` are all its bytes. The row of a message without items
/// cannot say how long another form of it is.
pub fn is_body_of(begin: &[u8], len: u64, row: &Row) -> bool {
    let header = FormHeader::of(begin);
    if row.lacks_items() && header.is_none_or(|header| header.form != Form::Unconverted) {
        return true;
    }
    header.map_or(len, |header| u64::from(header.served_len)) == u64::from(row.size())
}

/// Whether two stored bodies of one id are the same, or are two forms that clients see in the
/// same way. Two forms are compared by their headers only. The header of [`Form::Unconverted`]
/// does not describe what clients see. The header of [`Form::Compressed`] has no hash, so the
/// lengths are compared.
pub fn show_the_same(one: &[u8], other: &[u8]) -> bool {
    let (form, other_form) = (FormHeader::of(one).map(|h| h.form), FormHeader::of(other).map(|h| h.form));
    if form != other_form && (form == Some(Form::Unconverted) || other_form == Some(Form::Unconverted)) {
        return true;
    }
    match (FormHeader::of(one), FormHeader::of(other)) {
        (Some(a), Some(b)) if a.form != b.form => {
            let has_hashes = a.form != Form::Compressed && b.form != Form::Compressed;
            a.served_len == b.served_len && (!has_hashes || a.digest == b.digest)
        }
        (Some(header), None) => header.served_len as usize == other.len(),
        (None, Some(header)) => header.served_len as usize == one.len(),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_its_bytes() {
        use Form::{Compressed, Enriched, Plain, Rich, Unconverted, Unknown, WithOriginal};
        for form in [Plain, Rich, Enriched, WithOriginal, Unconverted, Compressed, Unknown(200)] {
            let header = FormHeader { form, served_len: 0x0102_0304, digest: [1, 2, 3, 4, 5, 6, 7, 8] };
            let stored = header.before(b"content");
            assert_eq!(stored.len(), FormHeader::LEN + 7);
            assert_eq!(FormHeader::of(&stored), Some(header));
            assert_eq!(FormHeader::content(&stored), "content");
            assert_eq!(served_len(&stored), 0x0102_0304);
        }
    }

    #[test]
    fn two_forms_may_show_the_same() {
        let header = |form, served_len, first| FormHeader { form, served_len, digest: [first; 8] };
        let (rich, plain) = (header(Form::Rich, 4, 1).before(b"rich"), Bytes::from_static(b"mail"));
        for (other, same) in [
            (rich.clone(), true),
            (plain.clone(), true),
            (header(Form::WithOriginal, 4, 1).before(b"mailrich"), true),
            (header(Form::Rich, 4, 1).before(b"poor"), false),
            (header(Form::WithOriginal, 4, 2).before(b"mailrich"), false),
            (Bytes::from_static(b"other"), false),
            (header(Form::Compressed, 4, 2).before(b"c"), true),
            (header(Form::Compressed, 5, 1).before(b"c"), false),
        ] {
            assert_eq!((show_the_same(&rich, &other), show_the_same(&other, &rich)), (same, same));
        }
        assert!(show_the_same(&plain, &plain) && !show_the_same(&plain, b"liam"));
    }

    #[test]
    fn a_row_without_items_knows_what_was_sent() {
        use posthaste_mail_model::{FlagSet, ModSeq, Uid};
        let row = |size| Row::new(Uid::MIN, size, 1, FlagSet::EMPTY, ModSeq::ZERO);
        let bare = row(Row::WITHOUT_ITEMS + 4);
        let stored = |form, served_len| FormHeader { form, served_len, digest: [1; 8] }.before(b"sent");
        let is_of = |stored: &[u8], row: &Row| is_body_of(stored, stored.len() as u64, row);
        assert!(is_of(&stored(Form::Unconverted, 4), &bare) && !is_of(&stored(Form::Unconverted, 5), &bare));
        assert!(is_of(&stored(Form::Rich, 900), &bare) && is_of(b"another form of it", &bare));
        assert!(is_of(&stored(Form::Rich, 900), &row(900)) && !is_of(&stored(Form::Rich, 900), &row(901)));
        assert!(is_of(b"sent", &row(4)) && !is_of(b"sent", &row(5)));
        assert!(lacks_items(&stored(Form::Unconverted, 4)) && !lacks_items(&stored(Form::Rich, 4)));
        assert!(show_the_same(&stored(Form::Unconverted, 4), b"what clients see"));
        assert!(!show_the_same(&stored(Form::Unconverted, 4), &stored(Form::Unconverted, 5)));
    }

    #[test]
    fn mail_has_no_header() {
        for mail in [&b"Subject: x\r\n\r\n"[..], b"", &MAGIC, &MAGIC[..15]] {
            assert_eq!(FormHeader::of(mail), None);
            assert_eq!(served_len(mail), mail.len());
        }
    }
}
