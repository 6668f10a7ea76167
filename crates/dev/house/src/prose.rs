//! The prose of a file: its comments, its paragraphs and its messages to users.
//!
//! | file | what is prose |
//! | --- | --- |
//! | `.md` | all text outside of fences |
//! | `.rs` | comments; string literals of three words and more, outside of tests |
//! | `.go` | comments after `//`; string literals of three words and more |
//! | `.py`, scripts | comments after `#`; docstrings; string literals of three words and more |
//! | `.toml`, `.conf`, `.service` | comments after `#`; string values of three words and more |
//!
//! A fence in a comment holds code or a drawing, and is no prose. A comment after code on its
//! line is not read.

use std::ops::Range;

/// A paragraph of prose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paragraph {
    /// The number of its first line, from 1.
    pub line: usize,
    /// The paragraph's text on one line.
    pub text: String,
    /// Whether it is a text, a row or a message.
    pub kind: Kind,
}

/// The kind of text that a paragraph is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A paragraph of a document or a comment.
    Text,
    /// A row of a table.
    Row,
    /// A string literal that somebody may read.
    Message,
}

/// Words from which a string literal counts as a message. Shorter ones are mostly names.
const MESSAGE_WORDS: usize = 3;

/// The prose of a file; none of a kind of file that is not in the table above.
pub fn of(file: &str, text: &str) -> Vec<Paragraph> {
    let name = file.rsplit('/').next().unwrap_or(file);
    let is_script = !name.contains('.') && text.starts_with("#!");
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("md") => paragraphs(text.lines().map(|line| Some(line.trim()))),
        Some("rs") => sorted([comments(text, "//"), rust_messages(file, text)]),
        Some("go") => sorted([comments(text, "//"), line_messages(text, "//")]),
        Some("py") => sorted([comments(text, "#"), docstrings(text), line_messages(text, "#")]),
        Some("toml" | "conf" | "service") => sorted([comments(text, "#"), line_messages(text, "#")]),
        _ if is_script => sorted([comments(text, "#"), docstrings(text), line_messages(text, "#")]),
        _ => Vec::new(),
    }
}

fn sorted<const N: usize>(parts: [Vec<Paragraph>; N]) -> Vec<Paragraph> {
    let mut all = parts.concat();
    all.sort_by_key(|paragraph| paragraph.line);
    all
}

/// Joins lines to paragraphs. `None` is a line without prose.
fn paragraphs<'t>(lines: impl Iterator<Item = Option<&'t str>>) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let (mut is_open, mut in_fence) = (false, false);
    for (line, prose) in (1..).zip(lines) {
        let is_fence = prose.is_some_and(|prose| prose.starts_with("```"));
        in_fence = prose.is_some() && (in_fence ^ is_fence);
        let Some(prose) = prose.filter(|prose| !in_fence && !is_fence && !prose.is_empty()) else {
            is_open = false;
            continue;
        };
        let is_row = prose.starts_with('|');
        let is_item = ["- ", "* ", "#"].iter().any(|mark| prose.starts_with(mark))
            || prose.split(". ").next().is_some_and(is_number);
        is_open &= !is_row && !is_item;
        match paragraphs.last_mut().filter(|_| is_open) {
            Some(paragraph) => paragraph.text = format!("{} {prose}", paragraph.text),
            None => {
                let kind = if is_row { Kind::Row } else { Kind::Text };
                paragraphs.push(Paragraph { line, text: prose.to_owned(), kind });
            }
        }
        is_open = !is_row;
    }
    paragraphs
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Comments that are on their own lines.
fn comments(text: &str, mark: &str) -> Vec<Paragraph> {
    paragraphs(text.lines().map(|line| comment(line, mark)))
}

