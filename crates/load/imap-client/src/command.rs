//! Values to command bytes: the few shapes of argument that commands are made of.

/// Appends a string as IMAP quotes it. One that cannot be quoted becomes a non-synchronising
/// literal, so that a command stays one write. Every server with LITERAL+ or LITERAL- accepts it
/// (RFC 7888).
pub fn string(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        out.push(b'"');
        for byte in text.bytes() {
            if byte == b'"' || byte == b'\\' {
                out.push(b'\\');
            }
            out.push(byte);
        }
        out.push(b'"');
    } else {
        out.extend_from_slice(format!("{{{}+}}\r\n", text.len()).as_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Quotes into a `String`, for commands made with `format!`. Bytes that cannot be quoted are left
/// out: only for names the instrument chose itself or read from a quoted string.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars().filter(|c| !c.is_control()) {
        if c == '"' || c == '\\' {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_or_literal() {
        let mut out = Vec::new();
        string(&mut out, "a \"b\\");
        assert_eq!(out, br#""a \"b\\""#);
        out.clear();
        string(&mut out, "é");
        assert_eq!(out, "{2+}\r\né".as_bytes());
        assert_eq!(quoted("x\r\ny\""), r#""xy\"""#);
    }
}
