//! The priority of a message (RFC 6710).

use std::fmt;

use serde::{Deserialize, Serialize};

/// `-9` to `9`; a message of a higher priority is sent before others that wait for the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "i8", into = "i8")]
pub struct Priority(i8);

impl Priority {
    /// The priority without the parameter.
    pub const NORMAL: Self = Self(0);

    /// RFC 6710 §7: `priority-value = (["-"] NZDIGIT) / "0"`
    pub fn parse(text: &str) -> Option<Self> {
        let digit = text.strip_prefix('-').unwrap_or(text);
        let is_good = matches!(digit.as_bytes(), [b'1'..=b'9']) || text == "0";
        is_good.then(|| text.parse().ok()).flatten().map(Self)
    }

    /// Whether it is that of messages without the parameter.
    pub fn is_normal(&self) -> bool {
        *self == Self::NORMAL
    }
}

impl TryFrom<i8> for Priority {
    type Error = String;

    fn try_from(value: i8) -> Result<Self, String> {
        match (-9..=9).contains(&value) {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not a priority: write a number from -9 to 9")),
        }
    }
}

impl From<Priority> for i8 {
    fn from(Priority(value): Priority) -> Self {
        value
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The rank of an item: it decides when the item is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    /// The item is not sent before this time, unix seconds.
    pub next: i64,
    /// It is sent before items of a lower priority.
    pub priority: Priority,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_printed() {
        for value in -9..=9 {
            let priority = Priority::try_from(value).unwrap();
            assert_eq!(Priority::parse(&priority.to_string()), Some(priority));
            assert_eq!(serde_json::from_str::<Priority>(&value.to_string()).unwrap(), priority);
        }
        for wrong in ["", "-", "-0", "00", "+1", "10", "-10", "1 ", "a", "01", "\u{0663}"] {
            assert_eq!(Priority::parse(wrong), None, "{wrong}");
        }
        assert!(serde_json::from_str::<Priority>("10").is_err());
    }
}
