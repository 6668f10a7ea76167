//! RTF without the data that nothing reads.
//!
//! Pictures and objects are hexadecimal digits in RTF, often twice: as the picture that was put in,
//! and as a metafile for programs that know no other. They are far longer than the text. So they
//! are removed while the RTF is decompressed, and its length is that of the text. Of a picture that
//! mail can show, the bytes stay, as binary data of the RTF (`\bin`). All else stays as it is.
//!
//! ```text
//! {\pict\pngblip 89504e47…}    ─►  {\pict\pngblip \bin4096 …}
//! {\pict\wmetafile8 0100…}     ─►  {\pict\wmetafile8 }
//! {\*\objdata 0105…}           ─►  {\*\objdata }
//! ```

use std::io::Write;

use crate::error::Damage;

/// Bytes of RTF before it is slim. A screen as a metafile has 16 MiB, and few letters have over
/// five. Each byte costs some nanoseconds, so that this is half a second.
const RAW_MAX: usize = 128 << 20;
/// The longest word that means something here is shorter.
const WORD_MAX: usize = 16;
const DATA: &str = "binary data of its RTF";

/// The most bytes that it may have.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most bytes of everything but pictures.
    pub text: usize,
    /// The most bytes of pictures together. Those beyond it are left out.
    pub pictures: usize,
}

/// RTF that [`super::read()`] reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Slim {
    /// The RTF.
    pub rtf: Vec<u8>,
    /// The number of its bytes that are pictures.
    pub picture_len: usize,
}

/// Takes RTF byte by byte. It reads tokens as [`super::token::Tokens`] does.
pub(super) struct Slimmer {
    out: Vec<u8>,
    /// Bytes of pictures in `out`.
    picture_len: usize,
    limits: Limits,
    /// Bytes of RTF so far.
    raw_len: usize,
    state: State,
    depth: usize,
    word: Vec<u8>,
    number: Vec<u8>,
    /// The position of the word's backslash in `out`.
    word_at: usize,
    /// The group whose text is data.
    data: Option<Data>,
    /// The bytes of a picture.
    picture: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Text,
    /// After a backslash.
    Escape,
    /// So many digits of `\'hh` are to come.
    Digits(u8),
    Word,
    Number,
    /// So many bytes of `\bin` are to come. It began at this byte of the RTF.
    Binary {
        left: usize,
        at: usize,
    },
}

#[derive(Debug, Clone, Copy)]
struct Data {
    depth: usize,
    kind: Kind,
    /// The first one of two digits.
    high: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A picture of a kind that is not known yet, or is not shown.
    Picture,
    /// A picture that mail can show.
    Shown,
    /// One that is too large.
    Excess,
    Object,
}

impl Slimmer {
    pub fn new(limits: Limits) -> Self {
        Self {
            out: Vec::new(),
            picture_len: 0,
            limits,
            raw_len: 0,
            state: State::Text,
            depth: 0,
            word: Vec::new(),
            number: Vec::new(),
            word_at: 0,
            data: None,
            picture: Vec::new(),
        }
    }

    pub fn put(&mut self, byte: u8) -> Result<(), Damage> {
        self.raw_len += 1;
        if self.raw_len > RAW_MAX {
            return Err(Damage::Expands { limit: RAW_MAX });
        }
        self.token(byte);
        let limit = self.limits.text;
        if self.out.len() - self.picture_len > limit { Err(Damage::Expands { limit }) } else { Ok(()) }
    }

    /// The result for all of the data. Data that ends too early is damage; [`super::read()`]
    /// finds that outside of pictures.
    pub fn finish(self) -> Result<Slim, Damage> {
        match self.state {
            State::Binary { at, .. } if self.is_in_data() => Err(Damage::Truncated { what: DATA, at }),
            _ => Ok(Slim { rtf: self.out, picture_len: self.picture_len }),
        }
    }

