//! Comments, documents and messages do not use words that have a plainer one.
//!
//! Text in backquotes or quotation marks does not count, nor do code and drawings in fences. So a
//! comment may name such a word. A phrase counts also where a line ends within it. [`prose`] says
//! which files are read, and which string literals are messages.

use crate::prose::{self, Paragraph};

/// Words and phrases in lower case, and their replacements.
const INSTEAD: [(&str, &str); 36] = [
    ("afresh", "again"),
    ("anew", "again"),
    ("are to be", "must be"),
    ("barren", "empty"),
    ("be it", "also if it is"),
    ("gone", "removed, expunged or closed"),
    ("good for", "enough for, or valid for"),
    ("is to be", "must be"),
    ("laid claim", "named"),
    ("let be", "left unchanged"),
    ("made sure", "checked, or ensured"),
    ("make sure", "check, or ensure"),
    ("makes sure", "checks, or ensures"),
    ("making sure", "checking, or ensuring"),
    ("may be none", "may be empty"),
    ("needed no more", "dead, or not needed"),
    ("never none", "never empty"),
    ("none others", "no others"),
    ("ruined", "destroyed, or damaged"),
    ("stand for", "mean, match or name"),
    ("standing for", "meaning, matching or naming"),
    ("stands for", "means, matches or names"),
    ("stood for", "meant, matched or named"),
    ("tell", "report, or show"),
    ("tell apart", "distinguish"),
    ("telling", "reporting, or showing"),
    ("tells", "reports, or shows"),
    ("time after time", "repeatedly"),
    ("told", "reported, or notified"),
    ("told apart", "distinguished"),
    ("untold", "very many"),
    ("was to be", "should be, or was due"),
    ("were to be", "should be, or were due"),
    ("whence", "from where"),
    ("whoever", "a client, or each client that"),
    ("whomever", "everybody"),
];

/// Each such word of a file.
pub fn faults(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for Paragraph { line, text, .. } in prose::of(file, text) {
        let words = format!(" {} ", words_of(&text).join(" "));
        for (word, instead) in INSTEAD {
            if words.contains(&format!(" {word} ")) {
                faults.push(format!("{file}:{line}: \"{word}\"; write {instead}"));
            }
        }
    }
    faults
}

/// The words in lower case, without quoted text. Quotes and punctuation end a phrase.
fn words_of(paragraph: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut closing = None;
    for c in paragraph.chars() {
        match closing {
            Some(end) if c == end => closing = None,
            Some(_) => {}
            None if c == '`' || c == '"' => {
                closing = Some(c);
                plain.push_str(" | ");
            }
            None if ",;:.!?()".contains(c) => plain.push_str(" | "),
            None => plain.extend(c.to_lowercase()),
        }
    }
    let marks = |c: char| !c.is_alphanumeric() && c != '|' && c != '\'';
    plain.split(marks).filter(|word| !word.is_empty()).map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_documents_and_messages_use_plain_words() {
        let faults: Vec<String> =
            crate::prose_files().flat_map(|(file, text)| faults(&file, &text)).collect();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn words_of_comments_count_and_those_of_code_do_not() {
        let of = |text: &str| faults("x.rs", text);
        assert_eq!(of("/// The client is told.").len(), 1);
        assert_eq!(of("// What a star stands\n// for, and what is to\n// be done.").len(), 2);
        assert_eq!(of("let told = 1;\n/// `told`, \"gone\"\n// A foretold word."), [""; 0]);
        assert_eq!(of("// What stands\nlet x = 1;\n// for itself"), [""; 0]);
        assert_eq!(of("//! ```text\n//! told ──> gone\n//! ```\n//! Anew.").len(), 1);
        assert_eq!(faults("a/src/x.rs", "f(\"nobody was told it\"); g(\"told\");").len(), 1);
        assert_eq!(of("/// It is `x` to be sure. The key as it stands, for `:value`."), [""; 0]);
    }

    #[test]
    fn documents_count_without_their_commands() {
        assert_eq!(faults("x.md", "| a | whoever asks |\n\n```\ntold\n```\n`gone`").len(), 1);
    }
}
