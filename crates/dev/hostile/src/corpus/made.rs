//! How messages of the corpus are made.

/// A message by the name of its trick.
pub(super) type Named = (&'static str, Vec<u8>);

/// A message with this field or these fields, whose lines end with CR LF except the last one.
pub(super) fn with(fields: impl AsRef<[u8]>) -> Vec<u8> {
    [b"From: a@example.net\r\n".as_slice(), fields.as_ref(), b"\r\n\r\nbody\r\n"].concat()
}

/// A message of this media type with this body.
pub(super) fn of_type(media: impl AsRef<[u8]>, body: impl AsRef<[u8]>) -> Vec<u8> {
    let head: &[u8] = b"From: a@example.net\r\nMIME-Version: 1.0\r\nContent-Type: ";
    [head, media.as_ref(), b"\r\n\r\n", body.as_ref()].concat()
}
