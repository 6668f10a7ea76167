//! Every fuzz target names only what it can reach.
//!
//! `fuzz/` is a workspace of its own and needs libFuzzer, so that `cargo test` does not build it. A
//! target may include files of the server by their path, since a program has no library. Such a
//! file soon imports more than the targets have. This check reads the imports instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Table;

/// Names that need no line in the manifest.
const KNOWN: [&str; 6] = ["std", "core", "alloc", "self", "super", "crate"];

/// A module that a file declares: its name, and its file where an attribute gives one.
struct Module {
    name: String,
    path: Option<String>,
}

/// The text of a file without its tests and comments.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The modules that are declared in files of their own. Modules for tests are left out.
fn modules(code: &str) -> Vec<Module> {
    let (mut modules, mut path, mut in_tests) = (Vec::new(), None, false);
    for line in code.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.strip_suffix("\"]").map(String::from);
        } else if line == "#[cfg(test)]" {
            in_tests = true;
        } else if !line.starts_with("#[") {
            let name = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("mod ");
            if let Some(name) = name.and_then(|rest| rest.strip_suffix(';'))
                && !in_tests
            {
                modules.push(Module { name: name.to_owned(), path: path.clone() });
            }
            (path, in_tests) = (None, false);
        }
    }
    modules
}

/// The first name of each import, and each `posthaste_…` and `crate::…` elsewhere.
fn names(code: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let imports = code.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("pub use ").or_else(|| line.strip_prefix("use "))
    });
    let mut names: Vec<String> = imports.map(word).collect();
    names.extend(code.match_indices("posthaste_").map(|(at, _)| word(&code[at..])));
    names.extend(code.match_indices("crate::").map(|(at, _)| format!("crate::{}", word(&code[at + 7..]))));
    names.sort();
    names.dedup();
    names.retain(|name| !name.is_empty() && !KNOWN.contains(&name.as_str()));
    names
}

/// Each name of a target, or of a file that it includes, that the target cannot reach.
/// `read` gives the text of a file by its path.
pub fn faults(target: &Path, crates: &[String], read: &impl Fn(&Path) -> String) -> Vec<String> {
    let top = code(&read(target));
    let roots: Vec<String> = modules(&top).into_iter().map(|module| module.name).collect();
    let mut faults = Vec::new();
    let mut open = vec![(target.to_owned(), top)];
    while let Some((file, code)) = open.pop() {
        let own = modules(&code);
        for name in names(&code) {
            let reached = match name.strip_prefix("crate::") {
                Some(module) => roots.iter().any(|root| root == module),
                None => crates.contains(&name) || own.iter().any(|module| module.name == name),
            };
            if !reached {
                faults.push(format!("{}: {} does not have {name}", target.display(), file.display()));
            }
        }
        for path in own.into_iter().filter_map(|module| module.path) {
            let path = file.parent().map_or(PathBuf::new(), |folder| folder.join(path));
            let text = read(&path);
            open.push((path, self::code(&text)));
        }
    }
    faults
}

/// The crates that a manifest names, as code names them.
pub fn crates(manifest: &Table) -> Vec<String> {
    let names = manifest["dependencies"].as_table().into_iter().flat_map(|table| table.keys());
    names.map(|name| name.replace('-', "_")).collect()
}

/// What a manifest's profile for tests says of crates of others. Cargo checks such a crate once for
/// both workspaces only if this is the same.
pub fn profile_of_others(manifest: &Table) -> Table {
    let mut profile = manifest["profile"]["dev"].as_table().cloned().unwrap_or_default();
    if let Some(packages) = profile.get_mut("package").and_then(|packages| packages.as_table_mut()) {
        packages.retain(|name, _| !name.starts_with("posthaste"));
    }
    profile
}

