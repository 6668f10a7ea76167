//! Text of any charset as UTF-8: whole, or piece by piece.
//!
//! Tables are those of `encoding_rs`; the few charsets that mail has beyond them (UTF-7, IBM850
//! …) are `mail-parser`'s. Nothing is refused: text without a charset, or said to be us-ascii, is
//! taken for UTF-8 if it is that and for windows-1252 if not; an unknown charset is read as UTF-8
//! with replacement characters.

use std::borrow::Cow;

use encoding_rs::{CoderResult, Decoder, Encoding as Charset, UTF_8, WINDOWS_1252};
use mail_parser::decoders::charsets::map::charset_decoder;

/// Longest text in a charset that can only be decoded whole (UTF-7 …); the rest is not read.
const WHOLE_MAX: usize = 1024 * 1024;

/// What a charset's label stands for.
enum Named {
    /// None given, or us-ascii, whose bytes are often something else.
    Unsaid,
    Known(&'static Charset),
    /// One of `mail-parser`'s own.
    Other(fn(&[u8]) -> String),
}

fn named(label: &[u8]) -> Named {
    let label = label.trim_ascii();
    if label.is_empty() || label.eq_ignore_ascii_case(b"us-ascii") || label.eq_ignore_ascii_case(b"ascii") {
        return Named::Unsaid;
    }
    match Charset::for_label_no_replacement(label) {
        Some(charset) => Named::Known(charset),
        // The table is meant for labels in printable ASCII of a sane length.
        None if label.len() <= 40 && label.is_ascii() => {
            charset_decoder(label).map_or(Named::Known(UTF_8), Named::Other)
        }
        None => Named::Known(UTF_8),
    }
}

/// `bytes` in the charset with this label as text; borrowed if they are UTF-8 already.
pub(crate) fn decode_bytes<'b>(label: &[u8], bytes: &'b [u8]) -> Cow<'b, str> {
    match named(label) {
        Named::Unsaid => match std::str::from_utf8(bytes) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => WINDOWS_1252.decode_without_bom_handling(bytes).0,
        },
        Named::Known(charset) => charset.decode_without_bom_handling(bytes).0,
        Named::Other(decode) => Cow::Owned(decode(bytes.get(..WHOLE_MAX).unwrap_or(bytes))),
    }
}

/// Turns the content of one text part into UTF-8, piece by piece.
pub struct CharsetReader {
    state: State,
}

enum State {
    Streaming(Box<Decoder>),
    Whole(fn(&[u8]) -> String, Vec<u8>),
}

impl CharsetReader {
    /// For the charset with this label; `sample` is the first piece of the bytes, which decides if
    /// the label says nothing.
    pub fn new(label: &[u8], sample: &[u8]) -> Self {
        let charset = match named(label) {
            Named::Other(decode) => return CharsetReader { state: State::Whole(decode, Vec::new()) },
            Named::Known(charset) => charset,
            Named::Unsaid => match std::str::from_utf8(sample) {
                // A character cut by the end of the sample is no error.
                Err(error) if error.error_len().is_some() => WINDOWS_1252,
                _ => UTF_8,
            },
        };
        CharsetReader { state: State::Streaming(Box::new(charset.new_decoder_without_bom_handling())) }
    }

    /// Appends the text of the next bytes to `into`.
    pub fn read(&mut self, bytes: &[u8], into: &mut String) {
        match &mut self.state {
            State::Streaming(decoder) => stream(decoder, bytes, into, false),
            State::Whole(_, kept) => {
                let room = WHOLE_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
            }
        }
    }

    /// Appends what is left after the last bytes.
    pub fn finish(self, into: &mut String) {
        match self.state {
            State::Streaming(mut decoder) => stream(&mut decoder, b"", into, true),
            State::Whole(decode, kept) => into.push_str(&decode(&kept)),
        }
    }
}

fn stream(decoder: &mut Decoder, mut bytes: &[u8], into: &mut String, is_last: bool) {
    loop {
        let room = decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(bytes.len());
        into.reserve(room.clamp(16, 256 * 1024));
        let (result, read, _) = decoder.decode_to_string(bytes, into, is_last);
        bytes = bytes.get(read..).unwrap_or_default();
        if result == CoderResult::InputEmpty {
            return;
        }
    }
}
