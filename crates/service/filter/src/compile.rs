//! Compiles a script with the extensions and limits of this server.

use std::sync::Arc;

use posthaste_directory::SCRIPT_BYTES_MAX;
use posthaste_sieve::{Capabilities, CompileErrors, Limits, Script};

/// A script, or why it does not compile.
pub(crate) type Compiled = Result<Arc<Script>, String>;

/// The extensions that scripts may use here, and their limits.
fn capabilities() -> Capabilities {
    let limits = Limits { script_bytes_max: SCRIPT_BYTES_MAX, ..Limits::default() };
    Capabilities { limits, ..Capabilities::default() }
}

/// Compiles a script as delivery does, or says everything that is wrong with it.
pub fn compile(text: &str) -> Result<Script, CompileErrors> {
    Script::compile(text, &capabilities())
}
