//! Any bytes as the configuration file. The fuzz target `config` includes this file together with
//! `config/mod.rs`, since a program has no library.

use std::path::Path;

use posthaste_mail_model::masked;

use super::{Config, has_password};

/// A file of any bytes: refused by an error that names it, or read. Any configuration that can be
/// read can be shown, without the password of a cluster.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Config::parse(Path::new("posthaste.toml"), text) {
        Ok(config) => {
            assert!(config.keys_that_wait(&config).is_empty());
            assert!(!config.shown().is_empty());
            let engine = masked(&config.engine);
            assert!(!has_password(&engine) || engine.contains(":…@"), "{engine}");
        }
        Err(error) => assert!(error.to_string().starts_with("posthaste.toml: "), "{error}"),
    }
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    #[test]
    fn any_bytes_are_a_configuration_or_refused() {
        fuzz_seeds("config", 3_000, super::config);
    }
}
