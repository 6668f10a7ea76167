//! The sums as OpenMetrics text and as JSON.

use std::fmt;

use posthaste_indexing::Totals;
use posthaste_metrics::{AccountCost, Amounts, Counter, FolderSize, Snapshot, Use, threads};
use posthaste_queue::Figures;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Value, json};

use super::queue;

/// Accounts that are metrics of their own: the costliest. More would burden the monitor; `/cost`
/// and `posthaste report cost` have them all.
const ACCOUNTS_SHOWN: usize = 100;

/// A counter's name, unit and help. CPU time is in seconds.
const fn described(counter: Counter) -> (&'static str, Option<Unit>, &'static str) {
    match counter {
        Counter::Cpu => {
            ("cpu", Some(Unit::Seconds), "CPU time of tasks and threads that worked for sessions")
        }
        Counter::Commands => ("commands", None, "Commands that ended"),
        Counter::Received => ("received", Some(Unit::Bytes), "Octets from clients, before compression"),
        Counter::Sent => ("sent", Some(Unit::Bytes), "Octets to clients, before compression"),
        Counter::Commits => ("commits", None, "Changes of mailboxes that sessions waited for"),
        Counter::BodyReads => {
            ("body_reads", None, "Reads of the bytes of messages from the store, whole or in part")
        }
        Counter::RecordReads => {
            ("record_reads", None, "Rows and summaries of messages that were read from the store")
        }
        Counter::DirectoryReads => {
            ("directory_reads", None, "Records of accounts and aliases that were looked up")
        }
        Counter::Conversions => ("conversions", None, "Messages of rich mail that were converted"),
        Counter::FolderMessages => {
            ("folder_messages", None, "Messages of the selected folders, summed over commands")
        }
        Counter::LargeFolders => {
            ("large_folders", None, "Openings of folders with more messages than limits.folder_messages_warn")
        }
    }
}

/// The size of the search index.
#[derive(Debug, Clone, Copy)]
pub struct IndexSize {
    /// In the store, if that can be counted.
    pub stored: Option<Totals>,
    /// Bytes in memory.
    pub memory_bytes: usize,
}

