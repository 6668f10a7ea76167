//! Licences, sources, wildcards and banned crates, as `deny.toml` has them.
//!
//! `cargo deny check` does the same check, and also looks for known vulnerabilities, for which it
//! needs the network. `scripts/test` runs it where it is installed. This check needs no other
//! program.

use serde_json::Value;
use toml::Table;

use crate::packages;

/// Where crates of others may come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Whether an SPDX expression can be met with the allowed licences. `/` is an old form of `OR`.
pub fn is_met(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    either(&mut rest, allowed) && rest.is_empty()
}

fn either(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = both(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        met |= both(rest, allowed);
    }
    met
}

fn both(rest: &mut &[&str], allowed: &[&str]) -> bool {
    let mut met = term(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        met &= term(rest, allowed);
    }
    met
}

fn term(rest: &mut &[&str], allowed: &[&str]) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let met = either(rest, allowed);
            let [")", after @ ..] = *rest else { return false };
            *rest = after;
            met
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, after @ ..] => {
            *rest = after;
            allowed.contains(licence)
        }
        [] => false,
    }
}

/// Each package whose licence or source is not allowed, and each dependency of ours on any version.
pub fn faults(metadata: &Value, deny: &Table) -> Vec<String> {
    let allowed = deny.get("licenses").and_then(|l| l.get("allow")).and_then(|a| a.as_array());
    let allowed: Vec<&str> = allowed.into_iter().flatten().filter_map(|l| l.as_str()).collect();
    let mut faults = Vec::new();
    for package in packages(metadata) {
        let name = format!("{} {}", package["name"], package["version"]);
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_met(licence, &allowed) {
            faults.push(format!("{name}: deny.toml does not allow the licence {licence:?}"));
        }
        match package["source"].as_str() {
            Some(REGISTRY) => {}
            Some(other) => faults.push(format!("{name}: comes from {other}, not from crates.io")),
            None => faults.extend(wildcards(package).map(|d| format!("{name}: any version of {d}"))),
        }
    }
    faults
}

/// Each crate of a build that `deny.toml` bans. `built` has a line for each crate: name, version.
///
/// The lock file also names crates that only a weak feature of another crate could add.
pub fn banned(built: &str, deny: &Table) -> Vec<String> {
    let list = deny.get("bans").and_then(|bans| bans.get("deny")).and_then(|list| list.as_array());
    let names: Vec<&str> =
        list.into_iter().flatten().filter_map(|entry| entry.get("crate")?.as_str()).collect();
    let is_banned = |line: &&str| line.split(' ').next().is_some_and(|name| names.contains(&name));
    built.lines().filter(is_banned).map(|line| format!("{line}: deny.toml bans the crate")).collect()
}

/// Dependencies on any version, those by path excepted.
fn wildcards(package: &Value) -> impl Iterator<Item = &Value> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|d| d["req"] == "*" && d["path"].is_null()).map(|d| &d["name"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn licences_and_sources_are_those_of_deny_toml() {
        let deny = crate::read("deny.toml").parse().unwrap();
        assert_eq!(faults(&crate::metadata(), &deny), [""; 0]);
    }

    #[test]
    fn expressions_are_met_as_spdx_says() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for met in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(GPL-3.0 OR MIT) AND ISC"] {
            assert!(is_met(met, &allowed), "{met}");
        }
        assert!(is_met("Apache-2.0 WITH LLVM-exception", &allowed));
        for unmet in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT", "MIT )", "MIT ISC"] {
            assert!(!is_met(unmet, &allowed), "{unmet}");
        }
    }

    #[test]
    fn no_build_has_a_crate_that_deny_toml_bans() {
        let deny = crate::read("deny.toml").parse().unwrap();
        let built = crate::built();
        assert!(built.lines().any(|line| line.starts_with("rustls v")), "the crates of a build");
        assert_eq!(banned(&built, &deny), [""; 0]);
    }

    #[test]
    fn a_banned_crate_is_a_fault() {
        let deny = "bans = { deny = [{ crate = \"x\" }] }".parse().unwrap();
        assert_eq!(banned("xy v1.0.0\nx v1.2.3\n", &deny), ["x v1.2.3: deny.toml bans the crate"]);
        assert_eq!(banned("xy v1.0.0\n", &deny), [""; 0]);
    }

    #[test]
    fn other_licences_sources_and_any_version_are_faults() {
        let deny = "[licenses]\nallow = [\"MIT\"]".parse().unwrap();
        let package = |licence: &str, source: Value, req: &str| {
            json!({"packages": [{
                "name": "x", "version": "1.0.0", "license": licence, "source": source,
                "dependencies": [{"name": "y", "req": req, "path": null}],
            }]})
        };
        assert_eq!(faults(&package("MIT", json!(REGISTRY), "*"), &deny), [""; 0]);
        assert_eq!(faults(&package("GPL-3.0", json!(REGISTRY), "^1"), &deny).len(), 1);
        assert_eq!(faults(&package("MIT", json!("git+https://example.org/x"), "^1"), &deny).len(), 1);
        assert_eq!(faults(&package("MIT", Value::Null, "*"), &deny).len(), 1);
    }
}