/// The text of a line that is a comment. After `#`, an indented line is an example.
fn comment<'t>(line: &'t str, mark: &str) -> Option<&'t str> {
    let rest = line.trim().strip_prefix(mark)?;
    let is_other = mark == "#" && (rest.starts_with("  ") || rest.starts_with('!'));
    (!is_other).then(|| rest.trim_start_matches(['/', '!']).trim())
}

/// The docstrings of Python: they begin their line. A line that is indented more than the docstring
/// is an example.
fn docstrings(text: &str) -> Vec<Paragraph> {
    const MARK: &str = "\"\"\"";
    // The indent of the docstring that is open; `None` of a string that is none.
    let mut open: Option<Option<usize>> = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut prose = open.flatten().filter(|base| indent <= *base).map(|_| line.trim());
        let marks = line.matches(MARK).count();
        if marks > 0 {
            let is_docstring = match open {
                Some(base) => base.is_some(),
                None => line.trim_start().starts_with(MARK),
            };
            let part = line.split(MARK).nth(usize::from(open.is_none()));
            prose = part.map(str::trim).filter(|_| is_docstring);
            if marks % 2 == 1 {
                open = if open.is_some() { None } else { Some(is_docstring.then_some(indent)) };
            }
        }
        lines.push(prose);
    }
    paragraphs(lines.into_iter())
}

/// String literals in double quotes on one line, of files without a parser here.
fn line_messages(text: &str, mark: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().starts_with(mark));
    for (number, line) in lines.filter(|(_, line)| !line.contains("\"\"\"")) {
        for text in line.split('"').skip(1).step_by(2) {
            found.extend(message(number, text));
        }
    }
    found
}

/// A line of a literal, if it is a message.
fn message(line: usize, text: &str) -> Option<Paragraph> {
    let is_word = |word: &&str| word.chars().all(|c| c.is_alphabetic() || "'-,.:;()`".contains(c));
    let words = text.split_whitespace().filter(is_word).filter(|word| word.contains(char::is_lowercase));
    (words.count() >= MESSAGE_WORDS).then(|| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Paragraph { line, text, kind: Kind::Message }
    })
}

/// String literals of Rust that are messages. Tests have no users.
fn rust_messages(file: &str, text: &str) -> Vec<Paragraph> {
    let is_test = ["/tests/", "/benches/", "crates/dev/", "fuzz/", "tests.rs"];
    if is_test.iter().any(|part| file.contains(part)) {
        return Vec::new();
    }
    let tests = test_modules(text);
    let literals = Literals { text, at: 0 };
    let shipped = literals.filter(|(at, _)| !tests.iter().any(|range| range.contains(at)));
    let lines = shipped.flat_map(|(at, literal)| {
        let number = text[..at].matches('\n').count() + 1;
        literal.lines().filter_map(|line| message(number, line)).collect::<Vec<_>>()
    });
    lines.collect()
}

/// The places of the modules for tests in a file. The formatter puts their closing braces at the
/// beginning of a line.
fn test_modules(text: &str) -> Vec<Range<usize>> {
    let begins = text.match_indices("\n#[cfg(test)]\n").map(|(at, _)| at);
    let modules = begins.filter_map(|at| {
        let item = text[at + 1..].lines().find(|line| !line.starts_with("#["))?;
        let is_module = item.contains("mod ") && item.ends_with('{');
        is_module.then(|| at..text[at..].find("\n}\n").map_or(text.len(), |end| at + end))
    });
    modules.collect()
}

/// The string literals of a Rust source, each with where it begins.
struct Literals<'t> {
    text: &'t str,
    at: usize,
}

impl Iterator for Literals<'_> {
    type Item = (usize, String);

    fn next(&mut self) -> Option<(usize, String)> {
        while let Some(rest) = self.text.get(self.at..).filter(|rest| !rest.is_empty()) {
            if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
            } else if let Some(len) = character(rest) {
                self.at += len;
            } else if let Some((open, close)) = raw_string(self.text, self.at) {
                let inner = &rest[open..];
                let end = inner.find(&close).unwrap_or(inner.len());
                let begin = self.at;
                self.at += open + (end + close.len()).min(inner.len());
                return Some((begin, inner[..end].to_owned()));
            } else if let Some(inner) = rest.strip_prefix('"') {
                let end = string_end(inner);
                let begin = self.at;
                self.at += end + 2;
                return Some((begin, shown(&inner[..end])));
            } else {
                self.at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        None
    }
}

