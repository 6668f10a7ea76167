//! Numbers as answers have them, printed without an allocation.

/// Prints a number in decimal.
pub(crate) fn number(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Eight hexadecimal digits.
pub(crate) fn hex(n: u32) -> [u8; 8] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|at| DIGITS[(n >> (28 - 4 * at)) as usize & 15])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_library_prints_them() {
        for n in [0, 1, 9, 10, 4_294_967_295, u64::MAX] {
            let mut out = Vec::new();
            number(&mut out, n);
            assert_eq!(out, n.to_string().as_bytes());
        }
        for n in [0, 1, 0x0123_abcd, u32::MAX] {
            assert_eq!(hex(n).as_slice(), format!("{n:08x}").as_bytes());
        }
    }
}
