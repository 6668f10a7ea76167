//! FUZZY (RFC 6203): a search that also finds approximate matches, with a score for each match.
//!
//! A text is searched at three levels. A message gets the score of the best level at which all
//! criteria match:
//!
//! | level | a text matches | score |
//! | --- | --- | --- |
//! | exact | as without FUZZY | 100 |
//! | words | each of its words does, in any order | 75 |
//! | stems | each of its words does without its ending | 50 to 74 |
//!
//! At the level `stems`, each word that also matches as it is written raises the score. If a search
//! for TEXT does not match the subject, the score is ten less. Both comparisons read only rows and
//! summaries. A search for which they would read bodies again leaves them out.
//!
//! Each level includes the one before it. The ending of a word of five letters is its last letter.
//! The ending of six or seven letters is the last two, and of more letters the last three. So
//! `invoices` finds `invoice` and `invoicing`. The endings `ing`, `ed` and `s` of an English word
//! are longer than that in short words: `runs` finds `running`. Typing mistakes are not corrected.
//! The level `stems` also compares header texts folded: it finds `straße` by `strasse`. Each level
//! is an ordinary search, which the index makes fast. Flags, dates and the like are never fuzzy
//! (RFC 6203 §3). Keys under NOT are exact, too.

use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::limits::SEARCH_KEYS_MAX;
use posthaste_imap_codec::response::Code;

use crate::reply::{Failure, Reply};

/// Words of a text that are looked for one by one. A longer text stays as it is: it is a quotation,
/// and each word may cost a pass over all messages.
const WORDS_MAX: usize = 16;

/// The degree to which a text may differ.
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
    at(key, &mut |text| words_sought(text, level))
}

/// A key that was under FUZZY, at this level.
pub(super) fn relaxed(key: &SearchKey, level: Level) -> SearchKey {
    relaxed_by(key, &mut |text| words_sought(text, level))
}

/// A search at the level of stems, in which one word of the fuzzy texts stays as it is written: the
/// n-th of all, from 0.
pub(super) fn with_word(key: &SearchKey, n: usize) -> SearchKey {
    let mut count = 0;
    at(key, &mut |text| {
        let Some(words) = words_of(text) else { return vec![text.to_owned()] };
        let first = count;
        count += words.len();
        let form = words.into_iter().enumerate().map(|(i, word)| match first + i == n {
            true => word.to_owned(),
            false => stem(word).to_owned(),
        });
        form.collect()
    })
}

/// The number of words of the fuzzy texts, which are compared one by one for a score. `None` if
/// that would read bodies again, if there is only one, or if there are too many.
pub(super) fn scored_words(key: &SearchKey) -> usize {
    if reads_bodies(key) {
        return 0;
    }
    let mut count = 0;
    at(key, &mut |text| {
        count += words_of(text).map_or(0, |words| words.len());
        vec![text.to_owned()]
    });
    if (2..=WORDS_MAX).contains(&count) { count } else { 0 }
}

/// The same search in subjects instead of whole messages: each fuzzy TEXT becomes SUBJECT. `None`
/// if there is no such key, or if other keys would read bodies again.
pub(super) fn in_subjects(key: &SearchKey) -> Option<SearchKey> {
    let in_subjects = subjects_for_texts(key, Fuzziness::Exact);
    (in_subjects != *key && !reads_bodies(&in_subjects)).then_some(in_subjects)
}

/// Whether a key is under FUZZY.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fuzziness {
    Exact,
    Fuzzy,
}

fn subjects_for_texts(key: &SearchKey, is: Fuzziness) -> SearchKey {
    use SearchKey as K;
    match key {
        K::Fuzzy(inner) => K::Fuzzy(Box::new(subjects_for_texts(inner, Fuzziness::Fuzzy))),
        K::And(keys) => K::And(keys.iter().map(|key| subjects_for_texts(key, is)).collect()),
        K::Or(a, b) => K::Or(Box::new(subjects_for_texts(a, is)), Box::new(subjects_for_texts(b, is))),
        K::Text(text) if is == Fuzziness::Fuzzy => K::Subject(text.clone()),
        other => other.clone(),
    }
}

/// Whether a key may need more than rows and summaries.
fn reads_bodies(key: &SearchKey) -> bool {
    use SearchKey as K;
    match key {
        K::Body(_) | K::Text(_) | K::Header(..) => true,
        K::And(keys) => keys.iter().any(reads_bodies),
        K::Or(a, b) => reads_bodies(a) || reads_bodies(b),
        K::Not(inner) | K::Fuzzy(inner) => reads_bodies(inner),
        _ => false,
    }
}

