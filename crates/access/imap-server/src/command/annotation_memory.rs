//! The memory for annotations of a mailbox while they are sent. They have up to 512 KiB together,
//! and a client may read their text slowly.

use posthaste_directory::Annotations;
use posthaste_net::BytePermit;

use crate::reply::Failure;
use crate::resolve::Asker;
use crate::service::UNRESERVED_READ_BYTES;

/// Memory for annotations and their text. Few take none.
#[derive(Default)]
pub(super) struct AnnotationMemory(Option<BytePermit>);

impl AnnotationMemory {
    /// The annotations, if there is memory for them. Otherwise they are dropped before the wait
    /// for it, and the caller reads them again.
    pub(super) async fn hold(
        &mut self,
        asker: Asker<'_>,
        all: Annotations,
    ) -> Result<Option<Annotations>, Failure> {
        let octets = 2 * all.octets() as u64;
        if octets <= self.0.as_ref().map_or(UNRESERVED_READ_BYTES, |paid| paid.bytes() as u64) {
            return Ok(Some(all));
        }
        drop((all, self.0.take()));
        self.0 = Some(asker.service.reserve_to_read(asker.login.id, octets).await?);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use posthaste_directory::{ANNOTATION_BYTES_MAX, Annotated};
    use posthaste_mail_model::MailboxName;

    use crate::pause_tests::Paused;

    /// Sessions whose clients read nothing held up to a MiB each in no budget.
    #[tokio::test]
    async fn long_annotations_wait_for_memory() {
        let mut paused = Paused::begin().await;
        let (service, account) = paused.account();
        let list = service.store.list(account).await.unwrap();
        let mailbox = list.find(&MailboxName::new("m0").unwrap()).unwrap().id;
        for (octets, waits) in [(1000, false), (ANNOTATION_BYTES_MAX, true)] {
            let value = || Some(Bytes::from(vec![b'x'; octets]));
            let changes = [("/private/a", value()), ("/private/b", value())];
            let of = Annotated::Mailbox(mailbox);
            service.directory.metadata().set(account, of, &changes).await.unwrap();
            for command in ["GETMETADATA m0 /private/a", "LIST \"\" m0 RETURN (METADATA (/private/a))"] {
                let most = service.reads.largest() as u64;
                let held = service.reserve_to_read(account, most).await.unwrap();
                assert_eq!(paused.waits_for(held, command).await, waits, "{command} of {octets}");
            }
        }
    }
}
