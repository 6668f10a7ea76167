//! The shape of files and functions: a file and a function have one idea, and a call shows what its
//! arguments mean.

use std::collections::{BTreeMap, BTreeSet};

/// Lines of a file: some dozen screens. Longer ones have more than one idea, as a rule.
const LINES_MAX: usize = 600;

/// Files that may be longer, each with the lines that it may have and the reason.
const LONGER: &[(&str, usize, &str)] =
    &[("crates/dev/simulator/src/record.rs", 700, "one table of operations and all that they need")];

/// Modules `x.rs` that have a folder `x/` beside them, instead of being `x/mod.rs`. Cargo finds
/// the roots of tests by their name, so they do not count.
pub fn beside_their_folder(files: &[String]) -> Vec<String> {
    let folders: BTreeSet<&str> = files.iter().filter_map(|file| Some(file.rsplit_once('/')?.0)).collect();
    let is_beside = |file: &&String| {
        let has_folder = file.strip_suffix(".rs").is_some_and(|folder| folders.contains(folder));
        has_folder && file.contains("/src/")
    };
    let beside = files.iter().filter(is_beside);
    beside.map(|file| format!("{file}: make it {}/mod.rs", file.trim_end_matches(".rs"))).collect()
}

/// A file that is too long.
pub fn too_long(file: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let most = LONGER.iter().find(|(longer, ..)| *longer == file).map_or(LINES_MAX, |(_, most, _)| *most);
    (lines > most).then(|| format!("{file}: {lines} lines, over {most}: split it by idea"))
}

/// Arguments from which on a function needs a reason.
const ARGUMENTS_MANY: usize = 6;

/// Functions that take many arguments, each as `path: name`, in code without comments and tests.
pub fn many_takers(file: &str, code: &str) -> BTreeSet<String> {
    let signatures = signatures(code);
    let many = signatures.filter(|(_, parameters)| arguments(parameters) >= ARGUMENTS_MANY);
    many.map(|(name, _)| format!("{file}: {name}")).collect()
}

/// The number of arguments in parameters on one line.
fn arguments(parameters: &str) -> usize {
    let (mut depth, mut before, mut commas) = (0, ' ', 0);
    for c in parameters.chars() {
        let closes = matches!(c, ')' | ']' | '}') || (c == '>' && before != '-');
        depth += i32::from(matches!(c, '(' | '[' | '{' | '<')) - i32::from(closes);
        commas += usize::from(c == ',' && depth == 0);
        before = c;
    }
    commas + usize::from(!parameters.is_empty())
}

/// Functions that take a bool, each as `path: name`, in code without comments and tests.
///
/// A function type or a pair with a bool in it does not count.
pub fn bool_takers(file: &str, code: &str) -> BTreeSet<String> {
    let takes =
        |parameters: &str| parameters.split(": ").skip(1).any(|of| of == "bool" || of.starts_with("bool,"));
    let takers = signatures(code).filter(|(_, parameters)| takes(parameters));
    takers.map(|(name, _)| format!("{file}: {name}")).collect()
}

/// The names of the functions in a code, and their parameters on one line.
fn signatures(code: &str) -> impl Iterator<Item = (&str, String)> {
    code.match_indices("fn ").filter_map(|(at, keyword)| {
        let is_keyword = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        signature(&code[at + keyword.len()..]).filter(|_| is_keyword)
    })
}

/// Lines of code in a function: a screen. A longer one mixes ideas, as a rule.
const FUNCTION_LINES_MAX: usize = 60;

/// Functions that are too long, each as `path: name` with its lines of code. `code` is formatted
/// and has no comments and tests. Empty lines do not count.
pub fn long_functions(file: &str, code: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let lines: Vec<&str> = code.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((name, indent)) = begins_function(line) else { continue };
        // The formatter puts the closing brace where the line of the `fn` begins.
        let close = format!("{indent}}}");
        let body = lines[at..].iter().take_while(|line| line.trim_end() != close);
        let count = body.filter(|line| !line.trim().is_empty()).count() + 1;
        let is_declared = line.ends_with('}') || line.ends_with(';');
        if count > FUNCTION_LINES_MAX && !is_declared {
            found.insert(format!("{file}: {name}"), count);
        }
    }
    found
}

