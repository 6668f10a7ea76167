//! `posthaste report cost`: the cost of the running server's work, and the accounts that caused it.

use std::collections::BTreeMap;
use std::io::Write;

use bytesize::ByteSize;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::curve::{COMMANDS_LEAST, Curves};
use super::served::{self, OfCommand, Sums, Use};
use crate::cli::CostBy;
use crate::command::names::full_name;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::logging::{for_line, json_line};

/// The options of the command line.
pub struct CostOptions {
    pub by: CostBy,
    pub top: usize,
    pub account: Option<String>,
    pub cut: u32,
    pub json: bool,
}

#[derive(Debug, Deserialize)]
struct OfFolder {
    folder: String,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Debug, Deserialize)]
struct AccountFolders {
    folders: Vec<OfFolder>,
}

pub async fn run(config: &Config, options: CostOptions) -> Result<()> {
    let all = served::cost(&config.data).await?;
    match &options.account {
        Some(name) => one_account(config, &all, &full_name(name, config), &options).await,
        None => list(&all, &options),
    }
}

/// The sums by something, the highest cost first.
fn list(all: &Value, options: &CostOptions) -> Result<()> {
    let commands = || all["commands"].as_array().into_iter().flatten();
    let listed = |name: &str| all[name].as_array().cloned().unwrap_or_default();
    let (mut sums, label): (_, fn(&Value) -> String) = match options.by {
        CostBy::Command => (listed("commands"), |sum| {
            let folder = match &sum["folder"] {
                Value::String(folder) if folder != "none" => format!(" {}", in_folder(folder)),
                _ => String::new(),
            };
            format!("{} {}{folder}", text_of(&sum["protocol"]), text_of(&sum["command"]))
        }),
        CostBy::Protocol => (grouped(commands(), "protocol"), |sum| text_of(&sum["protocol"]).to_owned()),
        CostBy::Folder => (grouped(commands(), "folder"), |sum| in_folder(text_of(&sum["folder"]))),
        CostBy::Role => (listed("roles"), |sum| text_of(&sum["role"]).to_owned()),
        CostBy::Account => (listed("accounts"), |sum| text_of(&sum["account"]).to_owned()),
        CostBy::Client => (listed("clients"), |sum| text_of(&sum["client"]).to_owned()),
    };
    sums.sort_by_key(|sum| u64::MAX - sum["cpu_ns"].as_u64().unwrap_or(0));
    let mut out = std::io::stdout().lock();
    if !options.json {
        writeln!(out, "{}", if options.by == CostBy::Role { ROLES } else { HEADER })?;
    }
    for sum in sums.iter().take(options.top) {
        if options.json {
            writeln!(out, "{}", json_line(sum))?;
        } else if options.by == CostBy::Role {
            let cpu = sum["cpu_ns"].as_u64().unwrap_or(0) as f64 / 1e9;
            writeln!(out, "{cpu:>10.3} {:>10}  {}", sum["threads"].as_u64().unwrap_or(0), label(sum))?;
        } else {
            writeln!(out, "{}  {}", line(&served::of_value(sum)?), for_line(&label(sum)))?;
        }
    }
    Ok(())
}