/// The text that Prometheus reads.
pub fn open_metrics(
    snapshot: &Snapshot,
    index: IndexSize,
    queue: Option<Figures>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(MetricSources(snapshot.clone(), index, queue)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct MetricSources(Snapshot, IndexSize, Option<Figures>);

impl prometheus_client::collector::Collector for MetricSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Snapshot { commands, accounts, clients } = &self.0;
        for counter in Counter::ALL {
            let (name, unit, help) = described(counter);
            let name = format!("posthaste_{name}");
            let mut family = encoder.encode_descriptor(&name, help, unit.as_ref(), MetricType::Counter)?;
            for (key, amounts) in commands {
                if amounts.get(counter) > 0 {
                    let folder = key.folder.to_string();
                    let labels = [("protocol", key.protocol), ("command", key.command), ("folder", &folder)];
                    value(amounts, counter).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let costliest = accounts.iter().take(ACCOUNTS_SHOWN);
        let accounts: Vec<(String, Amounts)> =
            costliest.map(|(name, cost)| (escaped(name), cost.total())).collect();
        let clients: Vec<(String, Amounts)> =
            clients.iter().map(|(name, amounts)| (escaped(name), *amounts)).collect();
        encode_sums(&mut encoder, "account", &accounts)?;
        encode_sums(&mut encoder, "client", &clients)?;
        encode_index(&mut encoder, self.1)?;
        if let Some(figures) = &self.2 {
            queue::encode(&mut encoder, figures)?;
        }
        encode_threads(encoder)
    }
}

/// Each counter of these accounts or client programs, by their escaped names. CPU time is always
/// there, and other counters if they are not zero.
fn encode_sums(
    encoder: &mut DescriptorEncoder<'_>,
    label: &str,
    sums: &[(String, Amounts)],
) -> Result<(), fmt::Error> {
    for counter in Counter::ALL {
        let (name, unit, help) = described(counter);
        let name = format!("posthaste_{label}_{name}");
        let mut family = encoder.encode_descriptor(&name, help, unit.as_ref(), MetricType::Counter)?;
        let is_shown = |amounts: &Amounts| counter == Counter::Cpu || amounts.get(counter) > 0;
        for (named, amounts) in sums.iter().filter(|(_, amounts)| is_shown(amounts)) {
            value(amounts, counter).encode(family.encode_family(&[(label, named.as_str())])?)?;
        }
    }
    Ok(())
}

/// The size of the search index, and what of it is in memory.
fn encode_index(encoder: &mut DescriptorEncoder<'_>, index: IndexSize) -> Result<(), fmt::Error> {
    let mut gauge = |name, help, unit: Option<Unit>, value: f64| {
        let family = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        ConstGauge::new(value).encode(family)
    };
    if let Some(Totals { mailboxes, segments, bytes }) = index.stored {
        let help = "Search index in the store, as of at most ten minutes ago";
        gauge("posthaste_search_index", help, Some(Unit::Bytes), bytes as f64)?;
        gauge("posthaste_search_index_segments", "Segments of the search index", None, segments as f64)?;
        let help = "Mailboxes that have a search index in the store";
        gauge("posthaste_search_index_mailboxes", help, None, mailboxes as f64)?;
    }
    let help = "Search index in memory";
    gauge("posthaste_search_index_memory", help, Some(Unit::Bytes), index.memory_bytes as f64)
}

/// A label's value (OpenMetrics 1.0, "escaped-string"): the library writes it as it is, and clients
/// choose their names.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// CPU time by the role of threads, and how many there are.
fn encode_threads(mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let Ok(roles) = threads() else { return Ok(()) };
    let help = "CPU time of the process by the role of its threads";
    let unit = Some(Unit::Seconds);
    let mut family =
        encoder.encode_descriptor("posthaste_thread_cpu", help, unit.as_ref(), MetricType::Gauge)?;
    for role in &roles {
        let labels = [("role", role.role.as_str())];
        ConstGauge::new(seconds(role.cpu)).encode(family.encode_family(&labels)?)?;
    }
    let help = "Threads of the process by their role";
    let mut family = encoder.encode_descriptor("posthaste_threads", help, None, MetricType::Gauge)?;
    for role in &roles {
        let labels = [("role", role.role.as_str())];
        ConstGauge::new(role.threads as f64).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn value(amounts: &Amounts, counter: Counter) -> ConstCounter<f64> {
    let amount = amounts.get(counter);
    ConstCounter::new(if counter == Counter::Cpu { seconds(amount) } else { amount as f64 })
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// The commands of each account in its folders, this many seconds after the start.
pub fn accounts(uses: &[(String, Vec<Use>)], seconds: u64) -> String {
    let used = |used: &Use| {
        json!({
            "protocol": used.key.protocol, "command": used.key.command, "folder": used.key.folder.to_string(),
            "inbox": used.is_inbox, "cpu_ns": used.cpu, "commands": used.commands,
            "folder_messages": used.folder_messages,
        })
    };
    let in_folders = uses.iter().filter(|(_, uses)| !uses.is_empty());
    let accounts: Vec<Value> = in_folders
        .map(|(name, uses)| json!({"account": name, "uses": uses.iter().map(used).collect::<Vec<_>>()}))
        .collect();
    json!({"seconds": seconds, "accounts": accounts}).to_string()
}

/// The sums, with every account, as JSON. CPU time is in nanoseconds.
pub fn json(snapshot: &Snapshot) -> String {
    let commands: Vec<Value> = snapshot
        .commands
        .iter()
        .map(|(key, sums)| {
            let mut value = amounts(sums);
            value["protocol"] = key.protocol.into();
            value["command"] = key.command.into();
            value["folder"] = key.folder.to_string().into();
            value
        })
        .collect();
    let accounts: Vec<Value> = snapshot.accounts.iter().map(|(name, cost)| account(name, cost)).collect();
    let clients: Vec<Value> = snapshot
        .clients
        .iter()
        .map(|(name, sums)| {
            let mut value = amounts(sums);
            value["client"] = name.as_str().into();
            value
        })
        .collect();
    let roles: Vec<Value> = threads()
        .unwrap_or_default()
        .iter()
        .map(|role| json!({"role": role.role, "threads": role.threads, "cpu_ns": role.cpu}))
        .collect();
    json!({"commands": commands, "accounts": accounts, "clients": clients, "roles": roles}).to_string()
}

fn account(name: &str, cost: &AccountCost) -> Value {
    let mut value = amounts(&cost.total());
    value["account"] = name.into();
    let by_folder =
        FolderSize::ALL.into_iter().filter(|folder| *cost.in_folder(*folder) != Amounts::default());
    value["folders"] = by_folder
        .map(|folder| {
            let mut value = amounts(cost.in_folder(folder));
            value["folder"] = folder.to_string().into();
            value
        })
        .collect();
    value
}

fn amounts(amounts: &Amounts) -> Value {
    let mut value = json!({});
    for counter in Counter::ALL {
        let name = if counter == Counter::Cpu { "cpu_ns" } else { described(counter).0 };
        value[name] = amounts.get(counter).into();
    }
    value
}

#[cfg(test)]
mod tests {
    use posthaste_metrics::CommandKey;

    use super::*;

    #[test]
    fn names_and_units() {
        let amounts = Amounts::default().with(Counter::Cpu, 1_500_000_000).with(Counter::Commands, 3);
        let folder = FolderSize::of(70_000);
        let key = CommandKey { protocol: "imap", command: "FETCH", folder };
        let snapshot = Snapshot {
            commands: vec![(key, amounts)],
            accounts: vec![("a\"n\\a\n".to_owned(), AccountCost::default())],
            clients: vec![("aerc".to_owned(), amounts)],
        };
        let text =
            open_metrics(&snapshot, IndexSize { stored: Some(Totals::default()), memory_bytes: 7 }, None)
                .unwrap();
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        has(r#"posthaste_cpu_seconds_total{protocol="imap",command="FETCH",folder="100000"} 1.5"#);
        has(r#"posthaste_commands_total{protocol="imap",command="FETCH",folder="100000"} 3.0"#);
        has(r#"posthaste_account_cpu_seconds_total{account="a\"n\\a\n"} 0.0"#);
        has(r#"posthaste_client_cpu_seconds_total{client="aerc"} 1.5"#);
        has(r#"posthaste_client_commands_total{client="aerc"} 3.0"#);
        assert!(!text.contains("posthaste_client_sent_bytes_total{"), "{text}");
        assert!(text.ends_with("# EOF\n") && text.contains("posthaste_thread_cpu_seconds{role="));
        let json: Value = serde_json::from_str(&json(&snapshot)).unwrap();
        assert_eq!(
            (&json["commands"][0]["cpu_ns"], &json["commands"][0]["folder"]),
            (&json!(1_500_000_000_u64), &json!("100000"))
        );
        assert!(json["roles"][0]["threads"].as_u64().unwrap() > 0, "{json}");
        let used = Use { key, is_inbox: true, cpu: 5, commands: 2, folder_messages: 140_000 };
        let uses = [("ana".to_owned(), vec![used]), ("ben".to_owned(), Vec::new())];
        let json: Value = serde_json::from_str(&accounts(&uses, 7)).unwrap();
        let used = json!({"protocol": "imap", "command": "FETCH", "folder": "100000", "inbox": true, "cpu_ns": 5, "commands": 2, "folder_messages": 140_000});
        assert_eq!(json, json!({"seconds": 7, "accounts": [{"account": "ana", "uses": [used]}]}));
    }
}
