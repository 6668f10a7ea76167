//! The stored form of an item: JSON with a version number, in the directory record `queue/<uid>`.

use std::borrow::Cow;

use bytes::Bytes;
use posthaste_mail_model::{BodyId, Id};
use posthaste_store::DirectoryEntry;
use serde::{Deserialize, Serialize};

use super::{Address, Destination, Item, ItemId, Local, Outcome, PendingReport, Recipient, name, number};
use crate::dsn::{EnvelopeId, Return};
use crate::error::QueueError;
use crate::priority::Priority;

/// The version described here. Version 1 had no parameters of RFC 3461 and no `binary`. Version 2
/// had no `owed`, no [`Local`] and no [`Outcome::Unreported`], and is written for an item without
/// them. Version 3 had no `account`, and is written for an item without one. Version 4 had no
/// `sent_on_by`, and is written for an item without it. Version 5 had no `named` of a recipient,
/// and is written for an item without it. So an older program reads all items that it could have
/// written.
const VERSION: u32 = 6;
const VERSION_WITHOUT_NAMED: u32 = 5;
const VERSION_WITHOUT_SENT_ON: u32 = 4;
const VERSION_WITHOUT_ACCOUNT: u32 = 3;
const VERSION_WITHOUT_OWED: u32 = 2;
/// The oldest version that is read.
const VERSION_MIN: u32 = 1;

/// An item as stored, without what its name and version say.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ItemRecord {
    v: u32,
    body: String,
    size: u64,
    destination: Destination,
    from: Address,
    recipients: Vec<Recipient>,
    #[serde(default)]
    smtputf8: bool,
    #[serde(default)]
    binary: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ret: Option<Return>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    envid: Option<EnvelopeId>,
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    priority: Priority,
    arrived: i64,
    next: i64,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    held: bool,
    #[serde(default)]
    warned: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owed: Vec<PendingReport>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent_on_by: Option<String>,
}

impl Item {
    /// Reads a record.
    pub(crate) fn read(entry: &DirectoryEntry) -> Result<Self, QueueError> {
        let wrong = |why: String| QueueError::Record { record: entry.name.clone(), why };
        let id = number(&entry.name).ok_or_else(|| wrong("its name is not queue/NUMBER".into()))?;
        let record: ItemRecord = serde_json::from_slice(&entry.value).map_err(|e| wrong(e.to_string()))?;
        if !(VERSION_MIN..=VERSION).contains(&record.v) {
            let known = format!("{VERSION_MIN} to {VERSION}");
            return Err(wrong(format!("it has version {}, and this program supports {known}", record.v)));
        }
        let body =
            Id::parse(&record.body).map(BodyId).ok_or_else(|| wrong("its body is not an id".into()))?;
        Ok(Self {
            id,
            version: entry.version,
            body,
            size: record.size,
            destination: record.destination,
            from: record.from,
            recipients: record.recipients,
            smtputf8: record.smtputf8,
            binary: record.binary,
            ret: record.ret,
            envid: record.envid,
            priority: record.priority,
            arrived: record.arrived,
            next: record.next,
            attempts: record.attempts,
            reason: record.reason,
            held: record.held,
            warned: record.warned,
            pending: record.owed,
            account: record.account,
            sent_on_by: record.sent_on_by,
        })
    }

    /// The record's content.
    pub(crate) fn write(&self) -> Result<Bytes, QueueError> {
        // An older program would look for a host of that name.
        let is_known_to_version_2 = self.pending.is_empty()
            && Local::of_item(self).is_none()
            && self.recipients.iter().all(|to| !matches!(to.outcome, Outcome::Unreported { .. }));
        let record = ItemRecord {
            v: match (&self.sent_on_by, &self.account) {
                _ if self.recipients.iter().any(|to| to.named.is_some()) => VERSION,
                (Some(_), _) => VERSION_WITHOUT_NAMED,
                (None, Some(_)) => VERSION_WITHOUT_SENT_ON,
                _ if is_known_to_version_2 => VERSION_WITHOUT_OWED,
                _ => VERSION_WITHOUT_ACCOUNT,
            },
            body: self.body.to_string(),
            size: self.size,
            destination: self.destination.clone(),
            from: self.from.clone(),
            recipients: self.recipients.clone(),
            smtputf8: self.smtputf8,
            binary: self.binary,
            ret: self.ret,
            envid: self.envid.clone(),
            priority: self.priority,
            arrived: self.arrived,
            next: self.next,
            attempts: self.attempts,
            reason: self.reason.clone(),
            held: self.held,
            warned: self.warned,
            owed: self.pending.clone(),
            account: self.account.clone(),
            sent_on_by: self.sent_on_by.clone(),
        };
        let json = serde_json::to_vec(&record);
        json.map(Bytes::from).map_err(|e| QueueError::Record { record: name(self.id), why: e.to_string() })
    }
}

/// The fields of a record that count for an account. The others are skipped, not kept.
#[derive(Deserialize)]
pub(crate) struct CountedFields<'r> {
    #[serde(borrow)]
    body: Cow<'r, str>,
    pub size: u64,
    #[serde(borrow)]
    pub destination: Cow<'r, str>,
    #[serde(borrow)]
    pub from: Cow<'r, str>,
    #[serde(default)]
    pub account: Option<String>,
    #[serde(default)]
    pub sent_on_by: Option<String>,
}

