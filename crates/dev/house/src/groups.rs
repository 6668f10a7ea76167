//! Imports are in three groups, in this order, with an empty line between them: the standard
//! library; other crates; this crate (`crate`, `super`, `self`, child modules and types).
//!
//! The rule counts wherever lines with `use` follow each other: in files, in modules within them,
//! in functions. A re-export (`pub use`) is no import. It may divide a group, and so may the
//! declaration of a module. rustfmt sorts the lines of a group.
//!
//! An import or a re-export names one module: `use std::fs::{self, File};`. Braces contain no path.

use std::collections::BTreeSet;

/// The groups in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Group {
    Standard,
    Others,
    Own,
}

impl Group {
    /// The group of a path by its first name.
    fn of(root: &str, children: &BTreeSet<&str>) -> Self {
        match root {
            "std" | "core" | "alloc" => Self::Standard,
            "crate" | "super" | "self" => Self::Own,
            _ if children.contains(root) || root.starts_with(|c: char| c.is_uppercase()) => Self::Own,
            _ => Self::Others,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Standard => "the standard library",
            Self::Others => "other crates",
            Self::Own => "this crate",
        }
    }
}

/// One import, and what is between it and the one before.
#[derive(Clone, Copy)]
struct Import {
    group: Group,
    has_gap: bool,
    has_item: bool,
}

/// Each import of a file that is in a wrong place.
pub fn faults(file: &str, text: &str) -> Vec<String> {
    let children = children(text);
    let mut faults = Vec::new();
    let (mut before, mut has_gap, mut has_item) = (None::<Group>, false, false);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let code = line.trim_start();
        if code.is_empty() {
            has_gap = true;
        } else if declared(code).is_some() || is_export(code) {
            has_item = true;
        } else if let Some(path) = code.strip_prefix("use ") {
            let root = path.trim_start_matches("::").split([':', ';', ' ']).next().unwrap_or_default();
            let import = Import { group: Group::of(root, &children), has_gap, has_item };
            if let Some(why) = before.and_then(|before| misplaced(before, import)) {
                faults.push(format!("{file}:{}: {why}", number + 1));
            }
            (before, has_gap, has_item) = (Some(import.group), false, false);
        } else if !code.starts_with("//") && !code.starts_with("#[") {
            (before, has_gap, has_item) = (None, false, false);
        }
        if (code.starts_with("use ") || is_export(code)) && !line.contains(';') {
            lines.by_ref().find(|(_, line)| line.contains(';'));
        }
    }
    faults
}

/// Each import and re-export of a file that names several modules.
pub fn nested(file: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let code = line.trim();
        let is_whole = code.ends_with(';') || code.ends_with('{');
        if !(code.starts_with("use ") || is_export(code)) || !is_whole {
            continue;
        }
        let mut statement = code.to_owned();
        while !statement.contains(';') {
            let Some((_, line)) = lines.next() else { break };
            statement.push_str(line);
        }
        let names = statement.split_once('{').map_or("", |(_, names)| names);
        if names.contains("::") || names.contains('{') {
            faults.push(format!("{file}:{}: write an import for each module", number + 1));
        }
    }
    faults
}

/// Why an import cannot follow one of this group.
fn misplaced(before: Group, import: Import) -> Option<String> {
    let (first, second) = (before.name(), import.group.name());
    if import.group < before {
        Some(format!("imports of {second} come before those of {first}"))
    } else if import.group > before && !import.has_gap && !import.has_item {
        Some(format!("an empty line comes between imports of {first} and of {second}"))
    } else if import.group == before && import.has_gap && !import.has_item {
        Some(format!("no empty line comes between imports of {first}"))
    } else {
        None
    }
}

/// Whether a line begins a re-export.
fn is_export(code: &str) -> bool {
    after_visibility(code).is_some_and(|item| item.starts_with("use "))
}

/// The name of a module that a line declares: `mod x;`.
fn declared(code: &str) -> Option<&str> {
    let item = after_visibility(code).unwrap_or(code);
    item.strip_prefix("mod ")?.strip_suffix(';')
}

