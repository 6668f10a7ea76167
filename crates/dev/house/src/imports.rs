//! No file takes part in a circle of imports within its crate.
//!
//! What counts as an import: a path that begins with `crate`, `self`, `super` or a child module, in
//! a `use` or written out in code (`crate::x::f()`). The import goes from the file with the path to
//! the file of the module that it names. Where that module only re-exports the name (`pub use`),
//! the import goes to the file behind it. The re-export itself is an import only if the file uses
//! the name in its own code: a facade names modules that it does not need.
//!
//! What does not count: `mod` itself, `pub(in …)`, what macros expand to, and modules under
//! `#[cfg(test)]`. A file that belongs to tests as a whole is declared under `#[cfg(test)]` by its
//! parent, and is left out, too.
//!
//! A call of a method is no import: without types it is not known which file has the method. So a
//! struct with `impl` blocks in many files counts as one module, whose files see each other's
//! private methods. That is a choice. It holds where the files are parts of one machine: each
//! takes the struct and returns to it, and none has a state of its own (the logins of a
//! `Directory`, an SMTP session's `Serve`, `Filter`). A part with a state of its own is a struct of
//! its own in a file below.

use std::collections::{BTreeMap, BTreeSet};

/// A module by its path in the crate; the crate's root is empty.
type Module = Vec<String>;

/// The files of one crate: from paths relative to `src` to texts.
pub type Sources = BTreeMap<String, String>;

/// Circles that are allowed for a while. A new one needs a reason here. At present there is none.
pub const KNOWN: &[(&str, &[&str])] = &[];

/// Circles among the files of a crate: each a sorted list of files that reach each other.
pub fn circles(sources: &Sources) -> Vec<Vec<String>> {
    let files = Files::of(sources);
    let edges: BTreeMap<&Module, BTreeSet<Module>> =
        files.modules.keys().map(|module| (module, files.imports(module))).collect();
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        edges.keys().map(|module| (*module, reached_from(module, &edges))).collect();
    let mut circles = BTreeSet::new();
    for (module, others) in &reached {
        let circle = others.iter().filter(|other| reached.get(*other).is_some_and(|r| r.contains(module)));
        let circle: BTreeSet<String> = circle.map(|m| files.modules[*m].clone()).collect();
        if circle.len() > 1 {
            circles.insert(circle.into_iter().collect::<Vec<_>>());
        }
    }
    circles.into_iter().collect()
}

/// The code of the files that are not for tests alone, without comments and modules of tests.
pub fn shipped(sources: &Sources) -> BTreeMap<String, String> {
    let files = Files::of(sources);
    files.modules.into_values().map(|file| (file.clone(), code(&sources[&file]))).collect()
}

fn reached_from<'m>(start: &Module, edges: &'m BTreeMap<&Module, BTreeSet<Module>>) -> BTreeSet<&'m Module> {
    let mut reached = BTreeSet::new();
    let mut todo: Vec<&Module> = edges[start].iter().collect();
    while let Some(module) = todo.pop() {
        if reached.insert(module) {
            todo.extend(edges.get(module).into_iter().flatten());
        }
    }
    reached
}

/// The modules of a crate, each a file.
struct Files {
    modules: BTreeMap<Module, String>,
    /// Imports of each: absolute paths.
    uses: BTreeMap<Module, Vec<Vec<String>>>,
    /// Names that a module re-exports, with their absolute paths.
    exports: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl Files {
    fn of(sources: &Sources) -> Self {
        let texts: BTreeMap<&String, String> = sources.iter().map(|(f, t)| (f, code(t))).collect();
        let mut modules: BTreeMap<Module, String> =
            sources.keys().map(|file| (module_of(file), file.clone())).collect();
        let tests: Vec<Module> = texts.iter().flat_map(|(f, t)| test_modules(&module_of(f), t)).collect();
        modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let mut files = Self { modules, uses: BTreeMap::new(), exports: BTreeMap::new() };
        for (module, file) in &files.modules {
            let mut uses = Vec::new();
            let mut exports = BTreeMap::new();
            let (trees, rest) = use_trees(&texts[file]);
            let written = written_paths(&rest);
            uses.extend(written.iter().filter_map(|path| absolute(module, path, &files.modules)));
            for (exported, tree) in trees {
                for (path, name) in leaves(&tree) {
                    let Some(path) = absolute(module, &path, &files.modules) else { continue };
                    if !exported || names(&rest, &name) {
                        uses.push(path.clone());
                    }
                    if exported {
                        exports.insert(name, path);
                    }
                }
            }
            files.uses.insert(module.clone(), uses);
            files.exports.insert(module.clone(), exports);
        }
        files
    }

    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let mut imports: BTreeSet<Module> = self.uses[module].iter().map(|p| self.target(p, 8)).collect();
        imports.remove(module);
        imports
    }

