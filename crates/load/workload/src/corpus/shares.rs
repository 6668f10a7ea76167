//! The parts of the mail that are special: rich mail, and mail whose attachment others got, too.

use super::Serial;
use crate::random::Random;

/// The shares of the mail that are special. Without any, the mail is that of earlier releases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// The share of the messages that is rich mail, 0 to 1.
    pub rich: f64,
    /// The share of attachments that ten accounts received, 0 to 1, among
    /// messages of other mail with an attachment. Only [`super::Sizes::Wide`] has attachments.
    pub shared_attachments: f64,
}

impl Shares {
    /// Messages with the same attachment: a mail to ten colleagues. There is no published figure
    /// for mailboxes, so it is a round one.
    const RECEIVERS: u64 = 10;
}

/// Keeps the stream of shared attachments apart from that of the messages.
const SALT: u64 = 0x5348_4152_4544;
/// The lowest bit of the account in a serial of a populated message.
const ACCOUNT_BIT: u32 = 40;
/// Set in serials of messages that are sent during a run.
const SENT: Serial = 1 << 63;

/// The messages that have one attachment, if it is shared. In filled mailboxes they are messages
/// of ten accounts, at the same place. In arriving mail they are ten messages in a row, mostly to
/// different accounts.
fn group(serial: Serial) -> u64 {
    if serial & SENT != 0 {
        return serial - serial % Shares::RECEIVERS;
    }
    let account = serial >> ACCOUNT_BIT;
    let place = serial & ((1 << ACCOUNT_BIT) - 1);
    (account / Shares::RECEIVERS) << ACCOUNT_BIT | place
}

/// The random numbers of the attachment that this message shares with others, if it does. `all` is
/// the share of the messages that has an attachment.
pub(super) fn shared_attachment(seed: u64, serial: Serial, share: f64, all: f64) -> Option<Random> {
    if share <= 0.0 {
        return None;
    }
    let mut random = Random::new(seed ^ SALT, group(serial));
    (random.unit() < share * all).then_some(random)
}

/// The part of the messages' own attachments that stay. With the shared ones, as many messages have
/// an attachment as without them: `all` of them.
pub(super) fn own_attachments(share: f64, all: f64) -> f64 {
    (1.0 - share) / (1.0 - share * all)
}

#[cfg(test)]
mod tests {
    use super::super::{populated_serial, sent_serial};
    use super::*;

    #[test]
    fn a_group_is_ten_accounts_or_ten_messages_in_a_row() {
        let populated = |account| group(populated_serial(account, 3, 7));
        assert!((20..30).all(|account| populated(account) == populated(20)));
        assert_ne!(populated(20), populated(30));
        assert_ne!(group(populated_serial(20, 3, 7)), group(populated_serial(20, 3, 8)));
        assert_ne!(group(populated_serial(20, 3, 7)), group(populated_serial(20, 4, 7)));
        let sent: std::collections::HashSet<u64> = (0..1_000).map(|n| group(sent_serial(5, 0, n))).collect();
        assert!((100..=101).contains(&sent.len()), "{}", sent.len());
    }

    #[test]
    fn a_share_of_the_attachments_and_no_more_is_shared() {
        let shared = |n: &u64| shared_attachment(1, *n * 10, 0.3, 0.1).is_some();
        let count = (0..10_000).filter(shared).count();
        assert!((240..=360).contains(&count), "{count}");
        assert!(shared_attachment(1, 7, 0.0, 0.1).is_none());
        assert!((own_attachments(0.3, 0.1) * 0.1 * (1.0 - 0.03) + 0.03 - 0.1).abs() < 1e-9);
    }
}
