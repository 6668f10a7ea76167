//! Regular expressions of draft-ietf-sieve-regex: POSIX extended, in the syntax of the `regex`
//! crate.
//!
//! Both agree except for bracket expressions: in POSIX, `[` and `\` match themselves there, and
//! `&&`, `--` and `~~` mean nothing. Alternatives differ, too: POSIX takes the longest, the crate
//! the first that matches. `longest` sees to that.

use posthaste_mime_summary::InBounds;

/// The expression in the crate's syntax.
pub(crate) fn translated(pattern: &str) -> String {
    let mut made = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        let after = rest.in_bounds(c.len_utf8()..);
        match c {
            '\\' => {
                let quoted = after.chars().next();
                made.push('\\');
                match quoted {
                    // POSIX leaves a backslash before a letter undefined; here it matches the
                    // letter, so that the crate's classes stay out of reach.
                    Some(q) if q.is_alphanumeric() || q == '<' || q == '>' => {
                        made.pop();
                        made.push(q);
                    }
                    Some(q) if q.is_ascii() => made.push(q),
                    Some(q) => {
                        made.pop();
                        made.push(q);
                    }
                    None => made.push('\\'),
                }
                rest = after.in_bounds(quoted.map_or(0, char::len_utf8)..);
            }
            // `(?` is the crate's own syntax for flags and names.
            '(' if after.starts_with('?') => {
                made.push_str("(\\?");
                rest = after.in_bounds(1..);
            }
            '[' => rest = bracket(after, &mut made),
            _ => {
                made.push(c);
                rest = after;
            }
        }
    }
    made
}

/// A bracket expression after its `[`; returns what follows it.
fn bracket<'p>(inner: &'p str, made: &mut String) -> &'p str {
    made.push('[');
    let mut rest = inner;
    if let Some(after) = rest.strip_prefix('^') {
        made.push('^');
        rest = after;
    }
    let mut is_first = true;
    while let Some(c) = rest.chars().next() {
        let after = rest.in_bounds(c.len_utf8()..);
        if c == ']' && !is_first {
            made.push(']');
            return after;
        }
        is_first = false;
        if rest.starts_with("[:")
            && let Some(end) = rest.find(":]")
        {
            made.push_str(rest.in_bounds(..end + 2));
            rest = rest.in_bounds(end + 2..);
            continue;
        }
        if matches!(c, '[' | ']' | '\\' | '&' | '~' | '^') {
            made.push('\\');
        }
        // A minus is a range between two characters, and itself at either end.
        if c == '-' && (made.ends_with('[') || made.ends_with("[^") || after.starts_with(']')) {
            made.push('\\');
        }
        made.push(c);
        rest = after;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_are_those_of_posix() {
        for (pattern, text, expected) in [
            ("^[]a]+$", "]a", true),
            (r"^[\d]+$", r"d\", true),
            (r"^[\d]+$", "5", false),
            ("^[[:digit:]x]+$", "5x", true),
            ("^[a&&b]+$", "a&b", true),
            ("^[^-a]$", "-", false),
            ("^[a-c]$", "b", true),
            ("^[[]$", "[", true),
            (r"^\d$", "d", true),
            (r"^\.$", ".", true),
            ("^(a|b){2}$", "ab", true),
        ] {
            let regex = regex::Regex::new(&translated(pattern)).unwrap();
            assert_eq!(regex.is_match(text), expected, "{pattern} on {text}");
        }
        assert!(regex::Regex::new(&translated("(?i)a")).is_ok_and(|regex| !regex.is_match("A")));
    }
}
