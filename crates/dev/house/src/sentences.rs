//! Sentences are short.
//!
//! A sentence has at most [`WORDS_MAX`] words. `sentences.txt` has the number of longer ones that
//! each file may have. A number may only fall: with fewer sentences, its line is shortened, too.
//!
//! How words and sentences are counted:
//! - Text in backquotes, and text in quotation marks, is one word. So is a list of such texts.
//! - A sentence ends at `.`, `!` or `?` before a blank, and with its paragraph. It also ends at a
//!   colon or semicolon before a blank: what follows is read by itself.
//! - A full stop in an abbreviation (`e.g.`), in a number or after an initial ends nothing.
//! - Rows of tables, and references in brackets (`RFC 9051 §6.4.5`), are not counted.

use std::collections::BTreeMap;

use crate::prose::{self, Kind};

/// Words of a sentence that a reader takes in at once.
pub const WORDS_MAX: usize = 25;

/// The word for a quoted text.
const QUOTED: &str = "code";

/// A sentence that is too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Long {
    /// The first line of its paragraph.
    pub line: usize,
    /// The number of its words.
    pub words: usize,
    /// The sentence's first words.
    pub begin: String,
}

/// The sentences of a file that are too long.
pub fn long(file: &str, text: &str) -> Vec<Long> {
    let mut found = Vec::new();
    for paragraph in prose::of(file, text).into_iter().filter(|paragraph| paragraph.kind != Kind::Row) {
        for sentence in sentences(&paragraph.text) {
            if sentence.len() > WORDS_MAX {
                let begin = sentence.iter().take(6).map(String::as_str).collect::<Vec<_>>().join(" ");
                found.push(Long { line: paragraph.line, words: sentence.len(), begin });
            }
        }
    }
    found
}

/// The words of each sentence.
fn sentences(text: &str) -> Vec<Vec<String>> {
    let mut sentences = vec![Vec::new()];
    for word in plain(text).split_whitespace() {
        let core = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '\'');
        let sentence = sentences.last_mut().expect("there is one");
        let is_listed = core == QUOTED && sentence.last().is_some_and(|before| before == QUOTED);
        if !core.is_empty() && !is_listed {
            sentence.push(core.to_owned());
        }
        let end = word.trim_end_matches([')', ']', '*', '_', '\'']);
        let is_letter = core.len() == 1 && core.starts_with(char::is_uppercase);
        let is_abbreviation = is_letter || ["e.g", "i.e", "etc", "vs", "cf"].contains(&core);
        if end.ends_with(['!', '?', ':', ';', '|', '─']) || (end.ends_with('.') && !is_abbreviation) {
            sentences.push(Vec::new());
        }
    }
    sentences
}

/// A text whose quotations are single words, and that has no references in brackets.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let close = match c {
            '`' => after.find('`'),
            '"' => after.find('"'),
            '(' if after.starts_with("RFC ") => after.find(')'),
            ']' if after.starts_with('(') => after.find(')'),
            _ => None,
        };
        match close {
            Some(end) => {
                plain.push_str(if matches!(c, '`' | '"') { QUOTED } else { "" });
                rest = &after[end + 1..];
            }
            None => {
                plain.push(c);
                rest = after;
            }
        }
    }
    plain
}

/// Files with more long sentences than the list allows. Also lines of the list with too large a
/// number.
pub fn faults(found: &BTreeMap<String, Vec<Long>>, may: &str) -> Vec<String> {
    let mut listed = BTreeMap::new();
    for line in may.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, " | ");
        let (file, count) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if parts.next().is_some_and(|reason| !reason.trim().is_empty()) {
            listed.insert(file, count.parse::<usize>().unwrap_or(0));
        }
    }
    let mut faults = Vec::new();
    for (file, long) in found {
        let most = listed.get(file.as_str()).copied().unwrap_or(0);
        if long.len() > most {
            faults.extend(long.iter().map(|Long { line, words, begin }| {
                format!("{file}:{line}: {words} words, over {WORDS_MAX}: \"{begin} …\"")
            }));
        }
    }
    let fewer = listed.iter().filter(|(file, most)| found.get(**file).map_or(0, Vec::len) < **most);
    faults.extend(fewer.map(|(file, most)| {
        let now = found.get(*file).map_or(0, Vec::len);
        format!(
            "sentences.txt: {file} has {now} long sentences and not {most}: write {now}, or take the line out"
        )
    }));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_has_a_new_long_sentence() {
        let mut found = BTreeMap::new();
        for (file, text) in crate::prose_files() {
            let long = long(&file, &text);
            if !long.is_empty() {
                found.insert(file, long);
            }
        }
        let faults = faults(&found, &crate::read("crates/dev/house/sentences.txt"));
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    fn words(text: &str) -> Vec<usize> {
        let counts = sentences(text).into_iter().map(|sentence| sentence.len());
        counts.filter(|count| *count > 0).collect()
    }

    #[test]
    fn words_and_sentences_are_counted() {
        assert_eq!(words("One two. Three four five! Six?"), [2, 3, 1]);
        assert_eq!(words("It reads `a long text. Here` and \"b c. D\" now."), [6]);
        assert_eq!(words("A key: its value; and more."), [2, 2, 2]);
        assert_eq!(words("The rule (RFC 9051 §6.4.5) holds, e.g. here — and in [docs](a/b. c)."), [8]);
        assert_eq!(words("Version 1.5 of a.b is new (yes.) Go."), [7, 1]);
    }

    #[test]
    fn a_long_sentence_is_a_fault_until_it_is_listed_and_the_list_falls() {
        let text = format!("// {}.\n", "word ".repeat(WORDS_MAX + 1));
        let found = BTreeMap::from([("a.rs".to_owned(), long("a.rs", &text))]);
        assert_eq!(found["a.rs"].len(), 1);
        for list in ["", "a.rs | 1", "a.rs | 1 | "] {
            assert_eq!(faults(&found, list).len(), 1, "{list}");
        }
        assert_eq!(faults(&found, "# why\na.rs | 1 | x\n"), [""; 0]);
        assert_eq!(faults(&found, "a.rs | 2 | x\n").len(), 1);
        assert_eq!(faults(&BTreeMap::new(), "a.rs | 1 | x\n").len(), 1);
        assert_eq!(long("a.rs", &format!("// {}\n", "word ".repeat(WORDS_MAX))), []);
    }
}
