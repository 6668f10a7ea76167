//! Checks of the project itself, as plain tests: they read `cargo metadata` and the files.
//!
//! | module | what its test checks |
//! | --- | --- |
//! | [`layers`] | a crate depends on crates of lower layers only |
//! | [`imports`] | no file takes part in a circle of imports |
//! | [`groups`] | imports are in three groups, and each names one module |
//! | [`licences`] | the licences, sources and crates that `deny.toml` allows |
//! | [`paths`] | every file and every test that a document names exists |
//! | [`fuzz`] | every fuzz target reaches what it imports |
//! | [`events`] | the log knows frequent events by their names, and quotes what clients wrote |
//! | [`words`] | comments, documents and messages use plain words |
//! | [`sentences`] | sentences are short |
//! | [`shape`] | short files and functions, modules in their folders, no new bool arguments |
//!
//! Each check is a function from texts to a list of faults. One test runs it on the project and
//! expects no fault; others run it on wrong input and expect the fault.

pub mod events;
pub mod examples;
pub mod fuzz;
pub mod groups;
pub mod imports;
pub mod layers;
pub mod licences;
pub mod paths;
pub mod prose;
pub mod sentences;
pub mod shape;
pub mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// A file of the project as text. Panics with its path where it cannot be read.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every file that git keeps or would add, relative to [`root`].
pub fn files() -> Vec<String> {
    let args = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let mut files: Vec<String> = output("git", &args).lines().map(String::from).collect();
    files.retain(|file| root().join(file).exists());
    files
}

/// The faults that a check finds in the sources. The check gets a path and its text.
pub fn faults_of_sources<F: IntoIterator<Item = String>>(check: impl Fn(&str, &str) -> F) -> Vec<String> {
    let files = files();
    let sources = files.iter().filter(|file| file.ends_with(".rs"));
    sources.flat_map(|file| check(file, &read(file))).collect()
}

/// Every file that may have prose, with its text: sources, scripts, settings and documents.
pub fn prose_files() -> impl Iterator<Item = (String, String)> {
    let is_seed = |file: &String| file.starts_with("fuzz/seeds/") || file.contains("/samples/");
    let files = files().into_iter().filter(move |file| !is_seed(file));
    files.filter_map(|file| {
        let bytes = std::fs::read(root().join(&file)).ok()?;
        String::from_utf8(bytes).ok().map(|text| (file, text))
    })
}

/// The sources of each crate, by its folder.
pub fn sources() -> BTreeMap<String, imports::Sources> {
    let mut crates: BTreeMap<String, imports::Sources> = BTreeMap::new();
    for file in files().iter().filter(|f| f.starts_with("crates/") && f.ends_with(".rs")) {
        if let Some((krate, inside)) = file.split_once("/src/") {
            crates.entry(krate.to_owned()).or_default().insert(inside.to_owned(), read(file));
        }
    }
    crates
}

/// The output of `cargo metadata` for the workspace and every dependency on this platform.
pub fn metadata() -> Value {
    let host = output("rustc", &["-vV"]);
    let host = host.lines().find_map(|l| l.strip_prefix("host: ")).unwrap_or_else(|| panic!("rustc -vV"));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", host];
    let text = output(&cargo, &args);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("cargo metadata: {e}"))
}

/// Every crate that a build of the workspace compiles, with all features and for any platform: a
/// line for each, with its name and version.
pub fn built() -> String {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let args = ["tree", "--workspace", "--all-features", "--locked", "--target", "all"];
    output(&cargo, &[&args[..], &["--prefix", "none", "--format", "{p}"]].concat())
}

/// The packages of [`metadata`].
pub fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(root()).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {errors}", args.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
