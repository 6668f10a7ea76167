//! FUZZY (RFC 6203): a search that also finds approximate matches, with a score for each match.
//!
//! A text is searched at three levels. A message gets the score of the best level at which all
//! criteria match:
//!
//! | level | a text matches | score |
//! | --- | --- | --- |
//! | exact | as without FUZZY | 100 |
//! | words | each of its words does, in any order | 75 |
//! | stems | each of its words does without its ending | 50 |
//!
//! Each level includes the one before it. The ending of a word of five letters is its last
//! letter. The ending of six or seven letters is the last two, and of more letters the last
//! three. So `invoices` finds `invoice` and `invoicing`. The endings `ing`, `ed` and `s` of an
//! English word are longer than that in short words: `runs` finds `running`. It corrects no
//! typing mistakes. The level `stems` also compares header texts folded: it finds `straße` by
//! `strasse`. Each level is an ordinary search, which the index makes fast. Flags, dates and the
//! like are never fuzzy (RFC 6203 §3). Keys under NOT are exact, too.

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::limits::SEARCH_KEYS_MAX;
use posthaste_imap_codec::response::Code;

use crate::reply::{Failure, Reply};

/// Words of a text that are looked for one by one. A longer text stays as it is: it is a quotation,
/// and each word may cost a pass over all messages.
const WORDS_MAX: usize = 16;

/// How much a text may differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    Exact,
    Words,
    Stems,
}

/// RFC 6203 §4, §5: without FUZZY there is no relevancy.
pub(crate) fn check_relevancy(is_wanted: bool, key: &SearchKey) -> Result<(), Failure> {
    match is_wanted && !names_fuzzy(key) {
        true => Err(Reply::bad("RELEVANCY needs a search with FUZZY").into()),
        false => Ok(()),
    }
}

/// The words of a fuzzy search are keys as any other.
pub(super) fn check(keys: u64) -> Result<(), Failure> {
    match keys > SEARCH_KEYS_MAX as u64 {
        true => Err(Reply::no(Code::Limit, "The search has too many words").into()),
        false => Ok(()),
    }
}

fn names_fuzzy(key: &SearchKey) -> bool {
    match key {
        SearchKey::Fuzzy(_) => true,
        SearchKey::And(keys) => keys.iter().any(names_fuzzy),
        SearchKey::Or(a, b) => names_fuzzy(a) || names_fuzzy(b),
        SearchKey::Not(key) => names_fuzzy(key),
        _ => false,
    }
}

/// A search whose fuzzy keys hold at this level.
pub(super) fn at_level(key: &SearchKey, level: Level) -> SearchKey {
    match key {
        SearchKey::Fuzzy(inner) => relaxed(inner, level),
        SearchKey::And(keys) => SearchKey::And(keys.iter().map(|key| at_level(key, level)).collect()),
        SearchKey::Or(a, b) => SearchKey::Or(Box::new(at_level(a, level)), Box::new(at_level(b, level))),
        SearchKey::Not(inner) => SearchKey::Not(Box::new(at_level(inner, level))),
        other => other.clone(),
    }
}

/// A key that was under FUZZY, at this level.
pub(super) fn relaxed(key: &SearchKey, level: Level) -> SearchKey {
    use SearchKey as K;
    match key {
        K::Fuzzy(inner) => relaxed(inner, level),
        K::And(keys) => K::And(keys.iter().map(|key| relaxed(key, level)).collect()),
        K::Or(a, b) => K::Or(Box::new(relaxed(a, level)), Box::new(relaxed(b, level))),
        K::Bcc(text) => by_words(text, level, K::Bcc),
        K::Cc(text) => by_words(text, level, K::Cc),
        K::From(text) => by_words(text, level, K::From),
        K::To(text) => by_words(text, level, K::To),
        K::Subject(text) => by_words(text, level, K::Subject),
        K::Body(text) => by_words(text, level, K::Body),
        K::Text(text) => by_words(text, level, K::Text),
        K::Header(name, text) => by_words(text, level, |text| K::Header(name.clone(), text)),
        other => other.clone(),
    }
}

