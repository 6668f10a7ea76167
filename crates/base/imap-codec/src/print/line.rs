//! Lines of short pieces.

use super::decimal::{self, EIGHT_DIGITS, short};

/// Octets of the array: a usual FETCH response of flags fits.
const ROOM: usize = 128;

/// A line that is put together in an array, and appended to the output in one piece. Its length
/// stays in a register: a listing costs half of what it costs if each piece is appended alone.
pub struct Line<'o> {
    out: &'o mut Vec<u8>,
    octets: [u8; ROOM],
    len: usize,
}

impl<'o> Line<'o> {
    /// Prints a line to the output.
    #[inline]
    pub fn print(out: &'o mut Vec<u8>, print: impl FnOnce(&mut Self)) {
        let mut line = Self { out, octets: [0; ROOM], len: 0 };
        print(&mut line);
        line.out();
    }

    /// The output, with all of the line so far.
    #[inline]
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.out.extend_from_slice(self.octets.get(..self.len).unwrap_or_default());
        self.len = 0;
        self.out
    }

    /// Appends a text of a length that the compiler knows: some moves, and no call.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, text: &[u8; N]) {
        match self.octets.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = *text;
                self.len += N;
            }
            None => self.put_out(text),
        }
    }

    /// Appends a text.
    #[inline]
    pub fn put_slice(&mut self, text: &[u8]) {
        let end = self.len + text.len();
        match self.octets.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(text);
                self.len = end;
            }
            None => self.put_out(text),
        }
    }

    /// Appends a decimal number.
    #[inline(always)]
    pub fn number(&mut self, n: u64) {
        match self.octets.get_mut(self.len..).and_then(|room| room.first_chunk_mut()) {
            Some(room) if n < EIGHT_DIGITS => {
                let (text, len) = short(n);
                *room = text;
                self.len += len;
            }
            _ => self.number_out(n),
        }
    }

    #[cold]
    fn put_out(&mut self, text: &[u8]) {
        self.out().extend_from_slice(text);
    }

    #[cold]
    fn number_out(&mut self, n: u64) {
        decimal::number(self.out(), n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_pieces_in_order_wherever_the_array_is_full() {
        for len in 0..2 * ROOM {
            let piece = vec![b'x'; len];
            for n in [0, 7, 10, 12_345, 99_999_999, 100_000_000, u64::MAX] {
                let mut out = b"before ".to_vec();
                Line::print(&mut out, |line| {
                    line.put_slice(&piece);
                    line.number(n);
                    line.put(b" ");
                    line.out().push(b'-');
                    line.number(n);
                    line.put_slice(&piece);
                });
                let piece = "x".repeat(len);
                assert_eq!(String::from_utf8(out).unwrap(), format!("before {piece}{n} -{n}{piece}"));
            }
        }
    }
}
