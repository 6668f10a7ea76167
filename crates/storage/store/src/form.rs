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
//! What always holds: a row's size and a summary are those of the message that clients see. A
//! message that begins with [`MAGIC`] by itself is stored with a header ([`Form::Plain`]), so that
//! no stranger can write one. Engines store and return the bytes with the header.

use bytes::{BufMut, Bytes, BytesMut};

/// How a body with a header begins: random bytes. NUL and the bytes above 127 are in no header of a
/// message (RFC 5322 §2.2), so mail does not begin so.
pub const MAGIC: [u8; 16] =
    [0x00, 0xf0, 0x9b, 0xd1, 0x4e, 0xa7, 0xc2, 0x38, 0x8f, 0x05, 0xe9, 0x71, 0xb6, 0x1c, 0xda, 0x93];

/// What follows the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The message as clients see it.
    Plain,
    /// The message as it was sent, with rich parts (TNEF) that are converted for clients.
    Rich,
    /// TNEF that was made of a message that came as MIME, and gives it back byte for byte.
    Enriched,
    /// The message as clients see it, and behind it the rich message as it was sent.
    WithOriginal,
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
            Self::Unknown(number) => number,
        }
    }

    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Plain,
            1 => Self::Rich,
            2 => Self::Enriched,
            3 => Self::WithOriginal,
            other => Self::Unknown(other),
        }
    }
}

/// The header of a body in another form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormHeader {
    /// What follows.
    pub form: Form,
    /// Octets that clients see.
    pub served_len: u32,
    /// The first bytes of the SHA-256 of the message that clients see.
    pub digest: [u8; 8],
}

impl FormHeader {
    /// Its bytes.
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

    /// A stored body: this header, and the content behind it.
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

/// Octets that clients see of a stored body: RFC822.SIZE.
pub fn served_len(stored: &[u8]) -> usize {
    FormHeader::of(stored).map_or(stored.len(), |header| header.served_len as usize)
}

/// Whether two stored bodies of one id are the same, or are two forms that clients see alike. Two
/// forms are compared by their headers only.
pub fn show_the_same(one: &[u8], other: &[u8]) -> bool {
    match (FormHeader::of(one), FormHeader::of(other)) {
        (Some(a), Some(b)) if a.form != b.form => (a.served_len, a.digest) == (b.served_len, b.digest),
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
        for form in [Form::Plain, Form::Rich, Form::Enriched, Form::WithOriginal, Form::Unknown(200)] {
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
        ] {
            assert_eq!((show_the_same(&rich, &other), show_the_same(&other, &rich)), (same, same));
        }
        assert!(show_the_same(&plain, &plain) && !show_the_same(&plain, b"liam"));
    }

    #[test]
    fn mail_has_no_header() {
        for mail in [&b"Subject: x\r\n\r\n"[..], b"", &MAGIC, &MAGIC[..15]] {
            assert_eq!(FormHeader::of(mail), None);
            assert_eq!(served_len(mail), mail.len());
        }
    }
}
