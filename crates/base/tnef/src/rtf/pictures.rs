//! Pictures in RTF that was written as RTF: `{\pict\pngblip …}`, RTF 1.9.1, Pictures.
//!
//! Those that mail can show are parts of the message, and the HTML shows them by their Content-ID.
//! All others (metafiles, bitmaps) are counted.

use std::collections::HashSet;
use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Pictures of a conversion at most. A part takes a few hundred bytes beside the picture.
pub(crate) const PICTURES_MAX: usize = 1000;
/// Pixels of a width or a height that is believed.
const PIXELS_MAX: i64 = 10_000;

/// A picture that HTML shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The picture's media type.
    pub media: &'static str,
    /// The Content-ID by which the HTML refers to it, without brackets. It is made from a hash of
    /// the bytes, so a picture that is shown twice is one part.
    pub id: String,
    /// The picture's bytes.
    pub bytes: Vec<u8>,
}

/// Pictures while a document is read.
pub(super) struct Pictures {
    pub all: Vec<Picture>,
    /// The number of pictures that are not shown.
    pub unshown: usize,
    /// The number of pictures that are shown, each as often as it is.
    pub shown: usize,
    limit: usize,
    ids: HashSet<String>,
    current: Current,
}

/// The picture that is being read.
#[derive(Default)]
struct Current {
    media: Option<&'static str>,
    bytes: Vec<u8>,
    width: Side,
    height: Side,
}

/// A side of a picture: twentieths of a point, and per cent.
#[derive(Default)]
struct Side {
    twips: Option<i32>,
    scale: Option<i32>,
}

impl Side {
    /// 15 twips are a pixel of 1/96 inch.
    fn pixels(&self) -> Option<i64> {
        let pixels = i64::from(self.twips?) * i64::from(self.scale.unwrap_or(100)) / 1500;
        Some(pixels).filter(|pixels| (1..=PIXELS_MAX).contains(pixels))
    }
}

impl Pictures {
    /// A list of at most `limit` different pictures.
    pub fn new(limit: usize) -> Self {
        Self {
            all: Vec::new(),
            unshown: 0,
            shown: 0,
            limit,
            ids: HashSet::new(),
            current: Current::default(),
        }
    }

    pub fn begin(&mut self) {
        self.current = Current::default();
    }

    /// A word within a picture.
    pub fn word(&mut self, word: &[u8], number: Option<i32>) {
        let Current { media, width, height, .. } = &mut self.current;
        match word {
            b"pngblip" => *media = Some("image/png"),
            b"jpegblip" => *media = Some("image/jpeg"),
            b"picwgoal" => width.twips = number,
            b"pichgoal" => height.twips = number,
            b"picscalex" => width.scale = number,
            b"picscaley" => height.scale = number,
            _ => {}
        }
    }

    pub fn data(&mut self, bytes: &[u8]) {
        self.current.bytes.extend_from_slice(bytes);
    }

    /// The picture is complete: the element that shows it, if it can be shown.
    pub fn end(&mut self) -> Option<String> {
        let Current { media, bytes, width, height } = std::mem::take(&mut self.current);
        let begins = |media: &&str| match *media {
            "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            _ => bytes.starts_with(b"\xFF\xD8\xFF"),
        };
        let shown = media.filter(begins).and_then(|media| {
            let id = id_of(&bytes);
            if !self.ids.contains(&id) {
                if self.all.len() >= self.limit {
                    return None;
                }
                self.ids.insert(id.clone());
                self.all.push(Picture { media, id: id.clone(), bytes });
            }
            Some(id)
        });
        let Some(id) = shown else {
            self.unshown += 1;
            return None;
        };
        self.shown += 1;
        let mut element = format!("<img src=\"cid:{id}\"");
        for (name, side) in [("width", width), ("height", height)] {
            if let Some(pixels) = side.pixels() {
                let _ = write!(element, " {name}=\"{pixels}\"");
            }
        }
        element.push('>');
        Some(element)
    }
}

/// RFC 2045 §7: no other part has this id, unless it has the same bytes. RFC 2606 §2: the domain
/// belongs to nobody.
fn id_of(bytes: &[u8]) -> String {
    let mut id = Sha256::digest(bytes).iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    id.push_str("@picture.invalid");
    id
}