impl<'r> CountedFields<'r> {
    /// The fields of a record, with the number and the body of its item. `None` if it cannot be
    /// read.
    pub(crate) fn read(record: &'r DirectoryEntry) -> Option<(ItemId, BodyId, Self)> {
        let fields: Self = serde_json::from_slice(&record.value).ok()?;
        let body = Id::parse(&fields.body).map(BodyId)?;
        Some((number(&record.name)?, body, fields))
    }
}

/// The rows of the pending reports of a record; none if it cannot be read. Its other fields are
/// skipped, not kept.
pub(crate) fn pending_rows(record: &DirectoryEntry) -> Vec<ItemId> {
    #[derive(Deserialize)]
    struct Pending {
        #[serde(default)]
        owed: Vec<Row>,
    }
    #[derive(Deserialize)]
    struct Row {
        row: ItemId,
    }
    let pending = serde_json::from_slice::<Pending>(&record.value);
    pending.map_or_else(|_| Vec::new(), |pending| pending.owed.into_iter().map(|one| one.row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsn::{Notify, OriginalRecipient};
    use crate::item::To;
    use crate::item::tests::sample;
    use crate::success::Success;

    #[test]
    fn an_item_is_its_record() {
        let mut item = sample();
        item.recipients[0].notify = Notify::parse("SUCCESS,DELAY");
        item.recipients[1].orcpt = OriginalRecipient::parse("rfc822;cy+2Bx@example.net");
        assert!(item.write().unwrap().starts_with(b"{\"v\":2,"));
        item.recipients[1].outcome = Outcome::Unreported { success: Some(Success::Expanded) };
        assert!(item.write().unwrap().starts_with(b"{\"v\":3,"));
        for pending in [vec![], vec![PendingReport::sample("x.test"), PendingReport::sample("")]] {
            item.pending = pending;
            let entry = DirectoryEntry { name: name(item.id), version: 3, value: item.write().unwrap() };
            assert_eq!(Item::read(&entry).unwrap(), item);
            assert_eq!(pending_rows(&entry), vec![9; item.pending.len()]);
        }
        item.account = Some("ana@example.org".into());
        assert!(item.write().unwrap().starts_with(b"{\"v\":4,"));
        let entry = DirectoryEntry { name: name(item.id), version: 3, value: item.write().unwrap() };
        assert_eq!(Item::read(&entry).unwrap(), item);
        item.sent_on_by = item.account.take();
        assert!(item.write().unwrap().starts_with(b"{\"v\":5,"));
        let entry = DirectoryEntry { name: name(item.id), version: 3, value: item.write().unwrap() };
        assert_eq!(Item::read(&entry).unwrap(), item);
        for sent_on_by in [item.sent_on_by.clone(), None] {
            let mut item = Item { sent_on_by, ..item.clone() };
            item.recipients[0].named = Some("postmaster@example.net".into());
            assert!(item.write().unwrap().starts_with(b"{\"v\":6,"));
            let entry = DirectoryEntry { name: name(item.id), version: 3, value: item.write().unwrap() };
            assert_eq!(Item::read(&entry).unwrap(), item);
        }
    }

    #[test]
    fn a_record_that_is_not_ours_says_why() {
        let entry = |name: &str, json: &str| DirectoryEntry {
            name: name.into(),
            version: 1,
            value: Bytes::from(json.to_owned()),
        };
        let why = |name, json| Item::read(&entry(name, json)).unwrap_err().to_string();
        assert!(why("queue/x", "{}").contains("NUMBER"));
        assert!(why("queue/0000000001", "{}").contains("queue/0000000001"));
        let item = Item { held: false, ..sample() };
        let later = String::from_utf8(item.write().unwrap().to_vec()).unwrap().replace("\"v\":2", "\"v\":7");
        assert!(why("queue/0000000001", &later).contains("version 7"));
    }

    /// A record of an earlier version.
    #[test]
    fn a_success_need_not_say_what_it_was() {
        let outcome: Outcome = serde_json::from_str(r#"{"is":"unreported"}"#).unwrap();
        assert_eq!(outcome, Outcome::Unreported { success: None });
    }

    #[test]
    fn records_of_the_first_form_are_read() {
        let json = r#"{"v":1,"body":"BODY","size":9,"destination":"x.test","from":"ana@example.org",
            "recipients":[{"address":"bo@x.test","outcome":{"is":"waiting"}}],"arrived":1,"next":2}"#;
        let json = json.replace("BODY", &BodyId(Id::new(1, 2)).to_string());
        let entry = DirectoryEntry { name: name(7), version: 1, value: Bytes::from(json) };
        let item = Item::read(&entry).unwrap();
        assert_eq!(item.recipients, [Recipient::waiting(&To::new("bo@x.test"))]);
        assert_eq!((item.ret, item.envid, item.binary, item.smtputf8), (None, None, false, false));
        assert_eq!(item.account, None);
    }
}