    fn token(&mut self, byte: u8) {
        match self.state {
            State::Text => self.text(byte),
            State::Escape => {
                self.state = match byte {
                    b'\'' => State::Digits(2),
                    letter if letter.is_ascii_alphabetic() => {
                        self.word.clear();
                        self.number.clear();
                        self.word.push(letter);
                        State::Word
                    }
                    _ => State::Text,
                };
                self.out.push(byte);
            }
            State::Digits(left) => {
                self.state = if left > 1 { State::Digits(left - 1) } else { State::Text };
                self.out.push(byte);
            }
            State::Word if byte.is_ascii_alphabetic() => {
                if self.word.len() < WORD_MAX {
                    self.word.push(byte);
                }
                self.out.push(byte);
            }
            State::Word if byte == b'-' || byte.is_ascii_digit() => {
                self.state = State::Number;
                self.digit(byte);
            }
            State::Number if byte.is_ascii_digit() => self.digit(byte),
            State::Word | State::Number => self.after_word(byte),
            State::Binary { left, at } => {
                self.state = if left > 1 { State::Binary { left: left - 1, at } } else { State::Text };
                if self.is_in_data() {
                    self.keep(byte);
                } else {
                    self.out.push(byte);
                }
            }
        }
    }

    fn digit(&mut self, byte: u8) {
        if self.number.len() < WORD_MAX {
            self.number.push(byte);
        }
        self.out.push(byte);
    }

    /// The first byte after a word and its number. A space belongs to them.
    fn after_word(&mut self, byte: u8) {
        self.state = State::Text;
        let is_space = byte == b' ';
        let is_binary = self.word == b"bin";
        if is_binary && self.is_in_data() {
            self.out.truncate(self.word_at);
        } else if is_space {
            self.out.push(byte);
        }
        match self.word.as_slice() {
            b"pict" if self.data.is_none() => self.begin(Kind::Picture),
            b"objdata" if self.data.is_none() => self.begin(Kind::Object),
            b"pngblip" | b"jpegblip" if self.is_in_data() => {
                if let Some(data) = self.data.as_mut().filter(|data| data.kind == Kind::Picture) {
                    data.kind = Kind::Shown;
                }
            }
            b"bin" => {
                let left = self.binary_len();
                let at = self.raw_len - usize::from(!is_space);
                if left > 0 {
                    self.state = State::Binary { left, at };
                }
            }
            _ => {}
        }
        if !is_space {
            self.token(byte);
        }
    }

    /// The number of bytes of data that a `\bin` has. A number that does not fit is more than
    /// there is.
    fn binary_len(&self) -> usize {
        match self.number.split_first() {
            Some((b'-', _)) | None => 0,
            _ => {
                let number = std::str::from_utf8(&self.number).ok().and_then(|text| text.parse::<i32>().ok());
                number.map_or(usize::MAX, |number| usize::try_from(number).unwrap_or_default())
            }
        }
    }

    fn begin(&mut self, kind: Kind) {
        self.picture.clear();
        self.data = Some(Data { depth: self.depth, kind, high: None });
    }

    /// Whether the text of this group is data. The text of groups in it is not.
    fn is_in_data(&self) -> bool {
        self.data.is_some_and(|data| data.depth == self.depth)
    }

    fn text(&mut self, byte: u8) {
        match byte {
            b'\\' => {
                self.word_at = self.out.len();
                self.state = State::Escape;
            }
            b'{' => self.depth += 1,
            b'}' => {
                if self.is_in_data() {
                    self.end_of_data();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            _ if self.is_in_data() => return self.hex(byte),
            _ => {}
        }
        self.out.push(byte);
    }

    /// A digit of data. Line ends are between them.
    fn hex(&mut self, byte: u8) {
        let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()) else {
            return;
        };
        let Some(data) = &mut self.data else { return };
        match data.high.take() {
            None => data.high = Some(digit << 4),
            Some(high) => self.keep(high | digit),
        }
    }

    /// A byte of data.
    fn keep(&mut self, byte: u8) {
        let Some(data) = self.data.as_mut().filter(|data| data.kind == Kind::Shown) else { return };
        if self.picture_len + self.picture.len() < self.limits.pictures {
            self.picture.push(byte);
        } else {
            data.kind = Kind::Excess;
            self.picture = Vec::new();
        }
    }

    fn end_of_data(&mut self) {
        let is_shown = self.data.take().is_some_and(|data| data.kind == Kind::Shown);
        if is_shown && !self.picture.is_empty() {
            let len = self.picture.len();
            // Nothing that is written to a vector fails.
            let _ = write!(self.out, "\\bin{len} ");
            self.out.append(&mut self.picture);
            self.picture_len += len;
        }
    }
}

#[cfg(test)]
#[path = "slim_tests.rs"]
mod tests;
