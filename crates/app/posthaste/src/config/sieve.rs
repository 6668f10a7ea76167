//! The section `sieve`: scripts of the administrator.

use std::path::{Path, PathBuf};

use posthaste_filter::{SiteFolders, SiteScripts};
use serde::Deserialize;

use crate::failure::{Failure, Result};

/// `default.toml` explains each of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Sieve {
    pub before: PathBuf,
    pub after: PathBuf,
    pub global: PathBuf,
}

impl Sieve {
    /// Reads and compiles the scripts.
    pub fn site(&self) -> Result<SiteScripts> {
        let folder = |path: &Path| (!path.as_os_str().is_empty()).then(|| path.to_owned());
        let folders = SiteFolders {
            before: folder(&self.before),
            after: folder(&self.after),
            global: folder(&self.global),
        };
        SiteScripts::read(&folders).map_err(|error| {
            Failure::Usage(format!("`sieve.before`, `sieve.after`, `sieve.global`: {error}"))
        })
    }
}