    /// The module that has what an absolute path names, `hops` re-exports away at most.
    fn target(&self, path: &[String], hops: u32) -> Module {
        let len = (0..=path.len()).rev().find(|len| self.modules.contains_key(&path[..*len]));
        let len = len.unwrap_or_default();
        let behind = path.get(len).and_then(|name| self.exports.get(&path[..len])?.get(name));
        match behind {
            Some(behind) if hops > 0 => {
                let behind = [behind.as_slice(), &path[len + 1..]].concat();
                self.target(&behind, hops - 1)
            }
            _ => path[..len].to_vec(),
        }
    }
}

/// Whether code names an item that it has imported: not as a field, as a method, or as the part of
/// a path that follows another name.
fn names(code: &str, item: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut places = code.match_indices(item);
    places.any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + item.len()..]);
        let is_whole = !before.ends_with(is_name) && !after.starts_with(is_name);
        let is_member = before.ends_with('.') || before.ends_with("::");
        let is_field = after.starts_with(':') && !after.starts_with("::");
        is_whole && !is_member && !is_field && !before.ends_with("mod ")
    })
}

fn module_of(file: &str) -> Module {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" || path == "main" {
        return Module::new();
    }
    path.split('/').map(String::from).collect()
}

/// The text without comments.
pub fn uncommented(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    lines.collect::<Vec<_>>().join("\n")
}

/// The text without comments and without modules in it that are for tests.
fn code(text: &str) -> String {
    let text = uncommented(text);
    let mut code = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("#[cfg(test)]") {
        let (before, after) = rest.split_at(at);
        code.push_str(before);
        let item = without_attributes(after);
        let end = item.find(['{', ';']).unwrap_or(item.len());
        if without_visibility(&item[..end]).starts_with("mod ") && item[end..].starts_with('{') {
            // The formatter puts a module's closing brace where its `mod` begins.
            let line = before.rsplit('\n').next().unwrap_or_default();
            let close = format!("\n{line}}}");
            rest = item.find(&close).map_or("", |at| &item[at + close.len()..]);
        } else {
            code.push_str("#[cfg(test)]\n");
            rest = item;
        }
    }
    code.push_str(rest);
    code
}

/// An item without the attributes before it.
fn without_attributes(item: &str) -> &str {
    let mut rest = item;
    while let Some((_, after)) = rest.trim_start().strip_prefix("#[").and_then(|r| r.split_once("]\n")) {
        rest = after;
    }
    rest
}

/// An item without `pub` or `pub(…)` before it.
fn without_visibility(item: &str) -> &str {
    let item = item.trim_start();
    let Some(rest) = item.strip_prefix("pub") else { return item };
    let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, after)| after);
    rest.trim_start()
}

/// Files that a module declares for tests alone.
fn test_modules(module: &Module, code: &str) -> Vec<Module> {
    let declared = code.split("#[cfg(test)]").skip(1).filter_map(|after| {
        let name = after.trim_start().strip_prefix("mod ")?;
        let (name, _) = name.split_once(';')?;
        (!name.contains(char::is_whitespace)).then(|| [module.as_slice(), &[name.to_owned()]].concat())
    });
    declared.collect()
}

