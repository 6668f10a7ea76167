//! The kinds of users of a study: each of its workloads is one kind, or a mix of several.

use posthaste_load_text::{Mistake, Source};
use posthaste_load_workload::{Mix, Workload, load_mix};
use toml::Spanned;

/// The users of one kind at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedKind {
    /// The number of users of the kind.
    pub clients: u32,
    /// Index into the plan's populations.
    pub population: usize,
}

/// The workloads and mixes that a study names.
pub(crate) fn load(source: Source, names: &Spanned<Vec<String>>) -> Result<Vec<Mix>, Mistake> {
    if names.get_ref().is_empty() {
        return Err(source.at(names.span(), "a study needs a workload"));
    }
    let load =
        |name: &String| load_mix(name).map_err(|mistake| source.at(names.span(), &mistake.to_string()));
    names.get_ref().iter().map(load).collect()
}

/// The workload that represents all kinds. Of a mix it is the first one, with the name of the mix
/// and the files of all.
pub(crate) fn head(mix: &Mix) -> Workload {
    let workload = mix.kinds[0].workload.clone();
    if mix.kinds.len() == 1 {
        return workload;
    }
    let mut source = mix.source.clone();
    for kind in &mix.kinds {
        source.push_str(&format!("\n# workload {}\n{}", kind.workload.name, kind.workload.source));
    }
    Workload { name: mix.name.clone(), description: mix.description.clone(), source, ..workload }
}
