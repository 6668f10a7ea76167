//! LIST patterns against names: `*` is anything, `%` anything without the separator
//! (RFC 9051 §6.3.9).
//!
//! The matcher keeps the set of possible positions in the pattern for the name so far, 64 of them
//! in a word. So for any wildcards the time is at most length of pattern × length of name / 64.

use posthaste_mail_model::{MailboxName, SEPARATOR};

/// A compiled pattern. Matching needs `&mut` for its scratch space: make one a command, not one a
/// name.
#[derive(Clone, Debug)]
pub struct ListMatcher {
    /// The pattern is `*`.
    all: bool,
    /// The pattern has more characters than a name can have.
    never: bool,
    /// Words in a set of places.
    words: usize,
    /// The pattern's different characters, sorted, and for each the set of its positions.
    chars: Vec<char>,
    at_char: Vec<u64>,
    /// Places of `*`, and of `%`.
    at_any: Vec<u64>,
    at_level: Vec<u64>,
    /// The position after the pattern.
    end: usize,
    here: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token {
    Char(char),
    Any,
    AnyInLevel,
}

impl ListMatcher {
    /// Reference and pattern, decoded. They are joined unchanged (RFC 9051 §6.3.9 leaves it to
    /// the server; all we know of do so), with their characters composed as those of names are.
    pub fn new(reference: &str, pattern: &str) -> Self {
        let joined = [reference, pattern].concat();
        let tokens = tokens(&fold_inbox(&MailboxName::composed(&joined)));
        let mut chars: Vec<char> =
            tokens.iter().filter_map(|t| if let Token::Char(c) = t { Some(*c) } else { None }).collect();
        let never = chars.len() > MailboxName::LEN_MAX;
        // Such a pattern is not compiled: its sets would be many and large.
        let tokens = if never { &[] } else { tokens.as_slice() };
        chars.sort_unstable();
        chars.dedup();
        let words = tokens.len() / 64 + 1;
        let none = || vec![0u64; words];
        let mut matcher = Self {
            all: tokens == [Token::Any],
            never,
            words,
            at_char: if never { Vec::new() } else { vec![0; words * chars.len()] },
            chars,
            at_any: none(),
            at_level: none(),
            end: tokens.len(),
            here: none(),
        };
        for (place, token) in tokens.iter().enumerate() {
            let set = match token {
                Token::Any => &mut matcher.at_any[..],
                Token::AnyInLevel => &mut matcher.at_level[..],
                Token::Char(c) => match matcher.chars.binary_search(c) {
                    Ok(i) => &mut matcher.at_char[i * words..(i + 1) * words],
                    Err(_) => continue,
                },
            };
            set[place / 64] |= 1 << (place % 64);
        }
        matcher
    }

    /// Whether the pattern matches the whole name, as the store writes it.
    pub fn matches(&mut self, name: &str) -> bool {
        if self.all || self.never {
            return self.all;
        }
        self.here.fill(0);
        // The first position, and the next one if that is a wildcard, which may match nothing.
        self.here[0] = 1 | (((self.at_any[0] | self.at_level[0]) & 1) << 1);
        // INBOX is stored in capitals; its letters in a pattern match in any case, even where a
        // wildcard is next to them (`inb%`).
        let inbox = name.starts_with("INBOX") && (name.len() == 5 || name[5..].starts_with(SEPARATOR));
        for (i, c) in name.chars().enumerate() {
            if !self.step(c, inbox && i < 5) {
                return false;
            }
        }
        self.here[self.end / 64] >> (self.end % 64) & 1 == 1
    }

    /// The set of a character's positions.
    fn places(&self, c: char) -> Option<usize> {
        self.chars.binary_search(&c).ok().map(|i| i * self.words)
    }

