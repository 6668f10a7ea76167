//! The section `imap`: information for IMAP clients about the server, and limits of commands.

use serde::Deserialize;

/// RFC 9738 §3: a limit of messages for each command should not be lower.
pub const COMMAND_LIMIT_MIN: u32 = 1000;

/// Octets of a URL at most: a line that clients read without a literal.
const URL_MAX: usize = 1000;

/// Values that IMAP clients read, and limits of their commands.
#[derive(Debug, Clone, Deserialize)]
pub struct Imap {
    pub comment: String,
    pub admin: String,
    pub jmap_url: String,
    pub gmail: bool,
    pub annotations: bool,
    pub message_limit: u32,
    pub save_limit: u32,
}

impl Imap {
    pub(super) fn check(&self) -> Result<(), String> {
        let is_scheme = |scheme: &str| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c))
        };
        let is_uri =
            self.admin.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
                && self.admin.chars().all(|c| c.is_ascii_graphic());
        if !self.admin.is_empty() && !is_uri {
            return Err(
                "`imap.admin` must be a URI, such as \"mailto:postmaster@example.org\", or empty".into()
            );
        }
        if !self.jmap_url.is_empty() && !is_https(&self.jmap_url) {
            return Err("`imap.jmap_url` must be the URL of a JMAP session, such as \
                        \"https://mail.example.org/.well-known/jmap\", or empty"
                .into());
        }
        for (key, limit) in [("message_limit", self.message_limit), ("save_limit", self.save_limit)] {
            if (1..COMMAND_LIMIT_MIN).contains(&limit) {
                return Err(format!("`imap.{key}` must be at least {COMMAND_LIMIT_MIN}, or 0 for no limit"));
            }
        }
        if self.comment.contains('\0') {
            return Err("`imap.comment` must be text without NUL".into());
        }
        Ok(())
    }
}

/// Whether this is a URL of a host by https, in characters that a quoted string may have.
fn is_https(url: &str) -> bool {
    let rest = url.strip_prefix("https://").filter(|_| url.len() <= URL_MAX);
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    host.is_some_and(|host| !host.is_empty() && !host.contains('@'))
        && url.chars().all(|c| c.is_ascii_graphic() && !"\"\\<>".contains(c))
}
