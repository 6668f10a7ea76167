//! The modifiers of `set`. RFC 5229 §4.1.

use crate::compiled::Modifier;

/// A value after its modifiers, which are in the order of their precedence.
pub(crate) fn modified(mut value: String, modifiers: &[Modifier]) -> String {
    for modifier in modifiers {
        value = match modifier {
            // RFC 5229 §4.1.1, §4.1.2 leave letters beyond ASCII to us.
            Modifier::Lower => value.to_lowercase(),
            Modifier::Upper => value.to_uppercase(),
            Modifier::LowerFirst => first(&value, |c| c.to_lowercase().collect()),
            Modifier::UpperFirst => first(&value, |c| c.to_uppercase().collect()),
            Modifier::QuoteWildcard => quoted(&value, "*?\\"),
            Modifier::QuoteRegex => quoted(&value, "\\^$.|?*+()[]{}"),
            Modifier::EncodeUrl => encoded(&value),
            Modifier::Length => value.chars().count().to_string(),
        };
    }
    value
}

fn first(value: &str, change: impl Fn(char) -> String) -> String {
    let mut chars = value.chars();
    match chars.next() {
        Some(c) => change(c) + chars.as_str(),
        None => String::new(),
    }
}

fn quoted(value: &str, special: &str) -> String {
    let mut made = String::with_capacity(value.len());
    for c in value.chars() {
        if special.contains(c) {
            made.push('\\');
        }
        made.push(c);
    }
    made
}

/// Percent-encoding of all but unreserved characters. RFC 5435 §7, RFC 3986 §2.3.
fn encoded(value: &str) -> String {
    let mut made = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            made.push(byte as char);
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            let digit = |value: u8| HEX.get(usize::from(value)).map_or('0', |b| *b as char);
            made.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_modifier() {
        use Modifier::*;
        for (modifiers, value, expected) in [
            (&[Lower][..], "JuMBlEÜ", "jumbleü"),
            (&[Lower, UpperFirst], "juMBlEd lETTeRS", "Jumbled letters"),
            (&[Upper, LowerFirst], "äb", "äB"),
            (&[QuoteWildcard], "Rock*?\\", "Rock\\*\\?\\\\"),
            (&[Length], "äb", "2"),
            (&[QuoteWildcard, Length], "a*", "3"),
            (&[EncodeUrl], "a b/ü~", "a%20b%2F%C3%BC~"),
            (&[QuoteRegex], "a.b[c]", "a\\.b\\[c\\]"),
            (&[UpperFirst], "", ""),
        ] {
            assert_eq!(modified(value.into(), modifiers), expected, "{modifiers:?} {value}");
        }
    }
}