/// Modules that a file declares or contains.
fn children(text: &str) -> BTreeSet<&str> {
    let items = text.lines().map(|line| after_visibility(line.trim_start()).unwrap_or(line.trim_start()));
    let modules = items.filter_map(|item| item.strip_prefix("mod "));
    modules.filter_map(|module| module.split([';', ' ']).next()).collect()
}

/// The code after `pub` or `pub(…)`.
fn after_visibility(code: &str) -> Option<&str> {
    let rest = code.strip_prefix("pub")?;
    let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, after)| after);
    rest.strip_prefix(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_of_every_file_stand_in_three_groups() {
        let faults = crate::faults_of_sources(faults);
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn an_import_names_one_module() {
        let faults = crate::faults_of_sources(nested);
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn a_path_in_braces_is_a_fault() {
        let of = |text: &str| nested("a.rs", text);
        assert_eq!(
            of("use std::{\n    fs,\n    io::Read,\n};\n"),
            ["a.rs:1: write an import for each module"]
        );
        assert_eq!(
            of("use a::b;\n\npub use self::{x::Y, z};\n"),
            ["a.rs:3: write an import for each module"]
        );
        assert_eq!(of("mod x {\n    use a::{b::{c, d}};\n}\n").len(), 1);
        assert_eq!(
            of("use std::fs::{self, File};\nuse crate::{\n    A,\n    b,\n};\nuse x::y as z;\n"),
            [""; 0]
        );
        assert_eq!(of("use of words {::\n"), [""; 0]);
    }

    #[test]
    fn imports_in_their_groups_are_no_fault() {
        let of = |text: &str| faults("a.rs", text);
        let all = "use std::fmt;\n\nuse bytes::Bytes;\nuse serde::{\n    A,\n    B,\n};\n\nuse super::X;\nuse child::Y;\n\
                   \nmod child;\n\nfn f() {\n    use std::io;\n}\n";
        assert_eq!(of(all), [""; 0]);
        assert_eq!(of("use crate::a;\n\npub use crate::b;\n\nuse crate::c;\n"), [""; 0]);
        assert_eq!(of("pub use crate::{\n    a,\n};\npub use bytes::B;\n\nuse std::c;\n"), [""; 0]);
        assert_eq!(of("use crate::a;\n#[cfg(test)]\nuse crate::b;\n// Why.\nuse E::*;\n"), [""; 0]);
        // Each module and each function has its own groups.
        assert_eq!(
            of("use crate::a;\n\nmod x {\n    use std::io;\n}\nfn f() {\n    use std::io;\n}\n"),
            [""; 0]
        );
    }

    #[test]
    fn imports_of_two_groups_without_an_empty_line_are_a_fault() {
        let of = |text: &str| faults("a.rs", text);
        assert_eq!(
            of("use std::fmt;\nuse bytes::Bytes;\n"),
            ["a.rs:2: an empty line comes between imports of the standard library and of other crates"]
        );
        assert_eq!(of("use bytes::{\n    A,\n};\nuse crate::x;\n").len(), 1);
        assert_eq!(of("mod child;\n\nuse bytes::Bytes;\nuse child::X;\n").len(), 1);
        assert_eq!(of("use bytes::Bytes;\nuse Own::*;\n").len(), 1);
        assert_eq!(of("mod tests {\n    use std::fmt;\n    use super::*;\n}\n").len(), 1);
    }

    #[test]
    fn groups_in_another_order_are_a_fault() {
        let of = |text: &str| faults("a.rs", text);
        assert_eq!(
            of("use bytes::Bytes;\n\nuse std::fmt;\n"),
            ["a.rs:3: imports of the standard library come before those of other crates"]
        );
        assert_eq!(of("use crate::x;\n\nuse bytes::Bytes;\n").len(), 1);
        assert_eq!(of("use crate::x;\nmod y;\nuse core::fmt;\n").len(), 1);
        assert_eq!(of("use self::x;\npub use x::y;\n\nuse serde::Y;\n").len(), 1);
    }

    #[test]
    fn a_divided_group_is_a_fault() {
        let of = |text: &str| faults("a.rs", text);
        assert_eq!(
            of("use std::fmt;\n\nuse std::io;\n"),
            ["a.rs:3: no empty line comes between imports of the standard library"]
        );
        assert_eq!(of("use self::a;\n\nuse crate::b;\n").len(), 1);
    }
}
