//! The file of a workload that was learned.

use std::fmt::Write as _;

use super::profile::{Profile, arrivals, message_bytes};
use crate::Protocol;

/// Client programs named in the file.
const CLIENTS_NAMED: usize = 10;

/// The result of the protocol's part.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// `[session]`.
    pub(super) session: String,
    /// Mean seconds between transactions of a user, if the time is known.
    pub(super) think_s: Option<f64>,
    /// `[fill]`, without its sizes.
    pub(super) fill: String,
    /// Name, weight, description, steps.
    pub(super) transactions: Vec<(String, f64, String, Vec<String>)>,
    pub(super) notes: Vec<String>,
}

/// The text of the file.
pub(super) fn file(name: &str, profile: &Profile, protocol: Protocol, body: &Body) -> String {
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
