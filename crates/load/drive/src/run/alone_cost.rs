//! The costs of transactions that were measured alone, and a result's server cost made of them.

use posthaste_load_results::{Machine, Offered, ServerCost, Waits};

/// The reason why figures of the whole window are not those of the transactions.
pub const MEASURED_ALONE: &str =
    "each transaction was measured alone, and this is known of the whole window only";

/// The costs of transactions that were measured alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AloneCost {
    /// CPU seconds of the server.
    pub server_s: f64,
    /// CPU seconds of the generator in user mode, until the transaction's end.
    pub own_user_s: f64,
    /// The same in the kernel.
    pub own_system_s: f64,
    /// Time from rest to rest.
    pub seconds: f64,
    /// The number of transactions.
    pub count: u64,
    /// The reason why the server's CPU could not be read.
    pub failed: Option<String>,
}

impl AloneCost {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        self.server_s += other.server_s;
        self.own_user_s += other.own_user_s;
        self.own_system_s += other.own_system_s;
        self.seconds += other.seconds;
        self.count += other.count;
        if self.failed.is_none() {
            self.failed.clone_from(&other.failed);
        }
    }

    /// The server's cost of the window with these transactions in place of all its work. `messages`
    /// are those that the transactions listed. `None` if nothing was measured.
    pub fn within(&self, window: ServerCost, messages: u64, machine: &Machine) -> Option<ServerCost> {
        if self.count == 0 || self.failed.is_some() {
            return None;
        }
        let all_s = window.cpu_user_s + window.cpu_system_s;
        let user_share = if all_s > 0.0 { window.cpu_user_s / all_s } else { 1.0 };
        let megacycles = self.server_s * machine.mhz;
        let none = || Offered::NotOffered(MEASURED_ALONE.to_owned());
        Some(ServerCost {
            source: format!("{}, each transaction alone", window.source),
            seconds: self.seconds,
            cpu_user_s: self.server_s * user_share,
            cpu_system_s: self.server_s * (1.0 - user_share),
            cpu_percent: self.server_s / self.seconds.max(1e-6) / f64::from(machine.cpus.max(1)) * 100.0,
            megacycles,
            messages,
            megacycles_per_session: None,
            megacycles_per_message: (messages > 0).then(|| megacycles / messages as f64),
            megacycles_per_transaction: Some(megacycles / self.count as f64),
            disk_operations: none(),
            disk_read_operations: none(),
            disk_read_bytes: none(),
            disk_write_bytes: none(),
            context_switches: none(),
            counters: Offered::NotOffered(MEASURED_ALONE.to_owned()),
            roles: Vec::new(),
            waits: Waits::default(),
            ..window
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of a whole window.
    fn window_of(cpu_user_s: f64, cpu_system_s: f64) -> ServerCost {
        ServerCost {
            source: "control group".into(),
            seconds: 9.0,
            cpu_user_s,
            cpu_system_s,
            cpu_percent: 20.0,
            megacycles: 4000.0,
            sessions: 1,
            messages: 900,
            megacycles_per_session: Some(4000.0),
            megacycles_per_message: Some(4.4),
            megacycles_per_transaction: Some(400.0),
            disk_operations: Offered::Value(7),
            ..ServerCost::default()
        }
    }

    #[test]
    fn the_cost_of_transactions_takes_the_place_of_the_windows() {
        let alone = AloneCost { server_s: 0.5, seconds: 2.0, count: 10, ..AloneCost::default() };
        let machine = Machine { cpus: 2, mhz: 1000.0, ..Machine::default() };
        let cost = alone.within(window_of(3.0, 1.0), 100, &machine).unwrap();
        assert_eq!((cost.cpu_user_s, cost.cpu_system_s, cost.seconds), (0.375, 0.125, 2.0));
        assert_eq!((cost.cpu_percent, cost.megacycles), (12.5, 500.0));
        assert_eq!((cost.megacycles_per_transaction, cost.megacycles_per_message), (Some(50.0), Some(5.0)));
        assert!(cost.megacycles_per_session.is_none() && cost.disk_operations.value().is_none());
        let nothing = AloneCost { failed: Some("lost".into()), count: 1, ..AloneCost::default() };
        assert!(nothing.within(window_of(1.0, 0.0), 0, &machine).is_none());
        assert!(AloneCost::default().within(window_of(1.0, 0.0), 0, &machine).is_none());
    }

    #[test]
    fn costs_are_added_and_the_first_fault_stays() {
        let one = AloneCost { server_s: 1.0, seconds: 2.0, count: 1, ..AloneCost::default() };
        let mut all = AloneCost::default();
        (0..3).for_each(|_| all.merge(&one));
        assert_eq!((all.server_s, all.seconds, all.count, all.failed.clone()), (3.0, 6.0, 3, None));
        for why in ["first", "second"] {
            all.merge(&AloneCost { failed: Some(why.into()), ..AloneCost::default() });
        }
        assert_eq!(all.failed.as_deref(), Some("first"));
    }
}
