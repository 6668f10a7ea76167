//! Comments and documents use none of the words that have a plainer one.
//!
//! Text in backquotes or quotation marks does not count, nor do code and drawings in fences. So a
//! comment may name such a word. A phrase counts also where a line ends within it.

/// Words and phrases in lower case, and their replacements.
const INSTEAD: [(&str, &str); 25] = [
    ("anew", "again"),
    ("are to be", "must be"),
    ("barren", "empty"),
    ("gone", "removed, expunged or closed"),
    ("good for", "enough for, or valid for"),
    ("is to be", "must be"),
    ("make sure", "check, or ensure"),
    ("made sure", "checked, or ensured"),
    ("makes sure", "checks, or ensures"),
    ("making sure", "checking, or ensuring"),
    ("stand for", "mean, match or name"),
    ("standing for", "meaning, matching or naming"),
    ("stands for", "means, matches or names"),
    ("stood for", "meant, matched or named"),
    ("tell apart", "distinguish"),
    ("tell", "report, or show"),
    ("telling", "reporting, or showing"),
    ("tells", "reports, or shows"),
    ("told apart", "distinguished"),
    ("told", "reported, or notified"),
    ("untold", "very many"),
    ("was to be", "should be, or was due"),
    ("were to be", "should be, or were due"),
    ("whoever", "a client, or each client that"),
    ("whomever", "everybody"),
];

/// Each such word of a file. `file` ends in `.rs` or `.md`.
pub fn faults(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, paragraph) in paragraphs(text, file.ends_with(".md")) {
        let words = format!(" {} ", words_of(&paragraph).join(" "));
        for (word, instead) in INSTEAD {
            if words.contains(&format!(" {word} ")) {
                faults.push(format!("{file}:{number}: \"{word}\"; write {instead}"));
            }
        }
    }
    faults
}

/// Prose with the number of its first line: of a document, or of the comments in a source.
fn paragraphs(text: &str, is_document: bool) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, String)> = Vec::new();
    let (mut is_open, mut in_fence) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let prose = match is_document {
            true => Some(line),
            false => line.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim()),
        };
        let is_fence = prose.is_some_and(|prose| prose.starts_with("```"));
        in_fence = prose.is_some() && (in_fence ^ is_fence);
        let Some(prose) = prose.filter(|prose| !in_fence && !is_fence && !prose.is_empty()) else {
            is_open = false;
            continue;
        };
        match paragraphs.last_mut().filter(|_| is_open) {
            Some((_, paragraph)) => *paragraph = format!("{paragraph} {prose}"),
            None => paragraphs.push((number, prose.to_owned())),
        }
        is_open = true;
    }
    paragraphs
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
    fn comments_and_documents_use_plain_words() {
        let files = crate::files();
        let prose = files.iter().filter(|file| file.ends_with(".rs") || file.ends_with(".md"));
        let faults: Vec<String> = prose.flat_map(|file| faults(file, &crate::read(file))).collect();
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
        assert_eq!(of("/// It is `x` to be sure. The key as it stands, for `:value`."), [""; 0]);
    }

    #[test]
    fn documents_count_without_their_commands() {
        assert_eq!(faults("x.md", "| a | whoever asks |\n\n```\ntold\n```\n`gone`").len(), 1);
    }
}