/// Every `use`: whether it exports, and its tree of paths without line breaks. And the code without
/// them.
fn use_trees(code: &str) -> (Vec<(bool, String)>, String) {
    let (mut trees, mut others) = (Vec::new(), String::new());
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let start = rest[..at].rfind('\n').map_or(0, |n| n + 1);
        let lead = rest[start..at].trim();
        let after = &rest[at + 4..];
        let exported = lead.starts_with("pub");
        if lead.is_empty() || (exported && !lead.contains(' ')) {
            let end = after.find(';').unwrap_or(after.len());
            let tree: String = after[..end].split_whitespace().collect::<Vec<_>>().join(" ");
            let for_tests = rest[..start].trim_end().ends_with("#[cfg(test)]");
            if !for_tests {
                trees.push((exported, tree));
            }
            others.push_str(&rest[..start]);
            rest = &after[end..];
        } else {
            others.push_str(&rest[..at + 4]);
            rest = after;
        }
    }
    others.push_str(rest);
    (trees, others)
}

/// Paths of two names and more, as they are written out in code.
fn written_paths(code: &str) -> Vec<Vec<String>> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("::") {
        let start = rest[..at]
            .rfind(|c| !is_name(c))
            .map_or(0, |before| before + rest[before..].chars().next().map_or(0, char::len_utf8));
        let lead = rest[..start].trim_end();
        let mut path = vec![rest[start..at].to_owned()];
        rest = &rest[at..];
        while let Some(after) = rest.strip_prefix("::") {
            let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
            path.push(after[..end].to_owned());
            rest = &after[end..];
        }
        path.retain(|name| !name.is_empty());
        // `$crate` is a macro's, `(in …)` a visibility.
        if path.len() > 1 && !lead.ends_with('$') && !lead.ends_with("(in") {
            paths.push(path);
        }
    }
    paths
}

