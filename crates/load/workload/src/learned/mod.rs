//! A workload made from a server's counts: "your profile will most likely be different" (seed 001).
//!
//! The counts are sums: of commands of each kind, by folder size, and of octets. A sum has no order
//! of commands. So this chooses the simplest users with the same sums. Comments in the file mark
//! the counted and the guessed values.

mod dovecot_log;
mod file;
mod imap;
mod pop3;
mod profile;

use crate::Protocol;

pub use dovecot_log::of_dovecot_log;
pub use profile::{Observed, Profile};

use file::file;

/// A workload's file, and what it leaves out.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// The file.
    pub toml: String,
    /// Notes for a reader, a sentence each.
    pub notes: Vec<String>,
}

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

#[cfg(test)]
mod tests {
    use super::profile::{arrivals, message_bytes};
    use super::*;
    use crate::{SessionKind, TransactionStep, parse};

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
    fn untrusted_names_stay_text() {
        let commands = vec![seen("imap", "LOGIN", None, 1), seen("imap", "NOOP", None, 1)];
        let clients = vec![("evil\"\nname = \"x".to_owned(), 2)];
        let profile = Profile { source: "a\n[think]".into(), commands, clients, ..Profile::default() };
        let learned = learn("my \"own\"\n", &profile, None).unwrap();
        let workload = parse(&learned.toml, "mine").unwrap_or_else(|e| panic!("{e}\n{}", learned.toml));
        assert_eq!(workload.name, "my \"own\" ");
        assert_eq!(workload.session, SessionKind::Each);
        assert!(matches!(workload.transactions[0].steps[..], [TransactionStep::Noop]));
    }
}
