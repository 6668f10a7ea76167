//! `posthaste report cost`: the cost of the running server's work, and the accounts that caused it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use bytesize::ByteSize;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::rt::TokioIo;
use posthaste_metrics::{FolderSize, Line};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::UnixStream;

use crate::cli::CostBy;
use crate::command::names::full_name;
use crate::command::serve::metrics::SOCKET;
use crate::config::Config;
use crate::failure::{Failure, Result};

/// The options of the command line.
pub struct CostOptions {
    pub by: CostBy,
    pub top: usize,
    pub account: Option<String>,
    pub cut: u32,
    pub json: bool,
}

/// Sums of one command, account, client or folder size.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Sums {
    cpu_ns: u64,
    commands: u64,
    received: u64,
    sent: u64,
    commits: u64,
    body_reads: u64,
    directory_reads: u64,
    conversions: u64,
    folder_messages: u64,
}

impl Sums {
    /// The messages of the folder, in the mean of the commands.
    fn messages(&self) -> f64 {
        self.folder_messages as f64 / self.commands.max(1) as f64
    }
}

#[derive(Debug, Deserialize)]
struct OfFolder {
    folder: String,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Debug, Deserialize)]
struct OfAccount {
    account: String,
    folders: Vec<OfFolder>,
}

pub async fn run(config: &Config, asked: CostOptions) -> Result<()> {
    let text = read(&config.data).await?;
    let wrong = |error: serde_json::Error| {
        Failure::Usage(format!("the answer of the server cannot be parsed: {error}"))
    };
    let all: Value = serde_json::from_slice(&text).map_err(wrong)?;
    let mut out = std::io::stdout().lock();
    if let Some(name) = asked.account {
        let name = full_name(&name, config);
        let accounts = Vec::<OfAccount>::deserialize(&all["accounts"]).map_err(wrong)?;
        let Some(found) = accounts.iter().find(|account| account.account == name) else {
            let why = format!(
                "{name} has had no session since the start of the server, or its cost is too low to be listed"
            );
            return Err(Failure::Usage(why));
        };
        if asked.json {
            let account = all["accounts"].as_array().into_iter().flatten().find(|a| a["account"] == name);
            writeln!(out, "{}", account.unwrap_or(&Value::Null))?;
            return Ok(());
        }
        let curve = Curve::of(&accounts);
        return Ok(write_account(&mut out, found, asked.cut, curve.as_ref())?);
    }
    let (list, label): (_, fn(&Value) -> String) = match asked.by {
        CostBy::Command => ("commands", |sum| {
            let folder = match sum["folder"].as_str() {
                Some("none") | None => String::new(),
                Some("+Inf") => " in folders over 1000000".to_owned(),
                Some(most) => format!(" in folders up to {most}"),
            };
            format!("{} {}{folder}", text_of(&sum["protocol"]), text_of(&sum["command"]))
        }),
        CostBy::Account => ("accounts", |sum| text_of(&sum["account"]).to_owned()),
        CostBy::Client => ("clients", |sum| text_of(&sum["client"]).to_owned()),
    };
    let mut sums: Vec<&Value> = all[list].as_array().into_iter().flatten().collect();
    sums.sort_by_key(|sum| u64::MAX - sum["cpu_ns"].as_u64().unwrap_or(0));
    if !asked.json {
        writeln!(out, "{HEADER}")?;
    }
    for sum in sums.into_iter().take(asked.top) {
        if asked.json {
            writeln!(out, "{sum}")?;
        } else {
            let sums = Sums::deserialize(sum).map_err(wrong)?;
            writeln!(out, "{}  {}", line(&sums), label(sum))?;
        }
    }
    Ok(())
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

const HEADER: &str = "     CPU s   commands   CPU ms each   received       sent    changes   body reads    look-ups   conversions";

/// The columns of [`HEADER`].
fn line(sums: &Sums) -> String {
    let Sums { cpu_ns, commands, received, sent, commits, body_reads, .. } = *sums;
    let Sums { directory_reads, conversions, .. } = *sums;
    let each = cpu_ns as f64 / 1e6 / commands.max(1) as f64;
    format!(
        "{:>10.3} {commands:>10} {each:>13.3} {:>10} {:>10} {commits:>10} {body_reads:>12} {directory_reads:>11} \
         {conversions:>13}",
        cpu_ns as f64 / 1e9,
        ByteSize(received).to_string(),
        ByteSize(sent).to_string(),
    )
}

/// The mean cost of a command by the size of its folder, and a line through it.
struct Curve {
    line: Line,
}

/// The class of a label.
fn class_of(label: &str) -> Option<FolderSize> {
    FolderSize::ALL.into_iter().find(|class| class.to_string() == label)
}

impl Curve {
    /// Over all accounts. `None` while folders of one class alone were used.
    fn of(accounts: &[OfAccount]) -> Option<Self> {
        let mut by_class = BTreeMap::<FolderSize, Sums>::new();
        for folder in accounts.iter().flat_map(|account| &account.folders) {
            if let Some(class) = class_of(&folder.folder).filter(|class| *class != FolderSize::None) {
                let sums = by_class.entry(class).or_default();
                sums.cpu_ns += folder.sums.cpu_ns;
                sums.commands += folder.sums.commands;
                sums.folder_messages += folder.sums.folder_messages;
            }
        }
        let used = by_class.into_values().filter(|sums| sums.commands > 0);
        let points: Vec<_> = used
            .map(|sums| {
                let commands = sums.commands as f64;
                (sums.messages(), sums.cpu_ns as f64 / commands, commands)
            })
            .collect();
        Some(Self { line: Line::through(&points).filter(|_| points.len() > 1)? })
    }

    /// The share of a command's cost that is left if its folder is cut.
    fn left(&self, messages: f64, cut: u32) -> f64 {
        if messages <= f64::from(cut) {
            return 1.0;
        }
        let (now, then) = (self.line.at(messages), self.line.at(f64::from(cut)));
        if now > 0.0 { (then / now).clamp(0.0, 1.0) } else { 1.0 }
    }
}

fn write_account(
    out: &mut impl Write,
    account: &OfAccount,
    cut: u32,
    curve: Option<&Curve>,
) -> std::io::Result<()> {
    writeln!(out, "{HEADER}")?;
    let (mut now, mut then) = (0.0, 0.0);
    for OfFolder { folder, sums } in &account.folders {
        let label = match folder.as_str() {
            "none" => "without a folder".to_owned(),
            "+Inf" => "in folders over 1000000".to_owned(),
            most => format!("in folders up to {most}"),
        };
        writeln!(out, "{}  {label}", line(sums))?;
        let left = curve.map_or(1.0, |curve| curve.left(sums.messages(), cut));
        now += sums.cpu_ns as f64 / 1e9;
        then += sums.cpu_ns as f64 / 1e9 * left;
    }
    match curve {
        Some(Curve { line }) => writeln!(
            out,
            "\nIf its folders had at most {cut} messages: {then:.3} s of CPU instead of {now:.3} ({:.0} % less).\n\
             The estimate is {:.3} ms + {:.3} ms per 100,000 messages: a line fitted to the mean cost of a command and \
             the mean number of messages, for each folder size, over all accounts. It is the same for all commands.",
            if now > 0.0 { 100.0 * (now - then) / now } else { 0.0 },
            line.base / 1e6,
            line.slope * 1e5 / 1e6,
        ),
        None => writeln!(
            out,
            "\nWhat smaller folders would save cannot be estimated yet: all used folders were of one size."
        ),
    }
}

/// `GET /cost` on the socket of the running server.
async fn read(data: &Path) -> Result<Bytes> {
    let path = data.join(SOCKET);
    let failed = |why: &dyn std::fmt::Display| {
        let path = path.display();
        Failure::Usage(format!(
            "no answer at {path}: {why}. Is the server running, on this machine, with this data directory (`--data`)?"
        ))
    };
    let stream = UnixStream::connect(&path).await.map_err(|error| failed(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(&error))?;
    let connection = tokio::spawn(connection);
    let request = Request::get("/cost").header("host", "localhost").body(Empty::<Bytes>::new());
    let request = request.map_err(|error| failed(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| failed(&error))?;
    let text = answer.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
    connection.abort();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str, folders: &[(&str, u64, u64, u64)]) -> OfAccount {
        let of = |&(folder, cpu_ns, commands, each): &(&str, u64, u64, u64)| OfFolder {
            folder: folder.to_owned(),
            sums: Sums { cpu_ns, commands, folder_messages: each * commands, ..Sums::default() },
        };
        OfAccount { account: name.to_owned(), folders: folders.iter().map(of).collect() }
    }

    fn said(account: &OfAccount, cut: u32, curve: &Curve) -> String {
        let mut text = Vec::new();
        write_account(&mut text, account, cut, Some(curve)).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// A command costs 1 ms and 1 ms for every 10,000 messages. Folders have fewer messages than
    /// the bound of their class.
    #[test]
    fn smaller_folders_cost_what_the_line_says() {
        let accounts = [
            account("ana", &[("none", 5_000_000, 10, 0), ("100000", 700_000_000, 100, 60_000)]),
            account("bob", &[("10000", 18_000_000, 10, 8_000), ("50000", 4_000_000, 1, 30_000)]),
        ];
        let curve = Curve::of(&accounts).unwrap();
        assert!((curve.left(60_000.0, 10_000) - 2.0 / 7.0).abs() < 1e-6);
        assert_eq!((curve.left(8_000.0, 10_000), curve.left(0.0, 10_000)), (1.0, 1.0));
        let text = said(&accounts[0], 10_000, &curve);
        assert!(text.contains("0.205 s of CPU instead of 0.705 (71 % less)"), "{text}");
        // A folder of the same class that is small enough saves nothing.
        let cyd = account("cyd", &[("100000", 700_000_000, 100, 60_000)]);
        assert!(said(&cyd, 60_000, &curve).contains("(0 % less)"));
        assert!(Curve::of(&accounts[..1]).is_none());
    }

    /// Where a line would begin below zero, it begins at zero.
    #[test]
    fn nothing_costs_less_than_nothing() {
        let accounts =
            [account("ana", &[("1000", 10_000_000, 10, 1_000), ("10000", 1_000_000_000, 10, 10_000)])];
        let curve = Curve::of(&accounts).unwrap();
        assert!(curve.left(10_000.0, 500) > 0.04, "{}", curve.left(10_000.0, 500));
        assert!(!said(&accounts[0], 500, &curve).contains("(100 % less)"));
    }
}
