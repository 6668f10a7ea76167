//! Decimal numbers.

/// Appends a decimal number.
pub fn number(out: &mut Vec<u8>, mut n: u64) {
    // Flags, UIDs and sequence numbers are most of what a listing says: one digit is the commonest
    // after them.
    if n < 10 {
        return out.push(b'0' + n as u8);
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while n >= 10 {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
    }
    at -= 1;
    digits[at] = b'0' + n as u8;
    out.extend_from_slice(&digits[at..]);
}
