//! Values of settings that several sections have: "auto", times, networks, addresses.

use std::time::Duration;

use posthaste_directory::Network;
use posthaste_net::SocketAddress;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// The times that a setting may have. The server adds them to the present time, and three of them
/// together: a sum without a bound might be no time at all.
struct TimeRange {
    least: Duration,
    most: Duration,
    /// The range in words, for errors.
    words: &'static str,
}

/// A year, as in "1 year".
const YEAR_SECONDS: u64 = 31_557_600;
/// Less is no time for anything: with a login in 0 s, nobody could log in.
const TIMEOUT: TimeRange = TimeRange {
    least: Duration::from_secs(1),
    most: Duration::from_secs(YEAR_SECONDS),
    words: "from 1 s to 1 year",
};
/// Zero often means "never".
const PERIOD: TimeRange =
    TimeRange { least: Duration::ZERO, most: Duration::from_secs(YEAR_SECONDS), words: "at most 1 year" };
/// Mail may be kept for a lifetime.
const AGE: TimeRange = TimeRange {
    least: Duration::ZERO,
    most: Duration::from_secs(100 * YEAR_SECONDS),
    words: "at most 100 years",
};

/// A value, or "auto": what fits the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auto<T> {
    Auto,
    Is(T),
}

impl<T> Auto<T> {
    /// The value that is set, changed by `change`; `None` for "auto".
    pub fn map<U>(self, change: impl FnOnce(&T) -> U) -> Option<U> {
        match self {
            Self::Auto => None,
            Self::Is(value) => Some(change(&value)),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Auto<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::String(text) if text == "auto" => Ok(Self::Auto),
            value => T::deserialize(value).map(Self::Is).map_err(serde::de::Error::custom),
        }
    }
}

pub(super) fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Network>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

/// Addresses and Unix sockets.
pub(super) fn places<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddress>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}

/// Permissions of a file, octal.
pub(super) fn permissions<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let text = String::deserialize(from)?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| serde::de::Error::custom(format!("{text:?} are not permissions; write \"0660\"")))
}

/// A time limit for others, or for an answer.
pub(super) fn timeout<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    time(from, &TIMEOUT)
}

/// Any other time, except for ages of mail.
pub(super) fn period<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    time(from, &PERIOD)
}

/// An age of mail.
pub(super) fn age<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    time(from, &AGE)
}

/// A time in a range. No setting has a time without one.
fn time<'de, D: Deserializer<'de>>(from: D, range: &TimeRange) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let time = humantime::parse_duration(&text)
        .map_err(|e| serde::de::Error::custom(format!("{text:?} is not a time: {e}")))?;
    match (range.least..=range.most).contains(&time) {
        true => Ok(time),
        false => Err(serde::de::Error::custom(format!("{text:?} must be {}", range.words))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Config, DEFAULT};

    fn parse(line: &str) -> Result<Config, String> {
        Config::parse(Path::new("posthaste.toml"), line).map_err(|error| error.to_string())
    }

    /// The keys of a table whose default is a time.
    fn times(table: &toml::Table, prefix: &str) -> Vec<String> {
        let keys = table.iter().flat_map(|(key, default)| match default {
            toml::Value::Table(inner) => times(inner, &format!("{prefix}{key}.")),
            toml::Value::String(text) if humantime::parse_duration(text).is_ok() => {
                vec![format!("{prefix}{key}")]
            }
            _ => Vec::new(),
        });
        keys.collect()
    }

    #[test]
    fn every_time_has_a_range() {
        let keys = times(&toml::from_str(DEFAULT).unwrap(), "");
        assert!(keys.len() >= 20, "{keys:?}");
        let with = |key: &str, time: &str| parse(&format!("{key} = {time:?}"));
        for key in &keys {
            let is_timeout = key.ends_with("timeout");
            let range = if is_timeout { "from 1 s to 1 year" } else { "at most 1 year" };
            let below = if is_timeout { &["0 s", "999 ms"][..] } else { &[][..] };
            for time in ["1 year 1 s", "300000000000 years"].iter().chain(below) {
                let error = with(key, time).unwrap_err();
                assert!(error.contains(&format!("{time:?} must be {range}")), "{error}");
                assert!(error.contains(&format!("`{key}`")), "{error}");
            }
            if is_timeout {
                assert!(with(key, "1 s").is_ok() && with(key, "1 year").is_ok(), "{key}");
            }
        }
    }

    #[test]
    fn times_in_lists_have_a_range() {
        let rule = |age: &str| {
            parse(&format!(
                "retention.rules = [{{ mailbox = \"INBOX\", action = \"delete\", older_than = {age:?} }}]"
            ))
        };
        assert!(rule("100 years").is_ok());
        let error = rule("101 years").unwrap_err();
        assert!(error.contains("\"101 years\" must be at most 100 years"), "{error}");
        assert!(error.contains("older_than"), "{error}");
        let milter = |timeout: &str| {
            parse(&format!("screening.milters = [{{ at = \"127.0.0.1:8891\", timeout = {timeout:?} }}]"))
        };
        assert!(milter("1 s").is_ok());
        let error = milter("0 s").unwrap_err();
        assert!(error.contains("\"0 s\" must be from 1 s to 1 year") && error.contains("timeout"), "{error}");
    }
}
