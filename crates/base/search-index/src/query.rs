//! A key as pieces that words of the message must contain.

use memchr::memmem::Finder;

use crate::Scope;
use crate::word_set::SEPARATOR;
use crate::words::{Class, WHOLE_MAX, class};

/// Shorter pieces are not looked up: they are in too many words.
pub(crate) const NEEDLE_MIN: usize = 3;

/// Pieces that are looked up for a key: the longest. More would leave out few further messages.
const NEEDLES_MAX: usize = 8;

/// A key, made for the index. A message that holds the key has a word for each piece.
#[derive(Debug, Clone)]
pub struct Query {
    scope: Scope,
    /// Each may have the separators that must be around it.
    needles: Vec<Finder<'static>>,
}

impl Query {
    /// The query of a folded key. `None` if the index cannot propose anything for it: it is too
    /// short.
    pub fn new(scope: Scope, key: &[u8]) -> Option<Self> {
        let mut needles = Vec::new();
        let mut at = 0;
        while at < key.len() {
            let start = at;
            match class(key, at) {
                Class::Gap => at += 1,
                Class::Plain => {
                    while class(key, at) == Class::Plain {
                        at += 1;
                    }
                    plain(key, start, at, &mut needles);
                }
                Class::Dense(_) => {
                    let mut characters = Vec::new();
                    while let Class::Dense(len) = class(key, at) {
                        characters.push(&key[at..at + len]);
                        at += len;
                    }
                    dense(&characters, &mut needles);
                }
            }
        }
        needles.retain(|needle| needle.len() >= NEEDLE_MIN);
        needles.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        needles.dedup();
        needles.truncate(NEEDLES_MAX);
        let needles: Vec<_> = needles.iter().map(|needle| Finder::new(needle).into_owned()).collect();
        (!needles.is_empty()).then_some(Self { scope, needles })
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    pub(crate) fn needles(&self) -> &[Finder<'static>] {
        &self.needles
    }
}

/// A run of letters and digits. If the key has text before it, a word begins with it; if the key
/// has text after it, a word ends with it.
fn plain(key: &[u8], start: usize, end: usize, needles: &mut Vec<Vec<u8>>) {
    let run = &key[start..end];
    let before: &[u8] = if start > 0 { &[SEPARATOR] } else { &[] };
    let behind: &[u8] = if end < key.len() { &[SEPARATOR] } else { &[] };
    if run.len() <= WHOLE_MAX {
        needles.push([before, run, behind].concat());
        return;
    }
    // A longer one may lie across two chunks of a word: its ends are whole.
    needles.push([before, &run[..WHOLE_MAX]].concat());
    needles.push([&run[run.len() - WHOLE_MAX..], behind].concat());
}

/// A run of characters of scripts without spaces: each pair of them is a word.
fn dense(characters: &[&[u8]], needles: &mut Vec<Vec<u8>>) {
    if let [one] = characters {
        needles.push(one.to_vec());
    }
    for pair in characters.windows(2) {
        let separator: &[u8] = &[SEPARATOR];
        needles.push([separator, &pair.concat(), separator].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needles(key: &str) -> Vec<String> {
        let query = Query::new(Scope::Texts, key.as_bytes());
        let needle = |finder: &Finder<'_>| String::from_utf8_lossy(finder.needle()).replace('\0', "|");
        query.map(|query| query.needles().iter().map(needle).collect()).unwrap_or_default()
    }

    #[test]
    fn keys_become_pieces_of_words() {
        assert_eq!(needles("word"), ["word"]);
        assert_eq!(needles("ann@example.org"), ["|example|", "|org", "ann|"]);
        assert_eq!(needles("a b-c"), ["|b|"]);
        assert!(needles("a-b").is_empty() && needles("ab").is_empty() && needles("").is_empty());
        assert_eq!(needles(" ab"), ["|ab"]);
        assert_eq!(needles("0123456789abcdefghij"), ["0123456789abcdef", "456789abcdefghij"]);
        assert_eq!(needles("漢字文"), ["|字文|", "|漢字|"]);
        assert_eq!(needles("字"), ["字"]);
    }
}
