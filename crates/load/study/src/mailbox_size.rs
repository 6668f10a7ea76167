//! Mailboxes of a size in megabytes.

use posthaste_load_drive::populate::Contents;
use posthaste_load_workload::Fill;
use posthaste_load_workload::corpus::Sizes;

/// Mailboxes of this many megabytes. Larger ones have more messages, of the same mean size: seed
/// 001's client lists the headers of all of them.
pub(crate) fn sized(fill: &Fill, mb: f64, sizes: &Sizes) -> Contents {
    let bytes = mb * 1e6;
    let usual = f64::from((fill.inbox + fill.folders * fill.per_folder).max(1));
    let times = bytes / (usual * sizes.mean_bytes());
    let scaled = |messages: u32| match messages {
        0 => 0,
        some => (f64::from(some) * times).round().max(1.0) as u32,
    };
    let (inbox, per_folder) = (scaled(fill.inbox), scaled(fill.per_folder));
    // Whole messages do not make up the size, so each is a little larger or smaller.
    let messages = fill.folders.saturating_mul(per_folder).saturating_add(inbox).max(1);
    let mean = (bytes / f64::from(messages)) as u64;
    let sizes = Sizes::Lognormal(mean.max(Sizes::BYTES_MIN), 0.8);
    Contents::new(inbox, fill.folders, per_folder, sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_mailboxes_have_more_messages_of_the_same_mean_size() {
        let fill = posthaste_load_workload::load("outlook-express").unwrap().fill;
        let found = [2.0, 100.0, 220.0].map(|mb| {
            let contents = sized(&fill, mb, &fill.sizes);
            let mean = contents.sizes.mean_bytes();
            assert!((mean / 75_000.0 - 1.0).abs() < 0.1, "{mb} MB: {mean}");
            let [inbox, folder] = [0, 1].map(|at: usize| contents.mailboxes[at].1);
            (contents.messages(), inbox, folder)
        });
        // In INBOX and four folders.
        assert_eq!(found, [(25, 13, 3), (1_335, 667, 167), (2_935, 1_467, 367)]);
        // Small ones have a message in each folder.
        assert_eq!(sized(&fill, 0.01, &fill.sizes).messages(), 5);
    }
}
