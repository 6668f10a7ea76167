//! Compressed RTF: MS-OXRTFCP. LZFu, a Lempel-Ziv with a window of 4,096 bytes that begins filled
//! with frequent RTF, and MELA, which is not compressed.
//!
//! Eight tokens follow each control byte. A token is a literal byte, or two bytes with a place in
//! the window (12 bits) and a length less 2 (4 bits). So no input expands more than eightfold.
//!
//! The crate `compressed-rtf` does the same, and the tests compare with it. It is not used here: it
//! panics on input under 16 bytes and on false lengths, and allocates as much memory as those
//! lengths claim.

use super::slim::{Limits, Slim, Slimmer};
use crate::error::Damage;
use crate::reader::Reader;

/// The first contents of the window: MS-OXRTFCP §2.1.2.1.
const INITIAL: &[u8] =
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \
\\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \
\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";
const _: () = assert!(INITIAL.len() == 207);

const WINDOW: usize = 4096;
/// `LZFu`, little-endian.
const COMPRESSED: u32 = 0x7546_5A4C;
/// `MELA`, little-endian.
const UNCOMPRESSED: u32 = 0x414C_454D;
/// Bytes of the header, without the size field itself: what the size counts besides the content.
const HEADER_AFTER_SIZE: usize = 12;
/// Shortest run that is worth a reference: it takes two bytes.
const MATCH_MIN: usize = 3;
/// Longest run that four bits can encode.
const MATCH_MAX: usize = 17;
/// The most earlier places that are compared with the text to come. More than 32 shorten real
/// mail by less than 1 %.
const TRIES: usize = 32;

/// MS-OXRTFCP §2.1.3.2: CRC-32 that begins with 0 and is not inverted at its end.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(u32::MAX);
    hasher.update(bytes);
    !hasher.finalize()
}

/// RTF out of its compressed form. `limit` is the most bytes that it may have.
///
/// In both forms, the text must be as long as the header says (MS-OXRTFCP §2.1.3.1.1,
/// RAWSIZE). So a stream that ends early is not taken for the whole text. NULs after it may be
/// uncounted.
pub fn decompress(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Damage> {
    let stream = Stream::read(bytes)?;
    let mut out = Vec::with_capacity(stream.expected_len().min(limit));
    let put = |byte| {
        out.push(byte);
        if out.len() > limit { Err(Damage::Expands { limit }) } else { Ok(()) }
    };
    stream.expand(put)?;
    if !stream.is_compressed {
        out.truncate(stream.raw_len);
    }
    Ok(out)
}

/// The same, for [`super::read()`]: without the data that it does not read, of which Word writes
/// megabytes. See [`super::slim`].
pub fn decompress_to_read(bytes: &[u8], limits: Limits) -> Result<Slim, Damage> {
    let stream = Stream::read(bytes)?;
    let mut slimmer = Slimmer::new(limits);
    stream.expand(|byte| slimmer.put(byte))?;
    slimmer.finish()
}

/// Compressed RTF whose header was read.
struct Stream<'b> {
    content: &'b [u8],
    /// The length that the header names.
    raw_len: usize,
    is_compressed: bool,
}

impl<'b> Stream<'b> {
    fn read(bytes: &'b [u8]) -> Result<Self, Damage> {
        const WHAT: &str = "compressed RTF";
        let mut reader = Reader::new(bytes);
        let size = reader.len(WHAT)?;
        let raw_len = reader.len(WHAT)?;
        let compression = reader.u32(WHAT)?;
        let expected = reader.u32(WHAT)?;
        let content_len =
            size.checked_sub(HEADER_AFTER_SIZE).ok_or(Damage::Truncated { what: WHAT, at: 0 })?;
        let content = reader.take(content_len, WHAT)?;
        match compression {
            UNCOMPRESSED => Ok(Self { content, raw_len, is_compressed: false }),
            COMPRESSED if crc(content) != expected => Err(Damage::Crc),
            COMPRESSED => Ok(Self { content, raw_len, is_compressed: true }),
            other => Err(Damage::Compression(other)),
        }
    }

    /// The greatest length of the text.
    fn expected_len(&self) -> usize {
        self.raw_len.min(self.content.len().saturating_mul(8))
    }

    /// Gives `put` the text, byte by byte, and checks its length.
    fn expand(&self, mut put: impl FnMut(u8) -> Result<(), Damage>) -> Result<(), Damage> {
        // The text is as long as its header says, apart from NULs after it.
        let (mut len, mut nuls) = (0_usize, 0_usize);
        let counted = |byte: u8| {
            len += 1;
            nuls = if byte == 0 { nuls + 1 } else { 0 };
            put(byte)
        };
        match self.is_compressed {
            true => expand(self.content, counted)?,
            false => self.content.iter().copied().try_for_each(counted)?,
        }
        let said = self.raw_len;
        if said <= len && len - nuls <= said { Ok(()) } else { Err(Damage::Length { len, said }) }
    }
}

