//! A mistake in a file that a person wrote: the file, the line, the fault, and a suggestion.

use std::fmt;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;

use crate::suggestion;

/// A mistake, ready to print: `file:line:column: what`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake(String);

impl Mistake {
    /// One that has no place in a file.
    pub fn bare(what: String) -> Self {
        Self(what)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// A TOML file and what to call it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The file's name in errors.
    pub file: &'a str,
    /// The file's text.
    pub text: &'a str,
}

impl Source<'_> {
    /// Reads it into typed values; unknown fields are mistakes.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Mistake> {
        toml::from_str(self.text).map_err(|error| {
            let message = with_suggestion(error.message());
            match error.span() {
                Some(span) => self.at(span, &message),
                None => Mistake(format!("{}: {message}", self.file)),
            }
        })
    }

    /// A mistake at a place in the text.
    pub fn at(&self, span: Range<usize>, what: &str) -> Mistake {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Mistake(format!("{}:{line}:{column}: {what}", self.file))
    }

    /// The value of a word.
    pub fn word<T: Copy>(&self, word: &Spanned<String>, known: &[(&str, T)]) -> Result<T, Mistake> {
        let found = known.iter().find(|(name, _)| name == word.get_ref()).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let hint = suggestion(word.get_ref(), known.iter().map(|(name, _)| *name));
            self.at(word.span(), &format!("unknown word `{}`{hint}", word.get_ref()))
        })
    }
}

/// Turns the reader's "unknown field `a`, expected one of `b`, `c`" into a suggestion of the
/// nearest.
fn with_suggestion(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown field") {
        return message.to_owned();
    }
    let unknown = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    format!("unknown field `{unknown}`{}", suggestion(unknown, known))
}
