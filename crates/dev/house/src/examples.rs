//! Examples in the documentation of a library are tests. A library that has none says so in its
//! manifest (`doctest = false`). Otherwise each run of the tests reads the library to find nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::imports::Sources;
use crate::packages;

/// Whether an example that is compiled begins at a fence, by the text after the fence.
fn is_compiled(kinds: &str) -> bool {
    let known = ["", "rust", "no_run", "should_panic", "compile_fail"];
    let is_known =
        |kind: &str| known.contains(&kind) || kind.starts_with("E0") || kind.starts_with("edition");
    kinds.split([',', ' ']).all(is_known)
}

/// Whether the documentation in a file has an example.
pub fn has_example(text: &str) -> bool {
    let mut is_within = false;
    for line in text.lines().map(str::trim_start) {
        let Some(line) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            is_within = false;
            continue;
        };
        if let Some(kinds) = line.trim().strip_prefix("```") {
            if !is_within && is_compiled(kinds) {
                return true;
            }
            is_within = !is_within;
        }
    }
    false
}

/// Each library whose manifest does not fit its documentation.
pub fn faults(metadata: &Value, sources: &BTreeMap<String, Sources>) -> Vec<String> {
    let mut faults = Vec::new();
    for package in packages(metadata).filter(|package| package["source"].is_null()) {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let Some((_, below)) = manifest.rsplit_once("/crates/") else { continue };
        let folder = format!("crates/{}", below.trim_end_matches("/Cargo.toml"));
        let is_library = |target: &&Value| target["kind"][0] == "lib";
        let mut targets = package["targets"].as_array().into_iter().flatten();
        let Some(library) = targets.find(is_library) else { continue };
        let has_examples =
            sources.get(&folder).is_some_and(|files| files.values().any(|text| has_example(text)));
        match (library["doctest"].as_bool() == Some(true), has_examples) {
            (false, true) => faults.push(format!("{folder}: it has examples, and `doctest = false`")),
            (true, false) => {
                faults.push(format!("{folder}: it has no example: `doctest = false` in `[lib]`"))
            }
            (true, true) | (false, false) => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn libraries_say_whether_their_documentation_has_examples() {
        assert_eq!(faults(&crate::metadata(), &crate::sources()), [""; 0]);
    }

    #[test]
    fn examples_are_compiled_and_drawings_are_not() {
        for text in ["/// ```\n/// f();\n/// ```", "//! ```compile_fail,E0308", "    /// ```rust,no_run"] {
            assert!(has_example(text), "{text}");
        }
        for text in ["/// ```text\n/// a ─> b\n/// ```\n", "/// ```ignore", "// ```", "let fence = \"```\";"]
        {
            assert!(!has_example(text), "{text}");
        }
    }

    #[test]
    fn a_library_whose_manifest_does_not_fit_is_a_fault() {
        let of = |doctest: bool, text: &str| {
            let sources = Sources::from([("lib.rs".to_owned(), text.to_owned())]);
            let metadata = json!({"packages": [{
                "name": "x", "source": null, "manifest_path": "/w/crates/base/x/Cargo.toml",
                "targets": [{"kind": ["bin"], "doctest": false}, {"kind": ["lib"], "doctest": doctest}],
            }]});
            faults(&metadata, &BTreeMap::from([("crates/base/x".to_owned(), sources)]))
        };
        assert_eq!(of(true, "/// ```\n"), [""; 0]);
        assert_eq!(of(false, "/// Text.\n"), [""; 0]);
        assert_eq!(of(true, "/// Text.\n").len(), 1);
        assert_eq!(of(false, "/// ```\n").len(), 1);
    }
}