    /// One character on; false if no place is left.
    fn step(&mut self, c: char, any_case: bool) -> bool {
        let exact = self.places(c);
        let small = if any_case { self.places(c.to_ascii_lowercase()) } else { None };
        // Bits that are carried from one word to the next: positions after a character that
        // matched, and positions after a wildcard that matches nothing more.
        let (mut moved_over, mut skipped_over, mut some) = (0, 0, 0);
        for word in 0..self.words {
            let here = self.here[word];
            let of = |set: Option<usize>| set.map_or(0, |start| self.at_char[start + word]);
            let moved = here & (of(exact) | of(small));
            let stays = here & (self.at_any[word] | if c == SEPARATOR { 0 } else { self.at_level[word] });
            let next = moved << 1 | moved_over | stays;
            // No two wildcards are adjacent, so one step passes all of them.
            let skipped = next & (self.at_any[word] | self.at_level[word]);
            self.here[word] = next | skipped << 1 | skipped_over;
            (moved_over, skipped_over) = (moved >> 63, skipped >> 63);
            some |= self.here[word];
        }
        some != 0
    }
}

/// The pattern's tokens; `**`, `%%`, `*%` and `%*` mean the same as one of them.
fn tokens(pattern: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::with_capacity(pattern.len());
    for c in pattern.chars() {
        let token = match c {
            '*' => Token::Any,
            '%' => Token::AnyInLevel,
            c => Token::Char(c),
        };
        match (tokens.last_mut(), token) {
            (Some(Token::Any), Token::Any | Token::AnyInLevel)
            | (Some(Token::AnyInLevel), Token::AnyInLevel) => {}
            (Some(last @ Token::AnyInLevel), Token::Any) => *last = Token::Any,
            _ => tokens.push(token),
        }
    }
    tokens
}

/// A pattern whose first level is `inbox` in any case, with it in capitals.
fn fold_inbox(pattern: &str) -> String {
    match pattern.get(..5) {
        Some(first)
            if first.eq_ignore_ascii_case("INBOX")
                && pattern[5..].chars().next().is_none_or(|c| c == SEPARATOR) =>
        {
            format!("INBOX{}", &pattern[5..])
        }
        _ => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        ListMatcher::new("", pattern).matches(name)
    }

    #[test]
    fn wildcards() {
        for (pattern, name, yes) in [
            ("*", "a/b", true),
            ("%", "a", true),
            ("%", "a/b", false),
            ("%/%", "a/b", true),
            ("a/%", "a/b/c", false),
            ("a/*", "a/b/c", true),
            ("a/*", "a", false),
            ("a*", "a", true),
            ("%b/*c", "ab/xc/c", true),
            ("%b/*c", "ab/xc/d", false),
            ("*%", "a/b", true),
            ("*/b%", "x/y/bz", true),
            ("*/b%", "x/b/z", false),
            ("", "a", false),
            ("ä%", "äö", true),
            ("inbox", "INBOX", true),
            ("inb%", "INBOX", true),
            ("%bOx/a", "INBOX/a", true),
            ("inbox/A", "INBOX/a", false),
            ("inboxes", "INBOXES", false),
            ("Inboxes", "Inboxes", true),
        ] {
            assert_eq!(matches(pattern, name), yes, "{pattern} {name}");
        }
        assert!(ListMatcher::new("a/", "%").matches("a/b"));
    }

    #[test]
    fn a_bomb_takes_no_longer_than_its_length() {
        let name = "a".repeat(1000);
        assert!(!matches(&"*a".repeat(500).replace("*a*a", "*a%a"), &"b".repeat(1000)));
        assert!(!matches(&format!("{}b", "%a*a".repeat(250)), &name));
        assert!(matches(&"%a*a".repeat(250), &name) && matches(&"a".repeat(1000), &name));
        assert!(!matches(&"*a".repeat(1001), &name));
        assert!(matches(&format!("{}*{}", "a".repeat(63), "a".repeat(64)), &name));
    }

    fn naive(pattern: &[char], name: &[char]) -> bool {
        match pattern {
            [] => name.is_empty(),
            ['*', rest @ ..] => (0..=name.len()).any(|i| naive(rest, &name[i..])),
            ['%', rest @ ..] => {
                let level = name.iter().position(|&c| c == '/').unwrap_or(name.len());
                (0..=level).any(|i| naive(rest, &name[i..]))
            }
            [c, rest @ ..] => name.first() == Some(c) && naive(rest, &name[1..]),
        }
    }

    properties! {
        #[test]
        fn it_agrees_with_the_definition(pattern in "[ab/*%]{0,8}", name in "[ab/]{0,8}", before in 0usize..70) {
            // A common beginning moves the rest across the border of two words.
            let (pattern, name) = (["a".repeat(before), pattern].concat(), ["a".repeat(before), name].concat());
            let (p, n): (Vec<_>, Vec<_>) = (pattern.chars().collect(), name.chars().collect());
            prop_assert_eq!(matches(&pattern, &name), naive(&p, &n));
        }
    }
}
