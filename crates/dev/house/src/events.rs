//! The log writes frequent events in batches, and knows them by their names. So each name of its
//! list is that of an event, and each event with a name is in the list.
//!
//! An event that is renamed on one side only would be written at once. Nothing would fail, and the
//! log would be slow.
//!
//! Text that a client chose is logged in quotes. Without them, a quoted local part such as
//! `"x account=ben"` would look like another field.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Sources, shipped};

/// Fields whose text a client may have chosen. `%` prints a field without quotes.
const OF_CLIENTS: [&str; 10] =
    ["author", "folder", "from", "helo", "identifier", "recipient", "sender", "subject", "to", "user"];

/// The file with the list.
const LOG: &str = "crates/service/logging/src/lib.rs";

/// The names in the list `FREQUENT` of that file.
fn frequent(text: &str) -> Vec<&str> {
    let list = text.split_once("const FREQUENT:").and_then(|(_, after)| after.split_once("= ["));
    let names = list.and_then(|(_, after)| after.split_once(']')).map_or("", |(names, _)| names);
    names.split('"').skip(1).step_by(2).collect()
}

/// The names of events in code. The first argument of a macro of `tracing` may be a name.
fn named(code: &str) -> impl Iterator<Item = &str> {
    code.split("!(").skip(1).filter_map(|arguments| {
        let name = arguments.trim_start().strip_prefix("name:")?;
        name.trim_start().strip_prefix('"')?.split('"').next()
    })
}

/// Names of the list that no event has, and names of events that the list does not have.
pub fn faults(log: &str, crates: &BTreeMap<String, Sources>) -> Vec<String> {
    let frequent = frequent(log);
    if frequent.is_empty() {
        return vec![format!("{LOG}: there is no list FREQUENT")];
    }
    let (mut faults, mut logged) = (Vec::new(), BTreeSet::new());
    for (krate, sources) in crates {
        for (file, code) in shipped(sources) {
            for name in named(&code) {
                if !frequent.contains(&name) {
                    faults.push(format!("{krate}/src/{file}: FREQUENT in {LOG} lacks the event \"{name}\""));
                }
                logged.insert(name.to_owned());
            }
        }
    }
    let unknown = frequent.iter().filter(|name| !logged.contains(**name));
    faults.extend(unknown.map(|name| format!("{LOG}: no event has the name \"{name}\"")));
    faults
}

/// Fields with text of clients that are logged without quotes, as `name = %value` or `%name`.
pub fn unquoted(file: &str, code: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let is_logged = |field: &&str| {
        let (given, alone) = (format!("{field} = %"), format!("%{field}"));
        code.match_indices(&given).any(|(at, _)| !code[..at].ends_with(is_name))
            || code.match_indices(&alone).any(|(at, _)| !code[at + alone.len()..].starts_with(is_name))
    };
    let logged = OF_CLIENTS.into_iter().filter(is_logged);
    logged.map(|field| format!("{file}: the field `{field}` is logged with `%`: leave that out")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_clients_are_logged_in_quotes() {
        let mut faults = Vec::new();
        for (krate, sources) in crate::sources() {
            for (file, code) in shipped(&sources) {
                faults.extend(unquoted(&format!("{krate}/src/{file}"), &code));
            }
        }
        assert_eq!(faults, [""; 0]);
    }

    #[test]
    fn a_text_without_quotes_is_a_fault() {
        for code in ["info!(id, from = %envelope.from, \"x\")", "info!(%identifier, ?change)", "info!(%to)"] {
            assert_eq!(unquoted("a.rs", code).len(), 1, "{code}");
        }
        for code in ["info!(from, to = to.as_str())", "info!(valid_from = %time, %total)", "x %= to"] {
            assert_eq!(unquoted("a.rs", code), [""; 0], "{code}");
        }
    }

    #[test]
    fn the_log_knows_frequent_events_by_their_names() {
        assert_eq!(faults(&crate::read(LOG), &crate::sources()), [""; 0]);
    }

    #[test]
    fn an_event_that_is_renamed_on_one_side_is_a_fault() {
        let list = "const FREQUENT: [&str; 2] = [\"login\", \"client\"];\n";
        let of = |list: &str, code: &str| {
            let sources = Sources::from([("lib.rs".to_owned(), code.to_owned())]);
            faults(list, &BTreeMap::from([("crates/a".to_owned(), sources)]))
        };
        let login = "fn a() {\n    tracing::info!(name: \"login\", x, \"logged in\");\n}\n";
        let client = "fn b() {\n    tracing::info!(\n        name: \"client\",\n        \"x\"\n    );\n}\n";
        assert_eq!(of(list, &[login, client].concat()), [""; 0]);
        // In the list, in comments and in tests alone.
        let tests = format!("#[cfg(test)]\nmod tests {{\n{client}}}\n");
        for other in ["", "// info!(name: \"client\")\n", "f(\"client\");\n", &tests] {
            let lacking = [format!("{LOG}: no event has the name \"client\"")];
            assert_eq!(of(list, &[login, other].concat()), lacking, "{other}");
        }
        let renamed = of(list, &[login, client].concat().replace("\"client\"", "\"program\""));
        assert_eq!(renamed.len(), 2, "{renamed:?}");
        // One of several events of a name.
        let another = login.replace("\"login\"", "\"logon\"");
        let lacking = format!("crates/a/src/lib.rs: FREQUENT in {LOG} lacks the event \"logon\"");
        assert_eq!(of(list, &[login, client, &another].concat()), [lacking]);
        assert_eq!(of("", login).len(), 1);
    }
}
