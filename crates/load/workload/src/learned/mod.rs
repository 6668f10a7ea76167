//! A workload made from a server's counts: "your profile will most likely be different" (seed 001).
//!
//! The counts are sums: of commands of each kind, by folder size, and of octets. A sum has no order
//! of commands. So this chooses the simplest users with the same sums. Comments in the file mark
//! the counted and the guessed values.

mod dovecot_log;
mod imap;
mod pop3;

use std::fmt::Write as _;

use crate::Protocol;
pub use dovecot_log::of_dovecot_log;

/// Commands of one kind in folders of one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// `imap`, `pop3`, `lmtp`, `smtp`, `submission`.
    pub protocol: String,
    /// The command's name.
    pub command: String,
    /// The most messages that the selected folder had; `None` without a folder.
    pub folder_most: Option<u32>,
    /// How many ended.
    pub count: u64,
    /// Octets from clients.
    pub received: u64,
    /// Octets to clients.
    pub sent: u64,
    /// Reads of messages' bytes.
    pub body_reads: u64,
}

/// The counts of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// Where it is from, for the file's first line.
    pub source: String,
    /// How long it was counted, if that is known.
    pub seconds: Option<f64>,
    /// Accounts that gave commands.
    pub users: u64,
    /// What was counted.
    pub commands: Vec<Observed>,
    /// Client programs and their commands.
    pub clients: Vec<(String, u64)>,
}

/// A workload's file, and what it leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// The file.
    pub toml: String,
    /// Notes for a reader, a sentence each.
    pub notes: Vec<String>,
}

/// Client programs named in the file.
const CLIENTS_NAMED: usize = 10;
/// Octets of a message where no delivery was counted: the mean that seed 004's users have.
const MESSAGE_BYTES_GUESSED: u64 = 17_000;

/// Makes a workload. Without a protocol it is that of which more commands were counted.
///
/// # Errors
/// Nothing was counted that a workload can do.
pub fn learn(name: &str, profile: &Profile, protocol: Option<Protocol>) -> Result<Learned, String> {
    let of = |wanted: &str| -> u64 {
        profile.commands.iter().filter(|c| c.protocol == wanted).map(|c| c.count).sum()
    };
    let (imap, pop3) = (of("imap"), of("pop3"));
    let protocol = protocol.unwrap_or(if imap >= pop3 { Protocol::Imap } else { Protocol::Pop3 });
    let (mut body, other) = match protocol {
        Protocol::Imap => (imap::workload(profile)?, ("pop3", pop3)),
        Protocol::Pop3 => (pop3::workload(profile)?, ("imap", imap)),
    };
    if other.1 > 0 {
        let (name, count) = other;
        body.notes
            .push(format!("{count} {name} commands are left out: --protocol {name} makes their workload"));
    }
    if profile.seconds.is_none() {
        body.notes.push(
            "how long the server counted is not known: the think time of 4 s is a guess, and no mail arrives"
                .into(),
        );
    }
    body.notes.push("whether sessions used TLS is not counted: set `tls` as your clients do".into());
    Ok(Learned { toml: file(name, profile, protocol, &body), notes: body.notes })
}

/// What the protocol's part makes.
#[derive(Debug, Default)]
struct Body {
    /// `[session]`.
    session: String,
    /// Mean seconds between transactions of a user, if the time is known.
    think_s: Option<f64>,
    /// `[fill]`, without its sizes.
    fill: String,
    /// Name, weight, description, steps.
    transactions: Vec<(String, f64, String, Vec<String>)>,
    notes: Vec<String>,
}

fn file(name: &str, profile: &Profile, protocol: Protocol, body: &Body) -> String {
    let mut text = String::new();
    let source = one_line(&profile.source);
    let counted: u64 = profile.commands.iter().map(|c| c.count).sum();
    let _ = writeln!(text, "# Made by `posthaste-load learn` from {source}: {counted} commands");
    let time = profile.seconds.map_or("an unknown time".to_owned(), |s| format!("{s:.0} s"));
    let _ = writeln!(text, "# of {} accounts in {time}.", profile.users);
    for note in &body.notes {
        let _ = writeln!(text, "# Note: {}.", one_line(note));
    }
    if !profile.clients.is_empty() {
        let all: u64 = profile.clients.iter().map(|c| c.1).sum::<u64>().max(1);
        let shown = profile.clients.iter().take(CLIENTS_NAMED);
        for (client, count) in shown {
            let share = 100.0 * *count as f64 / all as f64;
            let _ = writeln!(text, "# Client program: {}, {share:.1} % of the commands.", one_line(client));
        }
    }
    let word = if protocol == Protocol::Imap { "imap" } else { "pop3" };
    let _ = writeln!(text, "name = {}", quoted(name));
    let _ = writeln!(text, "description = {}", quoted(&format!("The users of {source}")));
    let _ = writeln!(text, "protocol = \"{word}\"\ntls = false\n\n[session]\n{}", body.session);
    let _ = match body.think_s {
        Some(s) => writeln!(text, "[think]\ndistribution = \"exponential\"\nseconds = {s:.3}\n"),
        None => writeln!(text, "[think]\ndistribution = \"fixed\"\nseconds = 4\n"),
    };
    let sizes = format!("sizes = \"lognormal:{}\"", message_bytes(profile));
    let _ = writeln!(text, "[mail]\n{sizes}");
    let _ = writeln!(text, "arrivals_per_user_per_hour = {:.3}\n", arrivals(profile));
    let _ = writeln!(text, "[fill]\n{}{sizes}\n", body.fill);
    let _ = writeln!(text, "[choose]\nby = \"frequency\"\n\n[choose.frequency]");
    let all: f64 = body.transactions.iter().map(|t| t.1).sum();
    for (name, weight, ..) in &body.transactions {
        let _ = writeln!(text, "{} = {:.3}", quoted(name), 100.0 * weight / all.max(f64::MIN_POSITIVE));
    }
    for (name, _, description, steps) in &body.transactions {
        let _ = writeln!(
            text,
            "\n[[transaction]]\nname = {}\ndescription = {}",
            quoted(name),
            quoted(description)
        );
        let _ = writeln!(text, "steps = [");
        for step in steps {
            let _ = writeln!(text, "  {{ {step} }},");
        }
        let _ = writeln!(text, "]");
    }
    text
}