fn by_words(text: &str, level: Level, key: impl Fn(String) -> SearchKey) -> SearchKey {
    let words: Vec<&str> = text.split_whitespace().collect();
    if level == Level::Exact || words.is_empty() || words.len() > WORDS_MAX {
        return key(text.to_owned());
    }
    let word = |word: &&str| match level {
        Level::Stems => key(stem(word).to_owned()),
        _ => key((*word).to_owned()),
    };
    match words.as_slice() {
        [one] => word(one),
        several => SearchKey::And(several.iter().map(word).collect()),
    }
}

/// A word without its ending.
fn stem(word: &str) -> &str {
    let (by_length, english) = (without_last_letters(word), without_english_ending(word));
    if english.len() < by_length.len() { english } else { by_length }
}

/// A word without the ending `ing`, `ed` or `s`. The rest has three letters and a vowel. A
/// consonant that was doubled before the ending is single: `running`.
fn without_english_ending(word: &str) -> &str {
    const LEFT_MIN: usize = 3;
    if !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return word;
    }
    let ends_with = |ending: &&str| {
        word.len().checked_sub(ending.len()).is_some_and(|at| word[at..].eq_ignore_ascii_case(ending))
    };
    let Some(ending) = ["ing", "ed", "s"].into_iter().find(ends_with) else { return word };
    let left = &word[..word.len() - ending.len()];
    let bytes = left.as_bytes();
    let has_vowel = bytes.iter().any(|byte| b"aeiouy".contains(&byte.to_ascii_lowercase()));
    match bytes {
        _ if left.len() < LEFT_MIN || !has_vowel => word,
        [.., b's' | b'S'] if ending == "s" => word,
        [.., a, b] if ending != "s" && a == b && left.len() > LEFT_MIN && !b"aeioulsz".contains(b) => {
            &left[..left.len() - 1]
        }
        _ => left,
    }
}

/// A word without as many letters as endings of words of its length have.
fn without_last_letters(word: &str) -> &str {
    let letters = word.chars().count();
    let ending = match letters {
        0..5 => 0,
        5 => 1,
        6 | 7 => 2,
        _ => 3,
    };
    let end = word.char_indices().nth(letters - ending).map_or(word.len(), |(at, _)| at);
    &word[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_endings() {
        for (word, rest) in
            [("", ""), ("tree", "tree"), ("trees", "tree"), ("invoices", "invoi"), ("größer", "größ")]
        {
            assert_eq!(stem(word), rest);
        }
        for (word, rest) in [
            ("runs", "run"),
            ("Running", "Run"),
            ("stopped", "stop"),
            ("calls", "call"),
            ("calling", "call"),
            ("PASS", "PASS"),
            ("sing", "sing"),
            ("spring", "spri"),
            ("its", "its"),
        ] {
            assert_eq!(stem(word), rest);
        }
    }

    #[test]
    fn only_texts_under_fuzzy_become_looser() {
        let text = |text: &str| SearchKey::Text(text.to_owned());
        let fuzzy = |key| SearchKey::Fuzzy(Box::new(key));
        let key = SearchKey::And(vec![
            fuzzy(text("old invoices")),
            text("old invoices"),
            SearchKey::Not(Box::new(fuzzy(SearchKey::New))),
        ]);
        let words = SearchKey::And(vec![text("old"), text("invoices")]);
        let new = || SearchKey::Not(Box::new(SearchKey::New));
        assert_eq!(at_level(&key, Level::Words), SearchKey::And(vec![words, text("old invoices"), new()]));
        let stems = SearchKey::And(vec![text("old"), text("invoi")]);
        assert_eq!(at_level(&key, Level::Stems), SearchKey::And(vec![stems, text("old invoices"), new()]));
        assert_eq!(
            at_level(&key, Level::Exact),
            SearchKey::And(vec![text("old invoices"), text("old invoices"), new()])
        );
        let long = "a ".repeat(17);
        assert_eq!(relaxed(&text(&long), Level::Stems), text(&long));
    }
}
