//! Every file of the project that a document names exists.
//!
//! A name in backquotes, or the target of a link, may be a path. It counts as one if it begins with
//! a folder of the project or has the ending of its files. Two forms are left out: what a reader's
//! own machine has (`./posthaste-data`), and names with a placeholder (`NAME`, `*`).
//!
//! So does every test that a document names: a name in backquotes of four words or more.

use std::collections::HashSet;

/// The documents that are checked.
pub const DOCUMENTS: [&str; 4] = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"];

/// Folders at the project's root.
const FOLDERS: [&str; 7] = ["crates/", "docs/", "scripts/", "fuzz/", "contrib/", "examples/", ".ci/"];

/// Whether a word of a document is meant as a path of this project.
fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let placeholder =
        word.split(['/', '.']).any(|part| part.len() > 2 && part.chars().all(|c| c.is_ascii_uppercase()))
            && !word.ends_with(".md");
    word.chars().all(plain) && !placeholder && FOLDERS.iter().any(|folder| word.starts_with(folder))
}

/// Words in backquotes. A command's words count one by one.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace)
}

/// Targets of links.
fn linked(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next())
}

/// Each path that a document names and `exists` denies. Links count from the document's folder.
pub fn faults(document: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut faults = Vec::new();
    let mut fault = |number: usize, path: &str| {
        faults.push(format!("{document}:{}: there is no {path}", number + 1));
    };
    let mut in_fence = false;
    for (number, line) in text.lines().enumerate() {
        in_fence ^= line.trim_start().starts_with("```");
        let words: Vec<&str> = match in_fence {
            true => line.split(|c: char| c.is_whitespace() || "()[],".contains(c)).collect(),
            false => quoted(line).collect(),
        };
        for word in words {
            let path = word.trim_end_matches(['.', ':', '/']);
            if is_path(word) && !exists(path) {
                fault(number, path);
            }
        }
        for target in linked(line).filter(|t| !t.is_empty() && !t.contains("://")) {
            if !exists(&joined(folder, target)) {
                fault(number, target);
            }
        }
    }
    faults
}

/// A path relative to a folder, without `..`.
fn joined(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Names of tests that a document names and the sources lack. `words` has all names of the sources.
pub fn unknown_tests(document: &str, text: &str, words: &HashSet<&str>) -> Vec<String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let is_test = |name: &str| {
        // Metrics begin with the program's name, and their suffixes are no words of the sources.
        name.matches('_').count() >= 3 && name.chars().all(plain) && !name.starts_with("posthaste_")
    };
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let names = quoted(line).filter_map(|word| word.rsplit("::").next());
        for name in names.filter(|name| is_test(name) && !words.contains(name)) {
            faults.push(format!("{document}:{}: there is no test {name}", number + 1));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_that_a_document_names_exists() {
        let files = crate::files();
        let sources = files.iter().filter(|file| {
            let is_source = [".rs", ".py", ".toml"].iter().any(|ending| file.ends_with(ending));
            is_source || file.starts_with("scripts/")
        });
        let texts: Vec<String> = sources.map(crate::read).collect();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = texts.iter().flat_map(|text| text.split(|c| !is_word(c))).collect();
        let documents = files.iter().filter(|file| file.ends_with(".md"));
        let faults: Vec<String> =
            documents.flat_map(|file| unknown_tests(file, &crate::read(file), &words)).collect();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn a_test_that_is_not_there_is_a_fault() {
        let words = HashSet::from(["a_test_with_words"]);
        let of = |text: &str| unknown_tests("x.md", text, &words);
        assert_eq!(of("`wire::a_test_with_words`, `too_short`, `posthaste_a_b_c`, a_b_c_d"), [""; 0]);
        assert_eq!(of("x\n`wire::a_test_without_words`"), ["x.md:2: there is no test a_test_without_words"]);
    }

    #[test]
    fn every_path_that_a_document_names_exists() {
        let files = crate::files();
        let docs = files.iter().filter(|f| f.starts_with("docs/") && f.ends_with(".md"));
        let documents = DOCUMENTS.into_iter().chain(docs.map(String::as_str));
        let exists = |path: &str| crate::root().join(path).exists();
        let faults: Vec<String> = documents.flat_map(|d| faults(d, &crate::read(d), exists)).collect();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn a_path_that_is_not_there_is_a_fault() {
        let of = |text: &str| faults("docs/x.md", text, |path| path == "docs/y.md");
        assert_eq!(of("`docs/y.md`, [there](y.md#part), `crates/NAME/src`, `a/b`"), [""; 0]);
        assert_eq!(of("[the web](https://example.org/z.md)"), [""; 0]);
        assert_eq!(of("`docs/z.md`").len(), 1);
        assert_eq!(of("[z](z.md)").len(), 1);
        assert_eq!(of("run `cargo x docs/z.md`").len(), 1);
        assert_eq!(of("```\nscripts/absent   # a command\n```").len(), 1);
        assert_eq!(of("[up](../docs/y.md) and [up](../y.md)").len(), 1);
    }
}
