//! A compiled script: made once, run for each message.

use crate::check::check;
use crate::compiled::Block;
use crate::error::{CompileError, CompileErrors, Position};
use crate::extension::ExtensionSet;
use crate::limits::Limits;
use crate::parser::parse;

/// The extensions and limits that a server gives scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The extensions that `require` may name.
    pub extensions: ExtensionSet,
    /// The limits of a script and its runs.
    pub limits: Limits,
}

impl Default for Capabilities {
    fn default() -> Self {
        Capabilities { extensions: ExtensionSet::all(), limits: Limits::default() }
    }
}

/// A script, checked and compiled. It is shared freely: a run changes nothing of it.
#[derive(Debug, Clone)]
pub struct Script {
    pub(crate) block: Block,
    pub(crate) enabled: ExtensionSet,
    pub(crate) locals: u16,
    regexes: usize,
    pub(crate) limits: Limits,
}

impl Script {
    /// Compiles a script, or says everything that is wrong with it.
    pub fn compile(source: &str, capabilities: &Capabilities) -> Result<Script, CompileErrors> {
        let limits = &capabilities.limits;
        if source.len() > limits.script_bytes_max {
            let message =
                format!("the script is longer than {} bytes: make it shorter", limits.script_bytes_max);
            let place = Position { line: 1, column: 1 };
            return Err(CompileErrors(vec![CompileError::new(place, message)]));
        }
        let commands = parse(source, limits).map_err(|error| CompileErrors(vec![error]))?;
        let checked = check(&commands, capabilities.extensions, limits).map_err(CompileErrors)?;
        Ok(Script {
            block: checked.block,
            enabled: checked.enabled,
            locals: checked.locals,
            regexes: checked.regexes,
            limits: limits.clone(),
        })
    }

    /// Bytes that its compiled regular expressions take at most. Memory besides them is in
    /// proportion to the source.
    pub fn regex_bytes_max(&self) -> usize {
        self.regexes * self.limits.regex_bytes_max
    }

    /// The extensions that the script requested.
    pub fn extensions(&self) -> ExtensionSet {
        self.enabled
    }
}
