//! A crate depends on crates of lower layers only: the rule at the head of the root's `Cargo.toml`.
//!
//! A layer is a folder of `crates/`. Dev-dependencies are exempt: they may name crates of `dev` and
//! of any layer, because tests use what lies above. Crates of one layer may name each other, with
//! two exceptions. In `access`, no crate names another. In `load`, a table says who names whom.

use serde_json::Value;

use crate::packages;

/// Which layers a crate of each layer may name.
const BELOW: [(&str, &[&str]); 7] = [
    ("base", &["base"]),
    ("storage", &["base", "storage"]),
    ("service", &["base", "storage", "service"]),
    ("access", &["base", "storage", "service"]),
    ("app", &["base", "storage", "service", "access"]),
    ("load", &["base", "load"]),
    ("dev", &["base", "storage", "service", "access", "app", "load", "dev"]),
];

/// Which crates of `load` each of them may name, lowest first. The instrument is many small crates;
/// their order is as fixed as that of the layers.
const LOAD: [(&str, &[&str]); 10] = [
    ("imap-client", &[]),
    ("text", &[]),
    ("workload", &["text"]),
    ("results", &[]),
    ("measure", &["results"]),
    ("drive", &["imap-client", "text", "workload", "results", "measure"]),
    ("null-server", &["workload"]),
    ("report", &["text", "results"]),
    ("study", &["imap-client", "text", "workload", "results", "measure", "drive", "null-server"]),
    (
        "posthaste-load",
        &["imap-client", "text", "workload", "results", "measure", "drive", "null-server", "report", "study"],
    ),
];

/// The layer of a manifest: `storage` of `…/crates/storage/store/Cargo.toml`.
fn layer(path: &str) -> Option<&str> {
    path.rsplit_once("/crates/")?.1.split('/').next()
}

/// The folder of a crate in `load`: `drive` of `…/crates/load/drive/Cargo.toml`.
fn in_load(path: &str) -> Option<&str> {
    path.rsplit_once("/crates/load/")?.1.split('/').next()
}

/// Whether `load`'s own table lets one of its crates name another one.
fn load_allows(own: &str, other: &str) -> bool {
    LOAD.iter().any(|(name, below)| *name == own && below.contains(&other))
}

/// Each dependency that points up or sideways, and each crate outside the layers.
pub fn faults(metadata: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for package in packages(metadata).filter(|p| p["source"].is_null()) {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let own = layer(manifest);
        let Some((own, below)) = BELOW.iter().find(|(l, _)| Some(*l) == own) else {
            faults.push(format!("{name}: not in a folder of a layer below crates/"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(path) = dependency["path"].as_str() else { continue };
            let path = format!("{path}/");
            let other = layer(&path).unwrap_or("?");
            if dependency["kind"] != "dev" && !below.contains(&other) {
                let other_name = &dependency["name"];
                faults.push(format!("{name} ({own}) names {other_name} ({other}), which is not below it"));
            }
            if let (Some(own), Some(other)) = (in_load(manifest), in_load(&path))
                && dependency["kind"] != "dev"
                && !load_allows(own, other)
            {
                faults.push(format!("{name} names load/{other}: the table of load/ does not allow it"));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_name_only_crates_of_lower_layers() {
        assert_eq!(faults(&crate::metadata()), [""; 0]);
    }

    #[test]
    fn the_table_of_load_names_only_crates_above_in_it() {
        for (at, (name, below)) in LOAD.iter().enumerate() {
            let before = |other: &&str| LOAD[..at].iter().any(|(known, _)| known == other);
            assert!(below.iter().all(before), "{name}");
        }
    }

    #[test]
    fn within_load_a_dependency_upwards_is_a_fault_too() {
        let depending = |from: &str, to: &str| {
            json!({"packages": [{
                "name": "x", "source": null, "manifest_path": format!("/w/crates/load/{from}/Cargo.toml"),
                "dependencies": [{"name": "y", "kind": null, "path": format!("/w/crates/load/{to}")}],
            }]})
        };
        assert_eq!(faults(&depending("drive", "workload")), [""; 0]);
        assert_eq!(faults(&depending("workload", "drive")).len(), 1);
        assert_eq!(faults(&depending("new", "drive")).len(), 1);
    }

    #[test]
    fn a_dependency_upwards_is_a_fault_and_a_dev_dependency_is_none() {
        let depending = |kind: Value, path: &str| {
            json!({"packages": [{
                "name": "x", "source": null, "manifest_path": "/w/crates/access/x/Cargo.toml",
                "dependencies": [{"name": "y", "kind": kind, "path": path}],
            }]})
        };
        assert_eq!(faults(&depending(Value::Null, "/w/crates/app/y")).len(), 1);
        assert_eq!(faults(&depending(json!("build"), "/w/crates/dev/y")).len(), 1);
        assert_eq!(faults(&depending(Value::Null, "/w/crates/access/y")).len(), 1);
        assert_eq!(faults(&depending(json!("dev"), "/w/crates/app/y")).len(), 0);
        assert_eq!(faults(&depending(Value::Null, "/w/crates/base/y")).len(), 0);
    }
}
