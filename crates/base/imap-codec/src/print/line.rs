//! Lines of short pieces.

use super::decimal::{self, EIGHT_DIGITS, short};

/// Octets that are added to the output at once: a usual FETCH response of flags fits. Twice as many
/// would take longer to clear.
const ROOM: usize = 128;

/// A line whose pieces are written over octets that were added to the output before. Its end stays
/// in a register: functions that print such lines are inline for this reason. If each piece is
/// appended to the output instead, each waits for the length that the one before stored. Then a
/// listing of flags takes half as long again.
pub struct Line<'o> {
    /// The output. It may be longer than the line.
    out: &'o mut Vec<u8>,
    /// The end of the line.
    end: usize,
}

impl<'o> Line<'o> {
    /// Prints a line to the output.
    #[inline]
    pub fn print(out: &'o mut Vec<u8>, print: impl FnOnce(&mut Self)) {
        let end = out.len();
        out.resize(end + ROOM, 0);
        let mut line = Self { out, end };
        print(&mut line);
        line.out.truncate(line.end);
    }

    /// Appends what is printed to the output itself.
    #[inline]
    pub fn append(&mut self, print: impl FnOnce(&mut Vec<u8>)) {
        self.out.truncate(self.end);
        print(self.out);
        self.end = self.out.len();
    }

    /// Appends a text of a length that the compiler knows: some moves, and no call.
    #[inline(always)]
    pub fn put<const N: usize>(&mut self, text: &[u8; N]) {
        match self.out.get_mut(self.end..).and_then(|room| room.first_chunk_mut()) {
            Some(room) => {
                *room = *text;
                self.end += N;
            }
            None => self.append_slice(text),
        }
    }

    /// Appends a text.
    #[inline]
    pub fn put_slice(&mut self, text: &[u8]) {
        match self.out.get_mut(self.end..self.end + text.len()) {
            Some(room) => {
                room.copy_from_slice(text);
                self.end += text.len();
            }
            None => self.append_slice(text),
        }
    }

    /// Appends a decimal number.
    #[inline(always)]
    pub fn number(&mut self, n: u64) {
        match self.out.get_mut(self.end..).and_then(|room| room.first_chunk_mut()) {
            Some(room) if n < EIGHT_DIGITS => {
                let (text, len) = short(n);
                *room = text;
                self.end += len;
            }
            _ => self.append_number(n),
        }
    }

    #[inline(never)]
    fn append_slice(&mut self, text: &[u8]) {
        self.append(|out| out.extend_from_slice(text));
    }

    #[inline(never)]
    fn append_number(&mut self, n: u64) {
        self.append(|out| decimal::number(out, n));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_be_empty() {
        let mut out = b"before".to_vec();
        Line::print(&mut out, |_| {});
        assert_eq!(out, b"before");
    }

    #[test]
    fn a_line_has_its_pieces_in_order_wherever_its_room_ends() {
        for len in 0..2 * ROOM {
            let piece = vec![b'x'; len];
            for n in [0, 7, 10, 12_345, 99_999_999, 100_000_000, u64::MAX] {
                let mut out = b"before ".to_vec();
                Line::print(&mut out, |line| {
                    line.put_slice(&piece);
                    line.number(n);
                    line.put(b" FETCH (");
                    line.append(|_| {});
                    line.append(|out| out.push(b'-'));
                    line.number(n);
                    line.put_slice(&piece);
                });
                let piece = "x".repeat(len);
                assert_eq!(String::from_utf8(out).unwrap(), format!("before {piece}{n} FETCH (-{n}{piece}"));
            }
        }
    }
}
