//! Whether results of several generators belong together.

use std::collections::BTreeSet;

use super::part::Part;
use crate::{Offered, RunResult};

/// Settings in which generators of one measurement differ by intent.
const OWN_SETTINGS: [&str; 5] = ["users", "clients", "seed", "threads", "receiving"];

/// Refuses results of different versions, workloads or servers, and results that are merged
/// already.
pub fn alike(named: &[(String, RunResult)]) -> Result<(), String> {
    let Some(((first, one), others)) = named.split_first() else { return Ok(()) };
    if let Some((name, _)) = named.iter().find(|(_, run)| !run.generators.is_empty()) {
        return Err(format!(
            "{name} is a merged result: name the results of its {} generators instead",
            count_of(named, name)
        ));
    }
    for (name, other) in others {
        let differs = |what: &str, a: &str, b: &str, remedy: &str| {
            Err(format!("{first} and {name} are results of different {what} ({a}, {b}): {remedy}"))
        };
        if one.schema != other.schema || one.tool != other.tool {
            let shown = |run: &RunResult| format!("{}, schema {}", run.tool, run.schema);
            return differs(
                "versions of posthaste-load",
                &shown(one),
                &shown(other),
                "run all generators with one version",
            );
        }
        if one.machine.build != other.machine.build {
            return differs(
                "builds of posthaste-load",
                &one.machine.build,
                &other.machine.build,
                "run all generators with one build",
            );
        }
        if one.workload.name != other.workload.name {
            return differs(
                "workloads",
                &one.workload.name,
                &other.workload.name,
                "transactions of different workloads cannot be added; run them by one generator with --beside",
            );
        }
        if one.workload.toml != other.workload.toml {
            return Err(format!(
                "{first} and {name} ran two versions of the workload {}: give all generators the same file",
                one.workload.name
            ));
        }
        if let (Offered::Value(a), Offered::Value(b)) = (&one.server_says, &other.server_says)
            && a != b
        {
            return differs("servers", a, b, "merge results of one server only");
        }
    }
    Ok(())
}

fn count_of(named: &[(String, RunResult)], name: &str) -> usize {
    named.iter().find(|(known, _)| known == name).map_or(0, |(_, run)| run.generators.len())
}

/// Differences that a reader must know, and that do not prevent a sum.
pub fn differences(parts: &[Part]) -> Vec<String> {
    let mut said = Vec::new();
    let keys: BTreeSet<&String> = parts.iter().flat_map(|p| p.run.settings.keys()).collect();
    for key in keys.into_iter().filter(|key| !OWN_SETTINGS.contains(&key.as_str())) {
        let of = |p: &Part| p.run.settings.get(key).cloned().unwrap_or_else(|| "not given".into());
        let values: BTreeSet<String> = parts.iter().map(of).collect();
        if values.len() > 1 {
            let each: Vec<String> = parts.iter().map(|p| format!("{} {}", p.name, of(p))).collect();
            said.push(format!("generators had different settings, {key}: {}", each.join(", ")));
        }
    }
    for (at, part) in parts.iter().enumerate() {
        let seed = part.run.settings.get("seed");
        let same = parts[..at].iter().find(|p| seed.is_some() && p.run.settings.get("seed") == seed);
        if let Some(other) = same {
            said.push(format!(
                "{} and {} had the same --seed: their users drew the same transactions in the same order; give each \
                 generator a seed of its own",
                other.name, part.name
            ));
        }
    }
    let silent = |p: &&Part| matches!(p.run.server_says, Offered::NotOffered(_));
    let silent: Vec<&str> = parts.iter().filter(silent).map(|p| p.name.as_str()).collect();
    if !silent.is_empty() {
        said.push(format!(
            "the server did not name itself and its version to {}: whether all drove the same one is not checked",
            silent.join(", ")
        ));
    }
    said
}
