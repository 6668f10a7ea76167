//! The time and the disk that a study takes on all its servers.

use posthaste_load_text::quantity::{show_bytes, show_duration};

use crate::file::Study;
use crate::plan::{Plan, plural};

/// What happens to the data of a server after its last point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// It is removed.
    Removed,
    /// It stays, in a folder that the user names.
    Kept,
}

impl Plan {
    /// Bytes of disk that this many servers may take. Servers that take turns are all filled at
    /// first. Where the store is put back, points are measured in a copy of it. A simulated
    /// processor runs in such a copy, too.
    pub fn disk_bytes_of(&self, study: &Study, servers: usize, data: Data) -> u64 {
        let servers = servers as u64;
        // Servers that run at once are not simulated.
        let simulated = study.simulate.is_some() && study.rounds == 1;
        let stores = match (data, study.put_back) {
            // The copy that a server was measured in is put back for its next point.
            (_, true) => servers.saturating_mul(2),
            (Data::Kept, false) if simulated => servers + servers.min(1),
            (Data::Kept, false) => servers,
            (Data::Removed, false) if study.rounds > 1 => servers,
            (Data::Removed, false) if simulated => 2 * servers.min(1),
            (Data::Removed, false) => servers.min(1),
        };
        self.disk_bytes().saturating_mul(stores)
    }

    /// The time on all servers, and the disk, in words. Without bytes of disk all servers run
    /// already.
    pub fn totals(&self, study: &Study, servers: usize, disk_bytes: u64) -> String {
        let (fill, measure) = self.estimate(study);
        let time = (fill + measure).saturating_mul(u32::try_from(servers).unwrap_or(u32::MAX));
        let disk = match disk_bytes {
            0 => "; the mail is on servers that run already".to_owned(),
            _ => format!(", and up to {} of disk", show_bytes(disk_bytes)),
        };
        format!("in all: about {} for {servers} server{}{disk}\n", show_duration(time), plural(servers))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::columns::expand;
    use crate::{BUILTIN, Length, ServerChoice, load};

    /// The longest that a quick study of Posthaste and Dovecot may take.
    const QUICK_MAX: Duration = Duration::from_secs(30 * 60);

    #[test]
    fn a_quick_study_of_two_servers_is_planned_for_less_than_half_an_hour() {
        let servers = ["posthaste", "dovecot"].map(|name| name.parse::<ServerChoice>().unwrap());
        for (name, _) in BUILTIN {
            let study = load(name, Length::Quick).unwrap();
            let columns = expand(&study, &servers).len() as u32;
            let (fill, measure) = Plan::of(&study, 2).estimate(&study);
            let all = (fill + measure) * columns;
            assert!(all < QUICK_MAX, "{name}: {}", show_duration(all));
        }
    }

    #[test]
    fn each_study_says_how_long_it_takes_and_how_much_disk_it_needs() {
        for (name, _) in BUILTIN {
            for length in [Length::Full, Length::Quick] {
                let study = load(name, length).unwrap();
                let plan = Plan::of(&study, 2);
                let bytes = plan.disk_bytes_of(&study, 2, Data::Removed);
                assert!(bytes >= plan.mail_bytes() && plan.mail_bytes() > 0, "{name}");
                let (fill, measure) = plan.estimate(&study);
                assert!(fill.as_millis() > 0 && measure.as_secs() > 0, "{name}");
                let time = show_duration(2 * (fill + measure));
                let expected =
                    format!("in all: about {time} for 2 servers, and up to {} of disk\n", show_bytes(bytes));
                assert_eq!(plan.totals(&study, 2, bytes), expected, "{name}");
            }
        }
    }

    #[test]
    fn both_kinds_of_users_are_in_the_needs_of_a_mix() {
        let study = load("online-and-cached", Length::Full).unwrap();
        let plan = Plan::of(&study, 2);
        let messages: u64 = plan.populations.iter().map(|p| p.contents.messages() * u64::from(p.count)).sum();
        assert!(plan.populations.iter().any(|p| p.accounts.starts_with("mix0-1-")));
        // A block's rest for each message of both kinds.
        assert_eq!(plan.disk_bytes() - plan.mail_bytes(), messages * 4096);
    }

    #[test]
    fn the_disk_has_each_store_that_is_there_at_the_same_time() {
        let stores = |name: &str, rounds: u32, servers: usize, data: Data| {
            let mut study = load(name, Length::Quick).unwrap();
            study.rounds = rounds;
            let plan = Plan::of(&study, 2);
            plan.disk_bytes_of(&study, servers, data) / plan.disk_bytes()
        };
        // One after the other, in turn, and with a copy of each.
        assert_eq!(stores("mailbox-size", 1, 3, Data::Removed), 1);
        assert_eq!(stores("mailbox-size", 3, 3, Data::Removed), 3);
        assert_eq!(stores("koka", 1, 3, Data::Removed), 6);
        // What is kept stays beside that of the next server.
        assert_eq!(stores("mailbox-size", 1, 3, Data::Kept), 3);
        assert_eq!(stores("koka", 1, 3, Data::Kept), 6);
        // Both runs on a simulated processor begin with a copy of the store. One copy at a time.
        let mut study = load("koka", Length::Quick).unwrap();
        (study.put_back, study.rounds) = (false, 1);
        let plan = Plan::of(&study, 2);
        let copied = |data| plan.disk_bytes_of(&study, 3, data) / plan.disk_bytes();
        assert_eq!((copied(Data::Removed), copied(Data::Kept)), (2, 4));
        // Servers that run already take none of this disk.
        assert_eq!((stores("koka", 1, 0, Data::Removed), stores("mailbox-size", 3, 0, Data::Kept)), (0, 0));
        let study = load("koka", Length::Quick).unwrap();
        let said = Plan::of(&study, 2).totals(&study, 1, 0);
        assert!(said.ends_with("for 1 server; the mail is on servers that run already\n"), "{said}");
    }
}