/// The name of a function that begins on this line, and the spaces before it.
fn begins_function(line: &str) -> Option<(&str, &str)> {
    let begin = line.trim_start();
    let (qualifiers, rest) = begin.split_once("fn ")?;
    let is_function = qualifiers.split_whitespace().all(|word| {
        let known = ["const", "async", "unsafe", "extern", "\"C\"", "pub"];
        known.contains(&word) || word.starts_with("pub(") || word.ends_with(')')
    });
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let name = Some(&rest[..end]).filter(|name| is_function && !name.is_empty())?;
    Some((name, &line[..line.len() - begin.len()]))
}

/// Long functions that the list does not have, or that have grown. Also lines of the list without a
/// reason, and lines of functions that are no longer long.
pub fn length_faults(found: &BTreeMap<String, usize>, may: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut listed = BTreeSet::new();
    for line in may.lines().filter(|line| !line.starts_with('#')) {
        let mut parts = line.splitn(3, " | ");
        let (name, most) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if parts.next().is_none_or(|reason| reason.trim().is_empty()) {
            faults.push(format!("{name}: the list has no reason for it"));
        }
        match (found.get(name), most.parse::<usize>()) {
            (Some(lines), Ok(most)) if *lines > most => {
                faults.push(format!("{name}: {lines} lines, over {most}: split it by idea"));
            }
            (Some(_), Ok(_)) => {}
            (Some(_), Err(_)) => faults.push(format!("{name}: the list has no number of lines")),
            (None, _) => faults.push(format!("{name} is not long: take its line out of the list")),
        }
        listed.insert(name);
    }
    let new = found.iter().filter(|(name, _)| !listed.contains(name.as_str()));
    faults.extend(
        new.map(|(name, lines)| {
            format!("{name}: {lines} lines, over {FUNCTION_LINES_MAX}: split it by idea")
        }),
    );
    faults
}

/// The name of a function, and its parameters on one line.
fn signature(code: &str) -> Option<(&str, String)> {
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let (name, rest) = code.split_at(end);
    if name.is_empty() {
        return None;
    }
    let rest = &rest[generics(rest)..];
    let rest = rest.strip_prefix('(')?;
    let mut depth = 1;
    let close = rest.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    })?;
    let parameters: Vec<&str> = rest[..close].split_whitespace().collect();
    Some((name, parameters.join(" ").trim_end_matches(',').to_owned()))
}

/// The length of `<…>` at the front. The arrow of a function type closes nothing.
fn generics(code: &str) -> usize {
    let (mut depth, mut before) = (0, ' ');
    for (at, c) in code.char_indices() {
        depth += i32::from(c == '<') - i32::from(c == '>' && before != '-');
        if depth == 0 {
            return if c == '>' { at + 1 } else { 0 };
        }
        before = c;
    }
    0
}

/// The subject of a list of functions, and the advice for a new one.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    what: &'static str,
    not: &'static str,
    remedy: &'static str,
}

/// The list of functions that take a bool.
pub const BOOLS: Listed =
    Listed { what: "takes a bool", not: "takes no bool", remedy: "make it an enum, or two functions" };
/// The list of functions that take many arguments.
pub const MANY: Listed =
    Listed { what: "takes six arguments", not: "takes fewer", remedy: "make a struct of some" };

