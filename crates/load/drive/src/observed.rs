//! Converts the counts of a server to the input from which a workload is made.

use posthaste_load_results::Counted;
use posthaste_load_workload::learned::Observed;

/// The commands that a server counted, in folders of each size.
pub fn observed(counted: &Counted) -> Vec<Observed> {
    let commands = counted.commands.iter().map(|c| Observed {
        protocol: c.protocol.clone(),
        command: c.command.clone(),
        folder_most: match c.folder.as_str() {
            "+Inf" => Some(u32::MAX),
            most => most.parse().ok(),
        },
        count: c.amounts.commands,
        received: c.amounts.received,
        sent: c.amounts.sent,
        body_reads: c.amounts.body_reads,
    });
    commands.collect()
}
