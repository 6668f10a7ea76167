//! The facts on which a figure depends: the command, the settings, the machine, the workload's
//! file.

use posthaste_load_results::{Machine, Offered, RunResult};
use posthaste_load_text::figure::{bytes, date, figure};

use crate::markup::Markup;
use crate::paths::without_folders;
use crate::table::Table;

/// A command as it can be typed again.
pub fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,…".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A command as a report shows it: the program by its name, and no folders of this machine.
pub fn shown(words: &[String]) -> String {
    let mut words: Vec<String> = words.iter().map(|word| without_folders(word)).collect();
    if let Some(program) = words.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    command(&words)
}

/// The machine in words.
pub fn machine(machine: &Machine) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    vec![
        row("Processor", machine.cpu_model.clone()),
        row("Processors", machine.cpus.to_string()),
        row("Clock", format!("{} MHz, {}", figure(machine.mhz), machine.mhz_source)),
        row("Memory", bytes(machine.memory_bytes)),
        row("Kernel", machine.kernel.clone()),
        row("Generator", format!("{} build", machine.build)),
    ]
}

/// Command, settings, machine and workload of a run.
pub fn of_run(run: &RunResult, out: &mut Markup) {
    out.element("h3", &[], "Command").element("pre", &[], &shown(&run.command));
    for one in &run.generators {
        out.element("p", &[("class", &"quiet")], &one.name).element("pre", &[], &shown(&one.command));
    }
    if !run.settings.is_empty() {
        out.element("h3", &[], "Settings");
        Table::words(run.settings.iter().map(|(k, v)| (k.clone(), without_folders(v))).collect()).draw(out);
    }
    out.element("h3", &[], "Machine and time");
    let mut rows = machine(&run.machine);
    rows.insert(0, ("Started".into(), date(run.started_unix)));
    rows.push(("Tool".into(), run.tool.clone()));
    if let Offered::Value(said) = &run.server_says {
        rows.push(("The server says".into(), said.clone()));
    }
    Table::words(rows).draw(out);
    if !run.workload.toml.is_empty() {
        let summary = format!("Workload {}: the file, whole", run.workload.name);
        folded(&summary, &run.workload.toml, out);
    }
}

/// Long text that its title unfolds.
pub fn folded(summary: &str, text: &str, out: &mut Markup) {
    out.raw("<details>").element("summary", &[], summary).element("pre", &[], text).close("details");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_can_be_typed_again() {
        let words =
            ["posthaste-load", "run", "--users", "user{0..9}", "--label", "it's", ""].map(str::to_owned);
        assert_eq!(command(&words), "posthaste-load run --users 'user{0..9}' --label 'it'\\''s' ''");
    }
}