/// Functions that are not in the list of those that may. Also lines of the list without a reason,
/// and lines of functions that need none.
pub fn list_faults(found: &BTreeSet<String>, may: &str, Listed { what, not, remedy }: Listed) -> Vec<String> {
    let lines = may.lines().filter(|line| !line.starts_with('#'));
    let may: BTreeMap<&str, &str> = lines.map(|line| line.split_once(" | ").unwrap_or((line, ""))).collect();
    let new = found.iter().filter(|taker| !may.contains_key(taker.as_str()));
    let new = new.map(|taker| format!("{taker} {what}: {remedy}"));
    let unexplained = may.iter().filter(|(_, reason)| reason.trim().is_empty());
    let unexplained = unexplained.map(|(taker, _)| format!("{taker}: the list has no reason for it"));
    let old = may.keys().filter(|taker| !found.contains(**taker));
    let old = old.map(|taker| format!("{taker} {not}: take its line out of the list"));
    new.chain(unexplained).chain(old).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_too_long() {
        let faults = crate::faults_of_sources(too_long);
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn modules_with_files_are_in_their_folder() {
        let faults = beside_their_folder(&crate::files());
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    #[test]
    fn a_module_beside_its_folder_is_a_fault() {
        let files = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let faults = beside_their_folder(&files(&["a/src/x.rs", "a/src/x/y.rs"]));
        assert_eq!(faults, ["a/src/x.rs: make it a/src/x/mod.rs"]);
        assert_eq!(beside_their_folder(&files(&["a/src/x/mod.rs", "a/src/x/y.rs", "a/src/z.rs"])), [""; 0]);
        assert_eq!(beside_their_folder(&files(&["a/tests/x.rs", "a/tests/x/y.rs"])), [""; 0]);
    }

    #[test]
    fn no_new_function_takes_a_bool() {
        let mut found = BTreeSet::new();
        for (krate, sources) in crate::sources() {
            for (file, code) in crate::imports::shipped(&sources) {
                found.extend(bool_takers(&format!("{krate}/src/{file}"), &code));
            }
        }
        let faults = list_faults(&found, &crate::read("crates/dev/house/bools.txt"), BOOLS);
        let remedy =
            "where the call shows what it means, add the line to crates/dev/house/bools.txt with a reason";
        assert!(faults.is_empty(), "\n{}\n{remedy}\n", faults.join("\n"));
    }

    #[test]
    fn no_new_function_is_too_long() {
        let mut found = BTreeMap::new();
        for (krate, sources) in crate::sources() {
            for (file, code) in crate::imports::shipped(&sources) {
                found.extend(long_functions(&format!("{krate}/src/{file}"), &code));
            }
        }
        let faults = length_faults(&found, &crate::read("crates/dev/house/long.txt"));
        let remedy = "where one screen more shows it best, add the line to crates/dev/house/long.txt";
        assert!(faults.is_empty(), "\n{}\n{remedy} with a reason\n", faults.join("\n"));
    }

    #[test]
    fn no_new_function_of_a_test_is_too_long() {
        let mut found = BTreeMap::new();
        let files = crate::files().into_iter().filter(|f| f.starts_with("crates/") && f.ends_with(".rs"));
        for file in files {
            found.extend(long_functions(&file, &crate::imports::uncommented(&crate::read(&file))));
        }
        for (krate, sources) in crate::sources() {
            for (file, code) in crate::imports::shipped(&sources) {
                let file = format!("{krate}/src/{file}");
                for name in long_functions(&file, &code).keys() {
                    found.remove(name);
                }
            }
        }
        let faults = length_faults(&found, &crate::read("crates/dev/house/long-tests.txt"));
        assert!(faults.is_empty(), "\n{}\n(crates/dev/house/long-tests.txt)\n", faults.join("\n"));
    }

    #[test]
    fn no_new_function_takes_many_arguments() {
        let mut found = BTreeSet::new();
        for (krate, sources) in crate::sources() {
            for (file, code) in crate::imports::shipped(&sources) {
                found.extend(many_takers(&format!("{krate}/src/{file}"), &code));
            }
        }
        let faults = list_faults(&found, &crate::read("crates/dev/house/arguments.txt"), MANY);
        let remedy = "where a struct would say no more, add the line to crates/dev/house/arguments.txt";
        assert!(faults.is_empty(), "\n{}\n{remedy} with a reason\n", faults.join("\n"));
    }

    #[test]
    fn the_lines_of_a_function_are_counted() {
        let of = |lines: usize| format!("    x();\n\n{}", "    x();\n".repeat(lines - 3));
        for head in ["fn a() {", "pub(crate) const fn a(", "pub async fn a<T>() -> T {"] {
            let at_most = format!("{head}\n{}}}\nfn b() {{}}\n", of(FUNCTION_LINES_MAX));
            assert_eq!(long_functions("a.rs", &at_most), BTreeMap::new());
            let longer = format!("{head}\n{}}}\nfn b() {{}}\n", of(FUNCTION_LINES_MAX + 1));
            let expected = BTreeMap::from([("a.rs: a".to_owned(), FUNCTION_LINES_MAX + 1)]);
            assert_eq!(long_functions("a.rs", &longer), expected);
        }
        let inner = format!("impl A {{\n    fn a() {{\n{}    }}\n}}\n", of(FUNCTION_LINES_MAX + 1));
        assert_eq!(long_functions("a.rs", &inner).len(), 1);
        let others = format!("let f: fn (u8) = a;\nfn b();\nfn c() {{}}\n{}", of(FUNCTION_LINES_MAX + 1));
        assert_eq!(long_functions("a.rs", &others), BTreeMap::new());
    }

    #[test]
    fn a_long_function_needs_a_line_with_its_length_and_a_reason() {
        let found = BTreeMap::from([("a.rs: a".to_owned(), 70)]);
        assert_eq!(length_faults(&found, "# why\na.rs: a | 70 | one table\n"), [""; 0]);
        for list in ["", "a.rs: a | 69 | one table", "a.rs: a | 70", "a.rs: a | 70 | ", "a.rs: a | x | y"] {
            assert_eq!(length_faults(&found, list).len(), 1, "{list}");
        }
        let old = length_faults(&found, "a.rs: a | 70 | x\na.rs: b | 70 | x");
        assert_eq!(old, ["a.rs: b is not long: take its line out of the list"]);
    }

    #[test]
    fn a_long_file_is_a_fault() {
        assert_eq!(too_long("a.rs", &"x\n".repeat(LINES_MAX)), None);
        assert!(too_long("a.rs", &"x\n".repeat(LINES_MAX + 1)).is_some());
        for (file, most, _) in LONGER {
            assert_eq!(too_long(file, &"x\n".repeat(*most)), None);
            assert!(too_long(file, &"x\n".repeat(most + 1)).is_some());
        }
    }

    #[test]
    fn parameters_are_found_in_any_form() {
        let code = "pub fn a(x: bool) {}\n    async fn b<F: Fn(u8) -> bool>(\n        &self,\n        y: bool,\n    ) -> u8 {}\n\
                    fn c(f: impl Fn(u8) -> bool, z: &[bool], p: (bool, bool)) -> bool { let x: bool = true; x }\n\
                    type T = fn(bool) -> u8;\nfn d(p: (u8, u8), x: bool, z: u8) {}\n";
        assert_eq!(Vec::from_iter(bool_takers("a.rs", code)), ["a.rs: a", "a.rs: b", "a.rs: d"]);
    }

    #[test]
    fn arguments_are_counted() {
        let six = "fn a(&self, x: Map<u8, u8>, f: impl Fn(u8, u8) -> u8, (p, q): (u8, u8), y: u8, z: u8) {}";
        assert_eq!(Vec::from_iter(many_takers("a.rs", six)), ["a.rs: a"]);
        let five =
            "fn a(\n    self,\n    x: u8,\n    y: [u8; 4],\n    Z { z, .. }: Z,\n    v: &[(u8, u8)],\n) {}";
        assert!(many_takers("a.rs", five).is_empty() && many_takers("a.rs", "fn a() {}").is_empty());
    }

    #[test]
    fn a_function_without_a_line_and_a_line_without_a_function_or_a_reason_are_faults() {
        let found = BTreeSet::from(["a.rs: a".to_owned(), "a.rs: b".to_owned()]);
        assert_eq!(list_faults(&found, "# why\na.rs: a | `--json`\na.rs: b | `--yes`\n", BOOLS), [""; 0]);
        let new = list_faults(&found, "a.rs: a | `--json`\n", BOOLS);
        assert_eq!(new, ["a.rs: b takes a bool: make it an enum, or two functions"]);
        for without in ["a.rs: b", "a.rs: b | ", "a.rs: b |"] {
            assert!(
                !list_faults(&found, &format!("a.rs: a | `--json`\n{without}\n"), BOOLS).is_empty(),
                "{without}"
            );
        }
        let old = list_faults(&found, "a.rs: a | x\na.rs: b | x\na.rs: c | x", BOOLS);
        assert_eq!(old, ["a.rs: c takes no bool: take its line out of the list"]);
    }
}
