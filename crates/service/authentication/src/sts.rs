//! The MTA-STS policy that this server publishes for its domains (RFC 8461 §3).

use std::fmt::Write as _;

/// The treatment of a host that violates the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They send it nothing.
    Enforce,
    /// They report it.
    Testing,
    /// Nothing: a policy is being withdrawn.
    None,
}

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// See [`Mode`].
    pub mode: Mode,
    /// Hosts of the domain, or patterns of them.
    pub mx: Vec<String>,
    /// Seconds that others keep it.
    pub max_age_s: u64,
}

impl Published {
    /// Its text, as it is served.
    pub fn text(&self) -> String {
        let mode = match self.mode {
            Mode::Enforce => "enforce",
            Mode::Testing => "testing",
            Mode::None => "none",
        };
        let mut text = format!("version: STSv1\r\nmode: {mode}\r\n");
        for mx in &self.mx {
            let _ = write!(text, "mx: {mx}\r\n");
        }
        let _ = write!(text, "max_age: {}\r\n", self.max_age_s);
        text
    }

    /// A name that changes with the text, for the TXT record (FNV-1a).
    pub fn id(&self) -> String {
        let hash = self.text().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("{hash:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_rfc_and_its_name_changes_with_it() {
        let policy = Published { mode: Mode::Enforce, mx: vec!["mx.example.org".into()], max_age_s: 604_800 };
        assert_eq!(
            policy.text(),
            "version: STSv1\r\nmode: enforce\r\nmx: mx.example.org\r\nmax_age: 604800\r\n"
        );
        assert_eq!(policy.id().len(), 16);
        assert_ne!(policy.id(), Published { mode: Mode::Testing, ..policy.clone() }.id());
    }
}