fn expand(content: &[u8], mut put: impl FnMut(u8) -> Result<(), Damage>) -> Result<(), Damage> {
    let mut window = [0u8; WINDOW];
    window[..INITIAL.len()].copy_from_slice(INITIAL);
    let mut write = INITIAL.len();
    let mut put = |byte: u8, write: &mut usize, window: &mut [u8; WINDOW]| {
        window[*write] = byte;
        *write = (*write + 1) % WINDOW;
        put(byte)
    };
    let mut input = content.iter().copied();
    'runs: while let Some(control) = input.next() {
        for bit in 0..8 {
            let Some(first) = input.next() else { break 'runs };
            if control & (1 << bit) == 0 {
                put(first, &mut write, &mut window)?;
                continue;
            }
            let Some(second) = input.next() else { break 'runs };
            let token = usize::from(u16::from_be_bytes([first, second]));
            let (from, len) = (token >> 4, (token & 15) + 2);
            // MS-OXRTFCP §3.1.3: a reference to the write position is the end.
            if from == write {
                break 'runs;
            }
            for step in 0..len {
                put(window[(from + step) % WINDOW], &mut write, &mut window)?;
            }
        }
    }
    Ok(())
}

/// RTF in its compressed form. The same text always gives the same bytes. Callers pass
/// at most 4 GiB: the length field cannot hold more, and nothing here checks it.
pub fn compress(rtf: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(rtf.len() / 2 + 32);
    let mut matcher = Matcher::new(rtf);
    let mut run = Run::default();
    let mut at = INITIAL.len();
    while at < matcher.text.len() {
        let len = match matcher.longest(at) {
            Some((from, len)) => {
                run.reference(&mut content, from % WINDOW, len);
                len
            }
            None => {
                run.literal(&mut content, matcher.text[at]);
                1
            }
        };
        for _ in 0..len {
            matcher.learn(at);
            at += 1;
        }
    }
    run.reference(&mut content, at % WINDOW, 2);
    run.finish(&mut content);
    let mut out = Vec::with_capacity(content.len() + 16);
    write_header(&mut out, content.len(), rtf.len(), COMPRESSED, crc(&content));
    out.append(&mut content);
    out
}

/// RTF with the header of compressed RTF, uncompressed.
pub fn store(rtf: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(rtf.len() + 16);
    // MS-OXRTFCP §2.1.3.1.1: the CRC of the uncompressed form is 0.
    write_header(&mut out, rtf.len(), rtf.len(), UNCOMPRESSED, 0);
    out.extend_from_slice(rtf);
    out
}

fn write_header(out: &mut Vec<u8>, content_len: usize, raw_len: usize, compression: u32, crc: u32) {
    let number = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    for field in [number(content_len + HEADER_AFTER_SIZE), number(raw_len), compression, crc] {
        out.extend(field.to_le_bytes());
    }
}

/// Eight tokens and the control byte before them.
#[derive(Default)]
struct Run {
    control: u8,
    count: u8,
    tokens: Vec<u8>,
}

impl Run {
    fn literal(&mut self, out: &mut Vec<u8>, byte: u8) {
        self.tokens.push(byte);
        self.next(out);
    }

    fn reference(&mut self, out: &mut Vec<u8>, from: usize, len: usize) {
        // 12 bits for the place, 4 for the length.
        debug_assert!(from < WINDOW && (2..18).contains(&len), "{len} bytes from {from}");
        let token = ((from << 4) | (len - 2)) as u16;
        self.tokens.extend(token.to_be_bytes());
        self.control |= 1 << self.count;
        self.next(out);
    }

    fn next(&mut self, out: &mut Vec<u8>) {
        self.count += 1;
        if self.count == 8 {
            self.finish(out);
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.count > 0 {
            out.push(self.control);
            out.append(&mut self.tokens);
            (self.control, self.count) = (0, 0);
        }
    }
}

/// Finds earlier occurrences by the hash of three bytes, newest first.
struct Matcher {
    /// The window's first content, then the RTF. Place `p` here is place `p % 4096` of the window.
    text: Vec<u8>,
    newest: Vec<u32>,
    before: [u32; WINDOW],
}

const HASHES: usize = 1 << 13;
const NOWHERE: u32 = u32::MAX;

impl Matcher {
    fn new(rtf: &[u8]) -> Self {
        let text = [INITIAL, rtf].concat();
        let mut matcher = Self { text, newest: vec![NOWHERE; HASHES], before: [NOWHERE; WINDOW] };
        for at in 0..INITIAL.len() {
            matcher.learn(at);
        }
        matcher
    }

    fn hash(&self, at: usize) -> Option<usize> {
        let bytes = self.text.get(at..)?.first_chunk::<3>()?;
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        usize::try_from(number.wrapping_mul(0x9E37_79B1) >> 19).ok()
    }

    fn learn(&mut self, at: usize) {
        if let (Some(hash), Ok(place)) = (self.hash(at), u32::try_from(at)) {
            self.before[at % WINDOW] = self.newest[hash];
            self.newest[hash] = place;
        }
    }

    /// The longest earlier occurrence of what begins at `at`: where, and how many bytes.
    fn longest(&self, at: usize) -> Option<(usize, usize)> {
        let mut place = self.newest[self.hash(at)?];
        let ahead = self.text.get(at..)?;
        let mut best = (0, MATCH_MIN - 1);
        for _ in 0..TRIES {
            let from = usize::try_from(place).ok().filter(|from| *from < at && at - from < WINDOW)?;
            let earlier = self.text.get(from..)?.iter();
            let len = ahead.iter().take(MATCH_MAX).zip(earlier).take_while(|(a, b)| a == b).count();
            if len > best.1 {
                best = (from, len);
            }
            if len == MATCH_MAX {
                break;
            }
            let next = self.before[from % WINDOW];
            // An entry that was overwritten since then points forwards.
            if next == NOWHERE || next >= place {
                break;
            }
            place = next;
        }
        (best.1 >= MATCH_MIN).then_some(best)
    }
}

#[cfg(test)]
#[path = "lzfu_tests.rs"]
mod tests;
