//! The configuration of a command: a file, changed by the command line.

use std::path::Path;

use crate::cli::Common;
use crate::config::{self, Config};
use crate::failure::Result;
use crate::memory;
use crate::private;

/// The file that is read when none is named.
const USUAL_FILE: &str = "posthaste.toml";

/// The file of the configuration: the named one, or the usual one if it is there.
pub fn configuration_file(common: &Common) -> Option<&Path> {
    let usual = Path::new(USUAL_FILE);
    common.config.as_deref().or_else(|| usual.exists().then_some(usual))
}

/// The configuration: the named file, or the usual one if it is there, or the defaults; then the
/// command line.
pub fn configuration(common: &Common) -> Result<Config> {
    let file = configuration_file(common);
    if let (None, Some(usual)) = (&common.config, file) {
        private::trusted_here(usual)?;
    }
    let mut config = match file {
        Some(file) => Config::load(file)?,
        None => Config::default(),
    };
    if let Some(file) = file
        && config::has_password(&config.engine)
    {
        private::tighten_secret("engine", file)?;
    }
    if let Some(data) = &common.data {
        config.data.clone_from(data);
    }
    if let Some(engine) = &common.engine {
        config.engine.clone_from(engine);
    }
    if let Some(bodies) = &common.bodies {
        config.bodies.clone_from(bodies);
    }
    memory::set_message_size(&mut config);
    Ok(config)
}
