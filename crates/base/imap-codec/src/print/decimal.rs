//! Decimal numbers.

/// The first number that has more than eight digits.
pub(super) const EIGHT_DIGITS: u64 = 100_000_000;

/// Appends a decimal number.
#[inline]
pub fn number(out: &mut Vec<u8>, n: u64) {
    // Flags, UIDs and sequence numbers are most of what a listing says: one digit is the commonest
    // after them.
    if n < 10 {
        return out.push(b'0' + n as u8);
    }
    if n >= EIGHT_DIGITS {
        return long(out, n);
    }
    // Written in one piece, and cut after the last digit.
    let (text, len) = short(n);
    let end = out.len() + len;
    out.extend_from_slice(&text);
    out.truncate(end);
}

/// A number below 10^8 without the zeros at its front, and how many of the octets it has.
#[inline]
pub(super) fn short(n: u64) -> ([u8; 8], usize) {
    let digits = eight_digits(n);
    // The last digit is in the highest byte, and is never left out: of 0, it is the only one.
    let zeros = (digits | 1 << 63).trailing_zeros() / 8;
    ((in_ascii(digits) >> (8 * zeros)).to_le_bytes(), 8 - zeros as usize)
}

fn long(out: &mut Vec<u8>, n: u64) {
    number(out, n / EIGHT_DIGITS);
    out.extend_from_slice(&in_ascii(eight_digits(n % EIGHT_DIGITS)).to_le_bytes());
}

/// The digits of a number below 10^8, one in each byte. The first is in the lowest byte. They are
/// computed together, without a branch.
#[inline]
fn eight_digits(n: u64) -> u64 {
    // Two numbers of four digits become four of two, then eight of one. A multiplication and a
    // shift divide by 100 and by 10.
    let fours = (n / 10_000) | ((n % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((pairs - tens * 10) << 8)
}

#[inline]
fn in_ascii(digits: u64) -> u64 {
    digits | 0x3030_3030_3030_3030
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_printed_as_the_standard_library_does() {
        let mut numbers: Vec<u64> = (0..20_000).chain([u64::MAX, u64::MAX - 1]).collect();
        // All values of each group of four digits, alone and beside others.
        numbers
            .extend((0..10_000).flat_map(|four| [four * 10_000, four * 10_000 + 9_876, 12_340_000 + four]));
        for power in (1..20).map(|zeros| 10u64.pow(zeros)) {
            numbers.extend([power - 1, power, power + 1, power / 7 * 5]);
        }
        for n in numbers {
            let mut out = b"a ".to_vec();
            number(&mut out, n);
            assert_eq!(out, format!("a {n}").as_bytes());
        }
        assert_eq!(short(0), (*b"0\0\0\0\0\0\0\0", 1));
    }
}
