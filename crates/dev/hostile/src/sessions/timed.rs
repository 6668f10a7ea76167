//! A neighbour whose times are judged: on a release build, where nothing else runs on the machine.

use posthaste_testkit::Server;

use super::model::PASSWORD;
use crate::{Gauge, Limits, Neighbour, Times};

/// Whose listing is measured.
pub(super) const NEIGHBOUR: &str = "neighbour@example.org";

/// The neighbour and its times alone.
pub(super) struct Timed {
    neighbour: Neighbour,
    alone: Times,
    limits: Limits,
}

impl Timed {
    /// Starts it and measures it alone. From then on this thread, and what it starts, have a lower
    /// priority: a real attacker computes elsewhere.
    pub fn start(server: &Server, gauge: Gauge, limits: Limits) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("the neighbour: {error}");
        let neighbour =
            Neighbour::start(server.address("imap"), NEIGHBOUR, PASSWORD, gauge).map_err(failed)?;
        let alone = neighbour.alone();
        // On Linux this is about the calling thread alone.
        rustix::process::setpriority_process(None, 10).map_err(|error| failed(error.into()))?;
        Ok(Self { neighbour, alone, limits })
    }

    /// The wrong answer that it got.
    pub fn fault(&self) -> Option<String> {
        self.neighbour.fault()
    }

    /// Its times so far and those alone, once all others have left. An error if it was wrongly
    /// answered or its times are over a limit.
    pub fn judge(mut self) -> Result<(Times, Times), String> {
        // At least one answer that was requested after the others' last command.
        self.neighbour.wait_for(2)?;
        let times = self.neighbour.take_times();
        let broken = self.limits.judge(&self.neighbour, &times, &mut self.alone);
        if broken.is_empty() { Ok((times, self.alone)) } else { Err(broken.join("; ")) }
    }
}