/// The paths of a tree, each with the name it gets: `a::{b, c as d}` is `a::b` as b, `a::c` as d.
fn leaves(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    let Some((prefix, rest)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path: Vec<String> = path.split("::").map(|s| s.trim().to_owned()).collect();
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        let last = path.last().cloned().unwrap_or_default();
        return vec![(path, if name.is_empty() { last } else { name.trim().to_owned() })];
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.flat_map(|part| leaves(&format!("{}{part}", prefix.trim()))).collect()
}

/// The path from the crate's root; `None` for a path into another crate.
fn absolute(module: &Module, path: &[String], modules: &BTreeMap<Module, String>) -> Option<Vec<String>> {
    let first = path.first()?;
    let mut base = module.clone();
    let mut rest = path;
    match first.as_str() {
        "crate" => (base, rest) = (Module::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|s| s == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        child => {
            if !modules.contains_key(&[base.as_slice(), &[child.to_owned()]].concat()) {
                return None;
            }
        }
    }
    Some([base.as_slice(), rest].concat())
}

/// Circles that are not known, and known ones that do not exist any more or have fewer files.
pub fn faults(found: &[(String, Vec<String>)], known: &[(&str, &[&str])]) -> Vec<String> {
    let listed = |krate: &str, circle: &[String]| {
        known.iter().any(|(k, files)| *k == krate && circle.iter().eq(files.iter()))
    };
    let new = found.iter().filter(|(krate, circle)| !listed(krate, circle));
    let new = new.map(|(krate, circle)| format!("{krate}: import each other: {}", circle.join(", ")));
    let undone = known.iter().filter(|(krate, files)| {
        !found.iter().any(|(k, circle)| k == krate && circle.iter().eq(files.iter()))
    });
    let undone = undone.map(|(krate, files)| {
        format!("{krate}: this circle is no more, take it out of KNOWN or shorten it: {}", files.join(", "))
    });
    new.chain(undone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Sources {
        files.iter().map(|(file, text)| (file.to_string(), text.to_string())).collect()
    }

    fn project() -> Vec<(String, Vec<String>)> {
        let crates = crate::sources();
        let found = crates.iter().flat_map(|(k, s)| circles(s).into_iter().map(|c| (k.clone(), c)));
        found.collect()
    }

    #[test]
    fn no_file_takes_part_in_a_new_circle_of_imports() {
        let faults = faults(&project(), KNOWN);
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn a_circle_is_found_through_a_re_export_and_a_nested_list() {
        let sources = crate_of(&[
            ("lib.rs", "mod a; mod b;\npub use a::A;\n"),
            ("a.rs", "use crate::{\n    b::{self, B},\n};\n"),
            ("b.rs", "use crate::A;\n"),
        ]);
        assert_eq!(circles(&sources), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_child_that_uses_its_parent_which_uses_it_is_a_circle() {
        let sources = crate_of(&[
            ("lib.rs", "mod a;\n"),
            ("a/mod.rs", "mod b;\nuse b::B;\n"),
            ("a/b.rs", "use super::A;\n"),
        ]);
        assert_eq!(circles(&sources), [["a/b.rs", "a/mod.rs"]]);
    }

    #[test]
    fn a_re_export_that_its_file_uses_is_an_import() {
        let of = |parent: &str| {
            let sources = [("lib.rs", "mod a;\n"), ("a/mod.rs", parent), ("a/child.rs", "use super::T;\n")];
            circles(&crate_of(&sources))
        };
        let export = |rest: &str| of(&format!("mod child;\npub use child::{{X, run}};\n{rest}"));
        let circle = [["a/child.rs", "a/mod.rs"]];
        assert_eq!(export("pub struct T {\n    x: X,\n}\n"), circle);
        assert_eq!(export("impl T {\n    fn f() -> Vec<X> {\n        X::new()\n    }\n}\n"), circle);
        assert_eq!(export("fn f(t: T) {\n    run()\n}\n"), circle);
        // A facade; other items of that name.
        assert_eq!(export("pub struct T;\n"), [[""; 0]; 0]);
        assert_eq!(export("fn f(t: T) {\n    t.run(other::X { run: 1 }, XX)\n}\n"), [[""; 0]; 0]);
    }

    #[test]
    fn a_path_written_out_in_code_counts_as_an_import() {
        let of = |a: &str, b: &str| {
            let sources = [("lib.rs", "mod a; mod b;"), ("a/mod.rs", a), ("a/child.rs", b), ("b.rs", b)];
            circles(&crate_of(&sources))
        };
        let into_b = "fn f() -> u8 {\n    crate::b::g(1)\n}\n";
        let into_a = "impl<T> From<Vec<super::a::T>> for U {}\n";
        assert_eq!(of(into_b, into_a), [["a/mod.rs", "b.rs"]]);
        assert_eq!(of("fn f() { child::run(); }\n", "fn g(x: &super::T) {}"), [["a/child.rs", "a/mod.rs"]]);
        assert_eq!(of("fn f() { self::child::run() }\n", "use super::T;\n"), [["a/child.rs", "a/mod.rs"]]);
        // Names of other crates, of variants and of macros; visibilities; re-exports.
        assert_eq!(of(into_b, "fn g() { std::a::f(); E::a; $crate::a::f() }\n"), [[""; 0]; 0]);
        assert_eq!(of(into_b, "pub(in crate::a) fn g() {}\npub use crate::a::T;\n"), [[""; 0]; 0]);
    }

    #[test]
    fn a_module_of_tests_may_be_visible_and_an_import_for_tests_alone() {
        let tests =
            "#[cfg(test)]\nuse crate::a::A;\n#[cfg(test)]\npub(super) mod tests {\n    use crate::a::A;\n}\n";
        let sources = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;\n"), ("b.rs", tests)];
        assert_eq!(circles(&crate_of(&sources)), [[""; 0]; 0]);
    }

    #[test]
    fn imports_one_way_comments_and_tests_are_no_circle() {
        let sources = crate_of(&[
            ("lib.rs", "mod a; mod b;\n#[cfg(test)]\nmod tests;\nuse std::fmt;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "// use crate::a::A;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
            ("tests.rs", "use super::*;\nuse crate::a::A;\n"),
        ]);
        assert_eq!(circles(&sources), [[""; 0]; 0]);
    }

    #[test]
    fn a_new_circle_and_a_known_one_that_was_undone_are_faults() {
        let found = [("x".to_owned(), vec!["a.rs".to_owned(), "b.rs".to_owned()])];
        assert_eq!(faults(&found, &[("x", &["a.rs", "b.rs"])]), [""; 0]);
        assert_eq!(faults(&found, &[]).len(), 1);
        assert_eq!(faults(&[], &[("x", &["a.rs", "b.rs"])]).len(), 1);
    }
}