/// The sums of commands that have the same value of a field.
fn grouped<'c>(commands: impl Iterator<Item = &'c Value>, field: &str) -> Vec<Value> {
    let mut groups = BTreeMap::<&str, Map<String, Value>>::new();
    for command in commands {
        let group = groups.entry(text_of(&command[field])).or_default();
        for (name, value) in command.as_object().into_iter().flatten() {
            if let Some(more) = value.as_u64() {
                let sum = group.get(name).and_then(Value::as_u64).unwrap_or(0);
                group.insert(name.clone(), sum.saturating_add(more).into());
            }
        }
    }
    let labelled = |(label, mut group): (&str, Map<String, Value>)| {
        group.insert(field.to_owned(), label.into());
        Value::Object(group)
    };
    groups.into_iter().map(labelled).collect()
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn in_folder(label: &str) -> String {
    match label {
        "none" => "without a folder".to_owned(),
        "+Inf" => "in folders over 1000000".to_owned(),
        most => format!("in folders up to {most}"),
    }
}

const HEADER: &str = "     CPU s   commands   CPU ms each   received       sent    changes   body reads  record reads    look-ups   conversions";
const ROLES: &str = "     CPU s    threads  role";

/// The columns of [`HEADER`].
fn line(sums: &Sums) -> String {
    let Sums { cpu_ns, commands, received, sent, commits, body_reads, .. } = *sums;
    let Sums { record_reads, directory_reads, conversions, .. } = *sums;
    let each = cpu_ns as f64 / 1e6 / commands.max(1) as f64;
    format!(
        "{:>10.3} {commands:>10} {each:>13.3} {:>10} {:>10} {commits:>10} {body_reads:>12} {record_reads:>13} \
         {directory_reads:>11} {conversions:>13}",
        cpu_ns as f64 / 1e9,
        ByteSize(received).to_string(),
        ByteSize(sent).to_string(),
    )
}

/// The folders of an account by size, and what smaller ones would save.
async fn one_account(config: &Config, all: &Value, name: &str, options: &CostOptions) -> Result<()> {
    let found = all["accounts"].as_array().into_iter().flatten().find(|one| one["account"] == name);
    let Some(found) = found else {
        let why = format!(
            "{name} has had no session since the start of the server, or its cost is too low to be listed"
        );
        return Err(Failure::Usage(why));
    };
    let curves = Curves::of(&served::of_value::<Vec<OfCommand>>(&all["commands"])?);
    let uses = served::uses(&config.data).await?;
    let (uses, cut) = (uses.of(name), options.cut);
    let mut out = std::io::stdout().lock();
    if options.json {
        let mut account = found.clone();
        account["cut"] = cut_as_json(uses, cut, &curves);
        writeln!(out, "{}", json_line(&account))?;
        return Ok(());
    }
    writeln!(out, "{HEADER}")?;
    for OfFolder { folder, sums } in &served::of_value::<AccountFolders>(found)?.folders {
        writeln!(out, "{}  {}", line(sums), in_folder(folder))?;
    }
    Ok(write_cut(&mut out, uses, cut, &curves)?)
}

/// The uses in INBOX, and all.
fn chosen(uses: &[Use]) -> [(&'static str, Vec<&Use>); 2] {
    [("INBOX", uses.iter().filter(|used| used.inbox).collect()), ("all folders", uses.iter().collect())]
}

fn write_cut(out: &mut impl Write, uses: &[Use], cut: u32, curves: &Curves) -> std::io::Result<()> {
    if uses.is_empty() {
        return writeln!(out, "\nNo command had a folder selected, so smaller ones would save nothing.");
    }
    writeln!(out, "\nIf a folder had at most {cut} messages:")?;
    for (what, uses) in chosen(uses) {
        let saving = curves.cut(uses, cut);
        write!(
            out,
            "  {what}: {:.3} s of CPU instead of {:.3} ({:.0} % less)",
            saving.then / 1e9,
            saving.now / 1e9,
            saving.percent()
        )?;
        match saving.unknown > 0.0 {
            true => writeln!(out, "; {:.3} s cannot be estimated yet", saving.unknown / 1e9)?,
            false => writeln!(out)?,
        }
    }
    writeln!(out, "\n     CPU s       then   sizes  left out   spread  command, and its cost in a folder")?;
    for ((protocol, command), uses) in by_command(uses) {
        let saving = curves.cut(uses, cut);
        let curve = curves.get(protocol, command);
        let (sizes, left_out) = curve.map_or((0, 0), |curve| (curve.sizes, curve.left_out));
        let spread = curve.and_then(|curve| curve.spread);
        let spread = spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.0} %", 100.0 * spread));
        let cost = match curve.and_then(|curve| curve.line) {
            Some(line) => {
                format!("{:.3} ms + {:.3} ms per 100,000 messages", line.base / 1e6, line.slope * 1e5 / 1e6)
            }
            None => "too little data for an estimate".to_owned(),
        };
        let (now, then) = (saving.now / 1e9, saving.then / 1e9);
        writeln!(
            out,
            "{now:>10.3} {then:>10.3} {sizes:>7} {left_out:>9} {spread:>8}  {protocol} {command}: {cost}"
        )?;
    }
    writeln!(
        out,
        "\nThe cost of a command is a line through its mean costs in folders of each size, over all accounts. A size \
         with fewer than {COMMANDS_LEAST} of these commands is left out. The spread is the distance of the means from \
         the line; a line fits any two."
    )
}

/// The uses by command, in the order of the commands' names.
fn by_command(uses: &[Use]) -> BTreeMap<(&str, &str), Vec<&Use>> {
    let mut commands = BTreeMap::<_, Vec<&Use>>::new();
    for used in uses {
        commands.entry((used.protocol.as_str(), used.command.as_str())).or_default().push(used);
    }
    commands
}

fn cut_as_json(uses: &[Use], cut: u32, curves: &Curves) -> Value {
    let [(_, inbox), (_, all)] = chosen(uses);
    let of_command = |((protocol, command), uses): ((&str, &str), Vec<&Use>)| {
        let mut value = curves.cut(uses, cut).as_json();
        value["protocol"] = protocol.into();
        value["command"] = command.into();
        let curve = curves.get(protocol, command);
        value["sizes"] = curve.map_or(0, |curve| curve.sizes).into();
        value["sizes_left_out"] = curve.map_or(0, |curve| curve.left_out).into();
        value["spread"] = curve.and_then(|curve| curve.spread).into();
        let line = curve.and_then(|curve| curve.line);
        value["base_ns"] = line.map(|line| line.base).into();
        value["ns_each_message"] = line.map(|line| line.slope).into();
        value
    };
    let commands: Vec<Value> = by_command(uses).into_iter().map(of_command).collect();
    json!({
        "messages": cut,
        "inbox": curves.cut(inbox, cut).as_json(),
        "all": curves.cut(all, cut).as_json(),
        "commands": commands,
    })
}

#[cfg(test)]
mod tests {
    use super::super::curve::tests::{commands, used};
    use super::*;

    /// 70 % of the INBOX's FETCHes could be saved, and nothing of its NOOPs.
    fn uses() -> Vec<Use> {
        vec![
            used("FETCH", "100000", true, 100, 60_000, 700_000_000),
            used("NOOP", "100000", true, 10, 60_000, 600_000),
            used("FETCH", "50000", false, 10, 30_000, 40_000_000),
            used("SORT", "50000", false, 1, 30_000, 9_000_000),
        ]
    }

    #[test]
    fn an_account_gets_a_report_of_its_inbox_and_of_all_folders() {
        let mut text = Vec::new();
        write_cut(&mut text, &uses(), 10_000, &Curves::of(&commands())).unwrap();
        let text = String::from_utf8(text).unwrap();
        for part in [
            "INBOX: 0.201 s of CPU instead of 0.701 (71 % less)\n",
            "all folders: 0.230 s of CPU instead of 0.750 (69 % less); 0.009 s cannot be estimated yet\n",
            "     0.740      0.220       3         0      0 %  imap FETCH: 1.000 ms + 10.000 ms per 100,000 messages\n",
            "     0.001      0.001       2         0        -  imap NOOP: 0.050 ms + 0.000 ms per 100,000 messages\n",
            "     0.009      0.009       0         0        -  imap SORT: too little data for an estimate\n",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn programs_get_the_same_report() {
        let said = cut_as_json(&uses(), 10_000, &Curves::of(&commands()));
        assert_eq!((&said["messages"], said["commands"].as_array().unwrap().len()), (&json!(10_000), 3));
        let fetch = &said["commands"][0];
        assert_eq!((&fetch["command"], &fetch["sizes"]), (&json!("FETCH"), &json!(3)));
        assert!((said["inbox"]["then_s"].as_f64().unwrap() - 0.2006).abs() < 1e-6, "{said}");
        assert!(said["commands"][2]["base_ns"].is_null());
    }

    #[test]
    fn sums_are_grouped_by_a_field() {
        let of = |protocol: &str, folder: &str, cpu_ns: u64| json!({"protocol": protocol, "folder": folder, "cpu_ns": cpu_ns});
        let commands = [of("imap", "100", 5), of("pop3", "100", 7), of("imap", "none", 1)];
        let protocols = grouped(commands.iter(), "protocol");
        assert_eq!(
            protocols,
            [json!({"protocol": "imap", "cpu_ns": 6}), json!({"protocol": "pop3", "cpu_ns": 7})]
        );
        let folders = grouped(commands.iter(), "folder");
        assert_eq!(folders, [json!({"folder": "100", "cpu_ns": 12}), json!({"folder": "none", "cpu_ns": 1})]);
    }
}
