//! Matches the summaries that are wanted with those that the database returns. Both are in UID
//! order.
//!
//! A page has up to 512 summaries of up to 10 MiB. Their checksums are verified in slices, and
//! other tasks run between two of them.

use std::iter::{Copied, Peekable};
use std::ops::ControlFlow;
use std::slice;

use bytes::Bytes;
use posthaste_mail_model::{MailboxId, Uid};
use posthaste_store::{Stored, Visit};
use tokio::task::yield_now;

use crate::stored::chunk::SummaryOrigin;
use crate::stored::values::{created_from, summary_from};

/// UID, commit, value, and the mod-sequence with which the message came. The values stay in the
/// memory of the database's answer.
pub(super) type SummaryRow = (i64, Vec<u8>, Option<Bytes>, Option<Bytes>);

/// Octets of summaries between two pauses: their checksums take some 0.5 ms. The last summary may
/// exceed it by 10 MiB, which take some 3 ms. With a quarter of it, a page of usual summaries would
/// pause as well.
const SLICE_OCTETS: usize = 2 << 20;

/// The summaries of one bucket that are wanted.
pub(super) struct Matching<'w> {
    mailbox: MailboxId,
    left: Peekable<Copied<slice::Iter<'w, SummaryOrigin>>>,
    /// The octets since the last pause.
    octets: usize,
    missing: Vec<SummaryOrigin>,
    damaged: Vec<u32>,
}

/// The summaries that were wanted and not visited.
pub(super) struct Unvisited {
    /// The database has none of this commit.
    pub(super) missing: Vec<SummaryOrigin>,
    pub(super) damaged: Vec<u32>,
}

impl<'w> Matching<'w> {
    pub(super) fn new(mailbox: MailboxId, wanted: &'w [SummaryOrigin]) -> Self {
        let left = wanted.iter().copied().peekable();
        Self { mailbox, left, octets: 0, missing: Vec::new(), damaged: Vec::new() }
    }

    /// Visits the wanted summaries of a page.
    pub(super) async fn page(&mut self, page: Vec<SummaryRow>, visit: &mut Visit<'_>) -> ControlFlow<()> {
        for (uid, commit, value, created) in page {
            while let Some(passed) = self.left.next_if(|(next, _)| i64::from(*next) < uid) {
                self.missing.push(passed);
            }
            let Some(&(next, origin)) = self.left.peek() else { break };
            if i64::from(next) != uid || commit != origin.to_bytes() {
                continue;
            }
            self.left.next();
            self.octets += value.as_ref().map_or(0, Bytes::len);
            let visited =
                value.and_then(|value| visit_one((self.mailbox, next), &value, created.as_deref(), visit));
            match visited {
                Some(flow) => flow?,
                None => {
                    tracing::error!(mailbox = %self.mailbox, uid = next, "a summary is damaged");
                    self.damaged.push(next);
                }
            }
            if self.octets >= SLICE_OCTETS {
                self.octets = 0;
                yield_now().await;
            }
        }
        ControlFlow::Continue(())
    }

    /// The summaries that were not visited. After an early end, the rest does not count as missing.
    pub(super) fn unvisited(mut self, flow: ControlFlow<()>) -> Unvisited {
        if flow.is_continue() {
            self.missing.extend(self.left);
        }
        Unvisited { missing: self.missing, damaged: self.damaged }
    }
}