/// A string of TOML. Names of servers and clients are other people's.
fn quoted(text: &str) -> String {
    toml::Value::String(one_line(text)).to_string()
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Messages delivered, and their octets: LMTP and SMTP. (RFC 3030's BDAT as well as DATA.)
fn delivered(profile: &Profile) -> (u64, u64) {
    let data = profile.commands.iter().filter(|c| {
        matches!(c.protocol.as_str(), "lmtp" | "smtp") && matches!(c.command.as_str(), "DATA" | "BDAT")
    });
    data.fold((0, 0), |(count, bytes), c| (count + c.count, bytes + c.received))
}

/// The mean octets of a message, as far as deliveries and APPEND say.
fn message_bytes(profile: &Profile) -> u64 {
    let appended = profile.commands.iter().filter(|c| c.protocol == "imap" && c.command == "APPEND");
    let (count, bytes) =
        appended.fold(delivered(profile), |(count, bytes), c| (count + c.count, bytes + c.received));
    match (count, bytes) {
        (0, _) | (_, 0) => MESSAGE_BYTES_GUESSED,
        (count, bytes) => (bytes / count).max(500),
    }
}

fn arrivals(profile: &Profile) -> f64 {
    match profile.seconds {
        Some(s) if s > 0.0 => delivered(profile).0 as f64 * 3600.0 / s / profile.users.max(1) as f64,
        _ => 0.0,
    }
}

/// Seconds between two of a user's transactions, if so many were done in all.
fn think(profile: &Profile, transactions: f64) -> Option<f64> {
    let seconds = profile.seconds.filter(|s| *s > 0.0 && transactions > 0.0)?;
    Some(seconds * profile.users.max(1) as f64 / transactions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionKind, Step, parse};

    pub(super) fn seen(protocol: &str, command: &str, folder_most: Option<u32>, count: u64) -> Observed {
        Observed {
            protocol: protocol.into(),
            command: command.into(),
            folder_most,
            count,
            ..Observed::default()
        }
    }

    #[test]
    fn mail_has_the_size_and_rate_of_the_deliveries() {
        let data = Observed { received: 3_000_000, ..seen("lmtp", "DATA", None, 100) };
        let commands = vec![data, seen("imap", "NOOP", None, 5), seen("imap", "LOGIN", None, 1)];
        let profile = Profile { seconds: Some(1800.0), users: 10, commands, ..Profile::default() };
        assert_eq!((message_bytes(&profile), arrivals(&profile)), (30_000, 20.0));
        let learned = learn("mine", &profile, None).unwrap();
        let workload = parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml));
        assert!((workload.arrivals_per_user_per_s * 3600.0 - 20.0).abs() < 1e-9);
        assert!((workload.sizes.mean_bytes() - 30_000.0).abs() < 1.0, "{:?}", workload.sizes);
    }

    #[test]
    fn the_protocol_with_more_commands_is_made_and_the_other_is_named() {
        let commands = vec![
            seen("imap", "LOGIN", None, 2),
            seen("pop3", "PASS", None, 9),
            seen("pop3", "STAT", None, 9),
        ];
        let profile = Profile { commands, ..Profile::default() };
        let pop3 = learn("mine", &profile, None).unwrap();
        assert!(pop3.toml.contains("protocol = \"pop3\""));
        assert!(pop3.notes.iter().any(|n| n.starts_with("2 imap commands are left out")), "{:?}", pop3.notes);
        assert!(learn("mine", &profile, Some(Protocol::Imap)).is_err(), "nothing but logins");
    }

    #[test]
    fn names_of_strangers_stay_text() {
        let commands = vec![seen("imap", "LOGIN", None, 1), seen("imap", "NOOP", None, 1)];
        let clients = vec![("evil\"\nname = \"x".to_owned(), 2)];
        let profile = Profile { source: "a\n[think]".into(), commands, clients, ..Profile::default() };
        let learned = learn("my \"own\"\n", &profile, None).unwrap();
        let workload = parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml));
        assert_eq!(workload.name, "my \"own\" ");
        assert_eq!(workload.session, SessionKind::Each);
        assert!(matches!(workload.transactions[0].steps[..], [Step::Noop]));
    }
}
