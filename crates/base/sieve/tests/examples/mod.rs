//! The examples of the RFCs, as scripts and messages of our own with the expected effects.
//! `tests/rfc` runs them by our interpreter, `tests/pigeonhole` by Pigeonhole's as well.
//!
//! The envelope is always from [`FROM`] to [`TO`].

mod base;
mod extensions;
mod tests;
mod variables;

/// The envelope's sender.
pub const FROM: &str = "ana@example.org";
/// The envelope's recipient.
pub const TO: &str = "ken+sieve@example.com";

/// A script, a message, and what becomes of it.
pub struct Example {
    /// The RFC and the section of the example.
    pub section: &'static str,
    /// The script, without `require`.
    pub script: &'static str,
    /// The required extensions, with commas between them.
    pub require: &'static str,
    /// The message, with LF at the ends of lines.
    pub message: &'static str,
    /// The actions, sorted: `store MAILBOX FLAG…`, `redirect ADDRESS`, `reject REASON`,
    /// `vacation`, `notify`. No effect is a discard.
    pub actions: &'static [&'static str],
    /// The actions of Pigeonhole where they differ, and why we stay with ours.
    pub theirs: Option<(&'static [&'static str], &'static str)>,
}

impl Example {
    const fn new(
        section: &'static str,
        require: &'static str,
        script: &'static str,
        message: &'static str,
        actions: &'static [&'static str],
    ) -> Self {
        Self { section, script, require, message, actions, theirs: None }
    }

    const fn where_pigeonhole_says(self, actions: &'static [&'static str], why: &'static str) -> Self {
        Self { theirs: Some((actions, why)), ..self }
    }

    /// The whole script.
    pub fn text(&self) -> String {
        let names: Vec<String> = self
            .require
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| format!("\"{name}\""))
            .collect();
        match names.is_empty() {
            true => self.script.to_owned(),
            false => format!("require [{}];\n{}", names.join(", "), self.script),
        }
    }

    /// The message as it comes by SMTP.
    pub fn mail(&self) -> String {
        self.message.replace('\n', "\r\n")
    }
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Example> {
    [base::EXAMPLES, tests::EXAMPLES, variables::EXAMPLES, extensions::EXAMPLES].into_iter().flatten()
}

const INBOX: &[&str] = &["store INBOX"];
const NOTHING: &[&str] = &[];
/// A message from Ana to Ken.
const PLAIN: &str = "From: Ana <ana@example.org>\nTo: Ken <ken+sieve@example.com>\nSubject: hello\n\
    Date: Tue, 29 Feb 2000 10:05:09 +0100\nMessage-ID: <1@example.org>\n\nHello Ken.\n";