/// Visits a summary; `None` if it is damaged.
fn visit_one(
    (mailbox, uid): (MailboxId, u32),
    value: &[u8],
    created: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> Option<ControlFlow<()>> {
    let stored = summary_from(mailbox, uid, value)?;
    let created = created_from(mailbox, uid, created);
    let uid = Uid::new(uid)?;
    let (body, saved, summary) = (stored.body, stored.saved, stored.summary);
    Some(visit(Stored { uid, body, saved, created, summary, is_shared: false }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use posthaste_mail_model::{BodyId, Id, ModSeq};

    use super::*;
    use crate::stored::values::{created_value, summary_value};

    const MAILBOX: MailboxId = MailboxId(Id::from_bytes([7; 16]));
    const COMMIT: Id = Id::from_bytes([8; 16]);
    const OTHER: Id = Id::from_bytes([9; 16]);

    fn row(uid: u32, commit: Id, len: usize) -> SummaryRow {
        let value = summary_value(MAILBOX, uid, BodyId(commit), 0, &vec![b's'; len]);
        let created = created_value(MAILBOX, uid, ModSeq::new(u64::from(uid)).unwrap());
        (i64::from(uid), commit.to_bytes().to_vec(), Some(value.into()), Some(created.into()))
    }

    fn wanted(uids: &[u32]) -> Vec<SummaryOrigin> {
        uids.iter().map(|uid| (*uid, COMMIT)).collect()
    }

    /// All of a page were verified in one poll.
    #[tokio::test]
    async fn long_summaries_are_verified_in_slices() {
        let wanted = wanted(&[1, 2, 3, 4, 5, 6, 7, 8]);
        for (len, polls_expected) in [(1_000, 1), (1 << 20, 5)] {
            let page = wanted.iter().map(|(uid, commit)| row(*uid, *commit, len)).collect();
            let mut seen = Vec::new();
            let mut visit = |stored: Stored<'_>| {
                seen.push((stored.uid.value(), stored.summary.len()));
                ControlFlow::Continue(())
            };
            let mut matching = Matching::new(MAILBOX, &wanted);
            let mut polls = 0;
            let flow = {
                let mut visiting = pin!(matching.page(page, &mut visit));
                poll_fn(|context| {
                    polls += 1;
                    visiting.as_mut().poll(context)
                })
                .await
            };
            assert!(flow.is_continue());
            assert_eq!(polls, polls_expected, "summaries of {len} octets");
            let unvisited = matching.unvisited(flow);
            assert!(unvisited.missing.is_empty() && unvisited.damaged.is_empty());
            assert_eq!(seen, wanted.iter().map(|(uid, _)| (*uid, len)).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn only_the_summary_of_the_wanted_commit_is_visited() {
        let wanted = wanted(&[2, 3, 5, 6, 9]);
        let mut damaged = row(5, COMMIT, 10);
        damaged.2 = Some(Bytes::from_static(b"damaged"));
        let pages = [
            vec![row(1, COMMIT, 10), row(2, OTHER, 10), row(2, COMMIT, 10), row(3, OTHER, 10)],
            vec![row(4, COMMIT, 10), damaged, (6, COMMIT.to_bytes().to_vec(), None, None)],
        ];
        let mut seen = Vec::new();
        let mut visit = |stored: Stored<'_>| {
            seen.push(stored.uid.value());
            ControlFlow::Continue(())
        };
        let mut matching = Matching::new(MAILBOX, &wanted);
        for page in pages {
            assert!(matching.page(page, &mut visit).await.is_continue());
        }
        let Unvisited { missing, damaged } = matching.unvisited(ControlFlow::Continue(()));
        assert_eq!((missing, damaged), (vec![(3, COMMIT), (9, COMMIT)], vec![5, 6]));
        assert_eq!(seen, [2]);
    }

    /// A server of schema version 9 wrote no first mod-sequence. A damaged one is not shown.
    #[tokio::test]
    async fn a_first_mod_sequence_is_shown_if_it_is_intact() {
        let wanted = wanted(&[2, 3, 4]);
        let mut page = [2, 3, 4].map(|uid| row(uid, COMMIT, 10));
        page[1].3 = None;
        page[2].3 = Some(Bytes::from_static(b"damaged"));
        let mut seen = Vec::new();
        let mut visit = |stored: Stored<'_>| {
            seen.push(stored.created.value());
            ControlFlow::Continue(())
        };
        let mut matching = Matching::new(MAILBOX, &wanted);
        assert!(matching.page(page.into(), &mut visit).await.is_continue());
        assert_eq!(seen, [2, 0, 0]);
    }

    #[tokio::test]
    async fn a_visitor_ends_the_page() {
        let wanted = wanted(&[1, 2, 3]);
        let page = wanted.iter().map(|(uid, commit)| row(*uid, *commit, 10)).collect();
        let mut seen = 0;
        let mut visit = |_: Stored<'_>| {
            seen += 1;
            if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut matching = Matching::new(MAILBOX, &wanted);
        let flow = matching.page(page, &mut visit).await;
        assert!(flow.is_break());
        assert!(matching.unvisited(flow).missing.is_empty());
        assert_eq!(seen, 2);
    }
}
