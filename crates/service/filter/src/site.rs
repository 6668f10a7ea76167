//! Scripts of the administrator: before and after those of all accounts, and those that accounts
//! may include (RFC 6609, `:global`).
//!
//! They run as one with the account's script: `include` one after the other. So `stop` in one ends
//! all, `return` ends one, and a later one adds its effects.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_sieve::{CompileErrors, Location, Script};

use crate::compile::compile;

/// The name under which the account's own script is included. No account can give a script such a
/// name.
pub(crate) const OWN: &str = "own/active";
/// Scripts of one folder: a run includes 64 at most.
const SCRIPTS_MAX: usize = 20;
const ENDING: &str = ".sieve";

/// The folders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteFolders {
    /// Scripts that run before that of the account, in the order of their names.
    pub before: Option<PathBuf>,
    /// Scripts that run after that of the account.
    pub after: Option<PathBuf>,
    /// Scripts that accounts may include.
    pub global: Option<PathBuf>,
}

/// The scripts of the folders, compiled.
#[derive(Debug)]
pub struct SiteScripts {
    /// All, with the account's own in the middle.
    pub(crate) with_own: Arc<Script>,
    /// All, without it.
    pub(crate) alone: Arc<Script>,
    /// Whether any runs for each message.
    pub(crate) runs: bool,
    /// The scripts that run before the account's own, and after it, in their order.
    before: Vec<String>,
    after: Vec<String>,
    /// By the name that `include :global` has for them.
    pub(crate) scripts: HashMap<String, Arc<Script>>,
}

/// Why the folders cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A folder or file cannot be read.
    #[error("{0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// A script does not compile.
    #[error("{0}: {1}")]
    Compile(PathBuf, CompileErrors),
    /// There are too many.
    #[error("{0} has more than {SCRIPTS_MAX} scripts: join some")]
    TooMany(PathBuf),
}

impl SiteScripts {
    /// Reads the files `*.sieve` of the folders. All must compile.
    pub fn read(folders: &SiteFolders) -> Result<Self, SiteError> {
        let mut scripts = HashMap::new();
        let before = read_folder(folders.before.as_deref(), "before/", &mut scripts)?;
        let after = read_folder(folders.after.as_deref(), "after/", &mut scripts)?;
        read_folder(folders.global.as_deref(), "", &mut scripts)?;
        let main = |own: &str| {
            let mut text = "require \"include\";\r\n".to_owned();
            before.iter().for_each(|name| include(&mut text, "global", name));
            if !own.is_empty() {
                include(&mut text, "personal", own);
            }
            after.iter().for_each(|name| include(&mut text, "global", name));
            compile(&text).map(Arc::new).map_err(|errors| SiteError::Compile("sieve.before".into(), errors))
        };
        let runs = !before.is_empty() || !after.is_empty();
        Ok(Self { with_own: main(OWN)?, alone: main("")?, runs, before, after, scripts })
    }

    /// The scripts that run for an account, with or without a script of its own.
    pub fn whole(&self, own: Option<&Arc<Script>>) -> Arc<Script> {
        Arc::clone(if own.is_some() { &self.with_own } else { &self.alone })
    }

    /// A script that [`Self::whole`], or an account's, includes from here. `own` is the account's.
    pub fn included(&self, from: Location, name: &str, own: &Arc<Script>) -> Option<Arc<Script>> {
        match from {
            Location::Personal => (name == OWN).then(|| Arc::clone(own)),
            Location::Global => self.scripts.get(name).cloned(),
        }
    }

    /// The names of all scripts that run for an account, in their order: `before/NAME`, that of its
    /// own, `after/NAME`.
    pub fn around<'s>(&'s self, own: Option<&'s str>) -> impl Iterator<Item = &'s str> {
        let before = self.before.iter().map(String::as_str);
        before.chain(own).chain(self.after.iter().map(String::as_str))
    }
}

fn include(text: &mut String, location: &str, name: &str) {
    let name = name.replace('\\', "\\\\").replace('"', "\\\"");
    let _ = write!(text, "include :{location} \"{name}\";\r\n");
}

/// The names of a folder's scripts, in their order.
fn read_folder(
    folder: Option<&Path>,
    prefix: &str,
    scripts: &mut HashMap<String, Arc<Script>>,
) -> Result<Vec<String>, SiteError> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let failed = |error| SiteError::Read(folder.to_owned(), error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(ENDING)).map(str::to_owned));
    }
    names.sort_unstable();
    if names.len() > SCRIPTS_MAX {
        return Err(SiteError::TooMany(folder.to_owned()));
    }
    for name in &mut names {
        let file = folder.join(format!("{name}{ENDING}"));
        let text = std::fs::read_to_string(&file).map_err(|error| SiteError::Read(file.clone(), error))?;
        let script = compile(&text).map_err(|errors| SiteError::Compile(file, errors))?;
        name.insert_str(0, prefix);
        scripts.insert(name.clone(), Arc::new(script));
    }
    Ok(names)
}
