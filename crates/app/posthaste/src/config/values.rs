//! Values of settings that several sections have: "auto", times, networks, addresses.

use std::time::Duration;

use posthaste_directory::Network;
use posthaste_net::SocketAddress;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

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

pub(super) fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text)
        .map_err(|e| serde::de::Error::custom(format!("{text:?} is not a time: {e}")))
}