/// The length of a character literal at the front. A lifetime is not a literal.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if let Some(escaped) = inner.strip_prefix('\\') {
        let first = escaped.chars().next()?.len_utf8();
        return Some(2 + first + escaped[first..].find('\'')? + 1);
    }
    let first = inner.chars().next()?.len_utf8();
    inner[first..].starts_with('\'').then_some(first + 2)
}

/// The length of what opens a raw string here, and what closes it.
fn raw_string(text: &str, at: usize) -> Option<(usize, String)> {
    if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') && !text[..at].ends_with('b') {
        return None;
    }
    let hashes = text[at..].strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    hashes[count..].starts_with('"').then(|| (count + 2, format!("\"{}", "#".repeat(count))))
}

/// Where a string ends, whose opening quote came before.
fn string_end(inner: &str) -> usize {
    let mut is_escaped = false;
    let end = inner.char_indices().find(|(_, c)| {
        let ends = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    end.map_or(inner.len().saturating_sub(1), |(at, _)| at)
}

/// A literal as it is shown. Other escapes than those of quotes and line ends are blanks.
fn shown(literal: &str) -> String {
    let mut out = String::new();
    let mut chars = literal.chars();
    let mut depth = 0_u32;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('"') => out.push('"'),
                Some('n') => out.push('\n'),
                // The next line continues after its indent.
                _ => out.push(' '),
            },
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                out.push('…');
            }
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str, text: &str) -> Vec<(usize, String)> {
        of(file, text).into_iter().map(|paragraph| (paragraph.line, paragraph.text)).collect()
    }

    fn line(number: usize, text: &str) -> (usize, String) {
        (number, text.to_owned())
    }

    #[test]
    fn comments_and_messages_of_a_source_are_prose() {
        let source = "//! A file\n//! of two lines.\n\nconst A: &str = \"the disk is \\\n    full of {x}\";\n\
                      let x = ('\"', 'a', &'a b, r#\"what a raw text\"#, \"name\"); // behind\n\
                      #[cfg(test)]\nmod tests {\n    const B: &str = \"the words of a test\";\n}\n";
        let expected =
            [line(1, "A file of two lines."), line(4, "the disk is full of …"), line(6, "what a raw text")];
        assert_eq!(texts("crates/a/src/b.rs", source), expected);
        assert_eq!(texts("crates/a/tests/b.rs", "let a = \"the words of a test\";"), []);
    }

    #[test]
    fn scripts_settings_and_documents_have_prose() {
        let script = "#!/bin/sh\n# Does it.\necho \"it was done now\" \"x\"\n";
        assert_eq!(texts("scripts/x", script), [line(2, "Does it."), line(3, "it was done now")]);
        let python = "def f():\n    \"\"\"Makes a thing.\n\n    And more.\n    \"\"\"\n    g(\"what went so wrong\")\n";
        assert_eq!(
            texts("x.py", python),
            [line(2, "Makes a thing."), line(4, "And more."), line(6, "what went so wrong")]
        );
        assert_eq!(
            texts("x.toml", "# A setting.\na = \"some words in it\"\n"),
            [line(1, "A setting."), line(2, "some words in it")]
        );
        let document = "A text\nof two.\n- an item\n- another\n\n```\ncode\n```\n| a | row |\n";
        let expected =
            [line(1, "A text of two."), line(3, "- an item"), line(4, "- another"), line(9, "| a | row |")];
        assert_eq!(texts("x.md", document), expected);
        assert_eq!(texts("x.eml", "# told"), []);
    }
}
