//! Whether a study may continue from an earlier result.
//!
//! It may if the earlier figures and those to come belong together. The study, its settings, the
//! machine and the servers must be the same.

use posthaste_load_measure::machine;
use posthaste_load_results::{Machine, ServerFacts, StudyResult};

use crate::agenda::Agenda;
use crate::columns::expand;
use crate::conduct::first_facts;
use crate::file::Study;
use crate::options::{Options, settings};
use crate::plan::Plan;
use crate::server::ServerChoice;

/// Two machines have the same memory if it differs by less. A kernel keeps a part for itself.
const MEMORY_TOLERANCE: f64 = 0.02;

/// Whether servers may have other versions than in the earlier sittings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// All sittings measure the same program.
    Same,
    /// The report names all versions.
    Mixed,
}

/// Whether a study continues from this result. Servers whose points are missing are started for a
/// moment, to compare their versions and settings.
///
/// # Errors
/// What differs, and the remedy.
pub fn may_resume(
    earlier: &StudyResult,
    study: &Study,
    options: &Options,
    versions: Versions,
) -> Result<(), String> {
    let machine = machine::facts(None);
    same_study(earlier, study, options)?;
    same_machine(&earlier.machine, &machine)?;
    if versions == Versions::Same && earlier.machine.kernel != machine.kernel {
        return Err(differs("the kernel", &earlier.machine.kernel, &machine.kernel, MIX));
    }
    let servers = expand(study, &options.servers);
    let plan = Plan::of(study, machine.cpus);
    let names: Vec<String> = servers.iter().map(|which| which.name().to_owned()).collect();
    let agenda = Agenda::of(study, &plan, names);
    let wanted = |which: &&ServerChoice| !agenda.is_complete(&earlier.points, which.name());
    for which in servers.iter().filter(wanted) {
        let known = earlier.servers.iter().find(|facts| facts.name == which.name());
        // A server that never started has no settings.
        let Some(known) = known.filter(|facts| !facts.settings.is_empty() || is_running(which)) else {
            continue;
        };
        same_server(known, &first_facts(study, options, &plan, which)?, versions)?;
    }
    Ok(())
}

fn is_running(which: &ServerChoice) -> bool {
    matches!(which, ServerChoice::Running(_))
}

/// Remedies.
const AGAIN: &str = "give the same as before, or another --out for a result of its own";
const MIX: &str = "use --mix-versions to continue (the report names both versions), or give another --out";

fn differs(what: &str, was: &str, is: &str, remedy: &str) -> String {
    format!("the result cannot be continued: {what} was {was}, and is {is}; {remedy}")
}

fn same_study(earlier: &StudyResult, study: &Study, options: &Options) -> Result<(), String> {
    if earlier.study != study.name {
        return Err(differs("the study", &earlier.study, &study.name, AGAIN));
    }
    if earlier.settings.is_empty() {
        return Err(format!(
            "the result cannot be continued: an earlier version of posthaste-load wrote it, without the settings to compare; {AGAIN}"
        ));
    }
    let file = "the result cannot be continued: the file of the";
    if earlier.toml != study.source {
        return Err(format!("{file} study has changed; {AGAIN}"));
    }
    let now = settings(study, options);
    for (name, was) in &earlier.settings {
        if let Some(is) = now.get(name).filter(|is| *is != was) {
            let name = if name == "length" { "the length (--quick, --shortest)" } else { name };
            return Err(differs(name, was, is, AGAIN));
        }
    }
    for run in earlier.points.iter().filter_map(|point| point.measured()) {
        let changed = |w: &&posthaste_load_workload::Workload| {
            w.name == run.workload.name && w.source != run.workload.toml
        };
        if let Some(workload) = study.workloads.iter().find(changed) {
            return Err(format!("{file} workload {} has changed; {AGAIN}", workload.name));
        }
    }
    let was: Vec<&str> = earlier.servers.iter().map(|facts| facts.name.as_str()).collect();
    let servers = expand(study, &options.servers);
    let is: Vec<&str> = servers.iter().map(|which| which.name()).collect();
    match was == is {
        true => Ok(()),
        false => Err(differs("--server", &was.join(", "), &is.join(", "), AGAIN)),
    }
}