/// A search in whose fuzzy keys each text is replaced by what is looked for.
fn at<W: FnMut(&str) -> Vec<String>>(key: &SearchKey, words: &mut W) -> SearchKey {
    match key {
        SearchKey::Fuzzy(inner) => relaxed_by(inner, words),
        SearchKey::And(keys) => SearchKey::And(keys.iter().map(|key| at(key, words)).collect()),
        SearchKey::Or(a, b) => SearchKey::Or(Box::new(at(a, words)), Box::new(at(b, words))),
        SearchKey::Not(inner) => SearchKey::Not(Box::new(at(inner, words))),
        other => other.clone(),
    }
}

/// A key that was under FUZZY, in which each text is replaced by what is looked for.
fn relaxed_by<W: FnMut(&str) -> Vec<String>>(key: &SearchKey, words: &mut W) -> SearchKey {
    use SearchKey as K;
    match key {
        K::Fuzzy(inner) => relaxed_by(inner, words),
        K::And(keys) => K::And(keys.iter().map(|key| relaxed_by(key, words)).collect()),
        K::Or(a, b) => K::Or(Box::new(relaxed_by(a, words)), Box::new(relaxed_by(b, words))),
        K::Bcc(text) => each(words(text), K::Bcc),
        K::Cc(text) => each(words(text), K::Cc),
        K::From(text) => each(words(text), K::From),
        K::To(text) => each(words(text), K::To),
        K::Subject(text) => each(words(text), K::Subject),
        K::Body(text) => each(words(text), K::Body),
        K::Text(text) => each(words(text), K::Text),
        K::Header(name, text) => each(words(text), |text| K::Header(name.clone(), text)),
        other => other.clone(),
    }
}

/// A key for each word; all must match.
fn each(words: Vec<String>, key: impl Fn(String) -> SearchKey) -> SearchKey {
    let mut keys: Vec<SearchKey> = words.into_iter().map(key).collect();
    match keys.pop() {
        Some(one) if keys.is_empty() => one,
        Some(last) => {
            keys.push(last);
            SearchKey::And(keys)
        }
        None => SearchKey::All,
    }
}

/// The words that are looked for one by one. `None` for a text that stays as it is.
fn words_of(text: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(words).filter(|words| !words.is_empty() && words.len() <= WORDS_MAX)
}

/// The words that are looked for instead of a text.
fn words_sought(text: &str, level: Level) -> Vec<String> {
    match words_of(text).filter(|_| level != Level::Exact) {
        None => vec![text.to_owned()],
        Some(words) => {
            let form = words.into_iter().map(|word| match level {
                Level::Stems => stem(word).to_owned(),
                _ => word.to_owned(),
            });
            form.collect()
        }
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

/// A word without its last letters: as many as the ending of a word of its length has.
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

    #[test]
    fn one_word_stands_as_it_is_written() {
        let subject = |text: &str| SearchKey::Subject(text.to_owned());
        let fuzzy = |key| SearchKey::Fuzzy(Box::new(key));
        let long = "a ".repeat(17);
        let key = SearchKey::And(vec![
            fuzzy(subject("old invoices")),
            fuzzy(subject(&long)),
            fuzzy(subject("runs")),
        ]);
        assert_eq!(scored_words(&key), 3);
        for (n, words) in [["old", "invoi", "run"], ["old", "invoices", "run"], ["old", "invoi", "runs"]]
            .into_iter()
            .enumerate()
        {
            let [old, invoices, runs] = words.map(subject);
            let wanted = SearchKey::And(vec![SearchKey::And(vec![old, invoices]), subject(&long), runs]);
            assert_eq!(with_word(&key, n), wanted, "{n}");
        }
        let body = fuzzy(SearchKey::Body("old invoices".to_owned()));
        let many = SearchKey::And(vec![fuzzy(subject("a b c d e f g h i")); 2]);
        assert_eq!([&body, &many].map(scored_words), [0, 0], "of bodies, and of too many words");
    }

    #[test]
    fn texts_are_looked_for_in_subjects() {
        let (text, subject) = (SearchKey::Text("a b".to_owned()), SearchKey::Subject("a b".to_owned()));
        let fuzzy = |key: &SearchKey| SearchKey::Fuzzy(Box::new(key.clone()));
        assert_eq!(in_subjects(&fuzzy(&text)), Some(fuzzy(&subject)));
        assert_eq!(in_subjects(&fuzzy(&subject)), None);
        let with_exact = SearchKey::And(vec![fuzzy(&text), text.clone()]);
        assert_eq!(in_subjects(&with_exact), None, "the other key reads bodies");
    }
}