/// Each target that has no seeds or no test that runs them, and each folder of seeds without a
/// target. `sources` is the text of all crates.
pub fn without_a_test(files: &[String], sources: &str) -> Vec<String> {
    let targets = files.iter().filter_map(|f| f.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs"));
    let targets: BTreeSet<&str> = targets.collect();
    let seeds = files.iter().filter_map(|f| Some(f.strip_prefix("fuzz/seeds/")?.split_once('/')?.0));
    let seeds: BTreeSet<&str> = seeds.collect();
    let mut faults = Vec::new();
    for name in targets.union(&seeds) {
        if !seeds.contains(name) {
            faults.push(format!("{name}: it has no seeds"));
        }
        if !targets.contains(name) {
            faults.push(format!("{name}: it is no target"));
        }
        if !sources.contains(&format!("fuzz_seeds(\"{name}\"")) {
            faults.push(format!("{name}: no test runs its seeds"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stable toolchain runs each target over its seeds: a test names the folder.
    #[test]
    fn every_target_has_seeds_and_a_test_that_reads_them() {
        let files = crate::files();
        let sources = files.iter().filter(|f| f.starts_with("crates/") && f.ends_with(".rs"));
        let text: String = sources.map(crate::read).collect();
        let faults = without_a_test(&files, &text);
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn a_target_without_seeds_or_without_a_test_is_a_fault() {
        let files = ["fuzz/fuzz_targets/a.rs", "fuzz/fuzz_targets/b.rs", "fuzz/seeds/a/1"].map(String::from);
        assert_eq!(without_a_test(&files[..1], "fuzz_seeds(\"a\", 1)"), ["a: it has no seeds"]);
        assert_eq!(without_a_test(&files, "fuzz_seeds(\"a\", 1)").len(), 2);
        assert_eq!(without_a_test(&files[2..], ""), ["a: it is no target", "a: no test runs its seeds"]);
        let both = [files.as_slice(), &["fuzz/seeds/b/1".to_owned()]].concat();
        assert_eq!(without_a_test(&both, "fuzz_seeds(\"a\", 1) fuzz_seeds(\"b\", 1)"), [""; 0]);
    }

    #[test]
    fn every_target_reaches_what_it_and_its_files_import() {
        let manifest: Table = crate::read("fuzz/Cargo.toml").parse().unwrap();
        let crates = crates(&manifest);
        let files = crate::files();
        let targets = files.iter().filter(|f| f.starts_with("fuzz/fuzz_targets/") && f.ends_with(".rs"));
        let faults: Vec<String> =
            targets.flat_map(|t| faults(Path::new(t), &crates, &|path| crate::read(path))).collect();
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn crates_of_others_have_the_profile_that_they_have_in_the_project() {
        let profile = |manifest: &str| profile_of_others(&manifest.parse::<Table>().unwrap());
        assert_eq!(profile(&crate::read("fuzz/Cargo.toml")), profile(&crate::read("Cargo.toml")));
        let of = |name: &str| {
            format!("[profile.dev]\nopt-level = 1\n[profile.dev.package.{name}]\nopt-level = 3\n")
        };
        assert_eq!(profile(&of("posthaste-net")), profile(&of("posthaste-store")));
        assert_ne!(profile(&of("argon2")), profile(&of("blake2")));
    }

    #[test]
    fn an_import_that_the_targets_lack_is_a_fault() {
        let target =
            "#[path = \"../a/config.rs\"]\nmod config;\nuse config::Config;\nuse libfuzzer_sys::x;\n";
        let of = |config: &str| {
            let read = |path: &Path| match path.ends_with("config.rs") {
                true => config.to_owned(),
                false => target.to_owned(),
            };
            faults(Path::new("fuzz/t.rs"), &["libfuzzer_sys".to_owned(), "posthaste_net".to_owned()], &read)
        };
        assert_eq!(of("use std::fs;\nuse posthaste_net::Place;\nuse crate::config::X;\n"), [""; 0]);
        assert_eq!(of("use crate::cli::LEAST;\n").len(), 1);
        assert_eq!(of("fn f(x: posthaste_milter::Milter) {}\n").len(), 1);
        assert_eq!(of("use serde::Deserialize;\n").len(), 1);
        assert_eq!(of("#[cfg(test)]\nmod tests {\n    use posthaste_testkit::x;\n}\n"), [""; 0]);
    }
}