fn same_machine(was: &Machine, is: &Machine) -> Result<(), String> {
    const OTHER: &str = "figures of two machines do not belong together: give another --out";
    for (what, was, is) in [
        ("the processor", was.cpu_model.clone(), is.cpu_model.clone()),
        ("the number of processors", was.cpus.to_string(), is.cpus.to_string()),
        ("the build of the instrument", was.build.clone(), is.build.clone()),
    ] {
        if was != is {
            return Err(differs(what, &was, &is, OTHER));
        }
    }
    let [before, now] = [was.memory_bytes, is.memory_bytes];
    if before.abs_diff(now) as f64 > before as f64 * MEMORY_TOLERANCE {
        return Err(differs("the memory", &format!("{before} bytes"), &format!("{now} bytes"), OTHER));
    }
    Ok(())
}

fn same_server(was: &ServerFacts, is: &ServerFacts, versions: Versions) -> Result<(), String> {
    if versions == Versions::Mixed {
        return Ok(());
    }
    if was.version != is.version {
        return Err(differs(&format!("the version of {}", was.name), &was.version, &is.version, MIX));
    }
    let (before, now) = (lasting(&was.settings), lasting(&is.settings));
    let none = || "missing".to_owned();
    let lines = before.len().max(now.len());
    match (0..lines).find(|at| before.get(*at) != now.get(*at)) {
        None => Ok(()),
        Some(at) => {
            let [was_line, is_line] =
                [&before, &now].map(|lines| lines.get(at).map_or_else(none, |line| format!("`{line}`")));
            Err(differs(&format!("a setting of {}", was.name), &was_line, &is_line, MIX))
        }
    }
}

/// The filled lines of settings without what changes from start to start: folders and ports.
fn lasting(settings: &str) -> Vec<String> {
    let word = |word: &str| {
        let end = word.rsplit('/').next().unwrap_or(word);
        let mut numbers = end.split(|c: char| !c.is_ascii_digit());
        let port = numbers.find(|n| n.parse().is_ok_and(|n: u32| PORTS.contains(&n)));
        port.map_or_else(|| end.to_owned(), |port| end.replace(port, "PORT"))
    };
    let line = |line: &str| line.split_ascii_whitespace().map(word).collect::<Vec<_>>().join(" ");
    settings.lines().map(line).filter(|line| !line.is_empty()).collect()
}

/// Ports that Linux gives to a program that names none.
const PORTS: std::ops::RangeInclusive<u32> = 32_768..=60_999;

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(version: &str, settings: &str) -> ServerFacts {
        let [version, settings] = [version, settings].map(str::to_owned);
        ServerFacts { name: "A".into(), version, settings, ..ServerFacts::default() }
    }

    #[test]
    fn another_version_or_setting_is_named_with_the_remedy() {
        let said = |was: &ServerFacts, is: &ServerFacts| same_server(was, is, Versions::Same).unwrap_err();
        let one = facts("1.0", "serve --data /tmp/study-12/a-0/data\ncache = 32 MB");
        let other = facts("1.1", &one.settings);
        let text = said(&one, &other);
        assert!(text.contains("the version of A was 1.0, and is 1.1; use --mix-versions"), "{text}");
        assert!(same_server(&one, &other, Versions::Mixed).is_ok());
        let text = said(&one, &facts("1.0", "serve --data /tmp/study-12/a-0/data\ncache = 64 MB"));
        assert!(text.contains("a setting of A was `cache = 32 MB`, and is `cache = 64 MB`"), "{text}");
        let text = said(&one, &facts("1.0", "serve --data /tmp/study-12/a-0/data"));
        assert!(text.contains("and is missing"), "{text}");
        // Another folder and another port are the same settings.
        let one = facts("1.0", "serve --data /tmp/study-12/a-0/data\nport = 40123\nindex = 8 GiB");
        let moved = facts("1.0", "serve --data /tmp/study-777/a-0/data\nport = 51000\nindex = 8 GiB");
        assert_eq!(same_server(&one, &moved, Versions::Same), Ok(()));
    }

    #[test]
    fn another_machine_is_refused() {
        let machine = Machine { cpus: 2, memory_bytes: 1_000_000, ..Machine::default() };
        let with = |change: fn(&mut Machine)| {
            let mut other = machine.clone();
            change(&mut other);
            same_machine(&machine, &other)
        };
        assert!(with(|m| m.memory_bytes += 10_000).is_ok());
        assert!(with(|m| m.memory_bytes *= 2).unwrap_err().contains("the memory"));
        assert!(with(|m| m.cpus = 4).unwrap_err().contains("processors was 2, and is 4"));
        assert!(with(|m| m.cpu_model = "x".into()).unwrap_err().contains("--out"));
        assert!(with(|m| m.build = "debug".into()).unwrap_err().contains("build"));
    }
}
