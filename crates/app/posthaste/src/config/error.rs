//! Errors of a configuration file.

use std::path::PathBuf;

/// A fault of a configuration, ready to be shown.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error(
        "{file}: {source}. Name another with --config, or write one: posthaste config --default > posthaste.toml"
    )]
    Read { file: PathBuf, source: std::io::Error },
    /// A key that does not exist.
    #[error("{file}: unknown key `{key}`{}", nearest.as_ref().map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKey { file: PathBuf, key: String, nearest: Option<String> },
    /// Not TOML, or a value of the wrong kind.
    #[error("{file}: {message}")]
    Invalid { file: PathBuf, message: String },
}
