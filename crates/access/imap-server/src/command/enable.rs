//! ENABLE: RFC 9051 §6.3.1, RFC 5161. Unknown capabilities are ignored.

use posthaste_imap_codec::response::Untagged;
use posthaste_imap_codec::{Capability, Tag};

use super::DONE;
use crate::metadata_reports::ReportedMetadata;
use crate::reply::{Failure, Reply};
use crate::session::Session;

pub(super) async fn run(session: &mut Session, tag: &Tag, names: &[Capability]) -> Result<Reply, Failure> {
    // What can fail comes first: a client that gets NO has enabled nothing.
    let mut metadata = None;
    if session.annotations.is_none() && names.iter().any(|name| name == "METADATA") {
        let (asker, wire, reports) = session.reporting(tag)?;
        let clock = wire.clock().clone();
        let reading = ReportedMetadata::read(asker.service, asker.login.id, clock);
        // Changes of too many annotations are not reported, so it is not enabled.
        metadata = wire.reporting(reports, Box::pin(reading)).await?.map(Box::new);
    }
    let mut enabled = Vec::new();
    for name in names {
        let new = match () {
            () if name == "IMAP4rev2" => {
                let new = !session.enabled.rev2;
                session.enable_rev2();
                new
            }
            () if name == "CONDSTORE" => session.enable_condstore(),
            () if name == "QRESYNC" => {
                // RFC 7162 §3.2.3: QRESYNC brings CONDSTORE with it.
                session.enable_condstore();
                !std::mem::replace(&mut session.enabled.qresync, true)
            }
            // OBJECTID+ (draft 06 §2.2): ENABLED of this command is the notification.
            () if name == "OBJECTID+" => !std::mem::replace(&mut session.enabled.object_ids, true),
            // RFC 6855 §3. UTF8=ONLY, which is not offered, would imply it.
            () if name == "UTF8=ACCEPT" => session.enable_utf8(),
            // RFC 9586 §3
            () if name == "UIDONLY" => {
                if let Some(selected) = &mut session.selected {
                    selected.contexts.end_numbered(&mut session.wire);
                }
                !std::mem::replace(&mut session.enabled.uid_only, true)
            }
            // RFC 5464 §4.1. METADATA-SERVER is for servers that do not offer METADATA.
            () if name == "METADATA" && metadata.is_some() => {
                session.annotations = metadata.take();
                true
            }
            () => false,
        };
        if new {
            enabled.push(name.clone());
        }
    }
    session.wire.say(Untagged::Enabled(enabled));
    Ok(DONE)
}
