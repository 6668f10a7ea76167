//! Directory records as they are stored: JSON with a version number, one line each.
//!
//! A record of a later version, or with a field that this program does not know, is refused. To
//! rewrite it would lose that field. Octets are in base64.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use posthaste_mail_model::{AccountId, Id};
use posthaste_store::{DirectoryEntry, Engine};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::account::{
    Account, CommandLimits, FolderLimits, Format, Forward, MailboxReferral, Referral, ScriptState,
};
use crate::credential::{AppPassword, Verifier};
use crate::error::{DirectoryError, Result};
use crate::grant::{AppPasswordId, Fingerprint, Service};
use crate::own_limits;
use crate::password::{Credentials, KEY_LEN};
use crate::scram_keys::{ScramHash, ScramKeys};

/// The version described here.
pub(crate) const VERSION: u32 = 1;

pub(crate) const ACCOUNT_PREFIX: &str = "account/";
pub(crate) const ALIAS_PREFIX: &str = "alias/";
pub(crate) const DOMAIN_PREFIX: &str = "domain/";
/// The key that salts for unknown users are made from.
pub(crate) const DECOY: &str = "secret/decoy";

pub(crate) fn account_key(name: &str) -> String {
    [ACCOUNT_PREFIX, name].concat()
}
pub(crate) fn alias_key(address: &str) -> String {
    format!("{ALIAS_PREFIX}{address}")
}
pub(crate) fn certificate_key(fingerprint: &Fingerprint) -> String {
    let digits: String = fingerprint.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("certificate/{digits}")
}
pub(crate) fn used_prefix(account: AccountId) -> String {
    format!("used/{account}/")
}
pub(crate) fn used_key(account: AccountId, id: AppPasswordId) -> String {
    format!("{}{id}", used_prefix(account))
}
pub(crate) fn domain_key(domain: &str) -> String {
    format!("{DOMAIN_PREFIX}{domain}")
}

/// `account/<name>`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccountRecord {
    v: u32,
    id: String,
    name: String,
    argon2: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    scram: Option<ScramRecord>,
    /// For SCRAM-SHA-1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scram_sha1: Option<ScramRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quota_messages: Option<u64>,
    #[serde(default, skip_serializing_if = "CommandLimits::is_default")]
    command_limits: CommandLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quota_mailboxes: Option<u64>,
    #[serde(default, skip_serializing_if = "FolderLimits::is_default")]
    folder_limits: FolderLimits,
    /// Limits that the account has in place of the server's, by name.
    #[serde(default, skip_serializing_if = "own_limits::ByName::is_empty")]
    own_limits: own_limits::ByName,
    /// Programs without `stored_as` require this field, but its value has no effect in them.
    format: Format,
    /// How messages are stored; absent for what the server has for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stored_as: Option<Format>,
    #[serde(default, skip_serializing_if = "is_false")]
    keep_original: bool,
    disabled: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    shared: bool,
    created: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    password_changes: u64,
    #[serde(default, skip_serializing_if = "ScriptState::is_default")]
    scripts: Box<ScriptState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    forward: Option<Box<Forward>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    referral: Option<Box<Referral>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mailbox_referrals: Vec<MailboxReferral>,
    #[serde(default, skip_serializing_if = "is_false")]
    sets_quotas: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    app_passwords: Vec<AppPasswordRecord>,
    /// SHA-256 of each, in base64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    certificates: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AppPasswordRecord {
    id: u64,
    label: String,
    verifier: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    services: Vec<Service>,
    created: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

const fn is_false(value: &bool) -> bool {
    !*value
}

const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScramRecord {
    iterations: u32,
    salt: String,
    stored_key: String,
    server_key: String,
}

/// `alias/<address>`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AliasRecord {
    v: u32,
    account: String,
}

/// `certificate/<fingerprint>`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CertificateRecord {
    v: u32,
    account: String,
}

/// `used/<account id>/<app password id>`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsedRecord {
    v: u32,
    /// Unix seconds.
    at: u64,
}

/// `domain/<domain>`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DomainRecord {
    v: u32,
}

/// `secret/decoy`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DecoyRecord {
    v: u32,
    key: String,
}

/// An account with its credentials, as read.
#[derive(Clone)]
pub(crate) struct Stored {
    /// Shared: the recipients of one message may be a thousand addresses of one account.
    pub account: Arc<Account>,
    pub credentials: Credentials,
    pub app_passwords: Vec<AppPassword>,
    /// If there are any, the account takes no other certificate.
    pub certificates: Vec<Fingerprint>,
}

impl Stored {
    /// A new account's.
    pub fn new(account: Account, credentials: Credentials) -> Self {
        let account = Arc::new(account);
        Self { account, credentials, app_passwords: Vec::new(), certificates: Vec::new() }
    }

    /// An account's record, by its normal name.
    #[boxed]
    pub async fn find(engine: &dyn Engine, name: &str) -> Result<Option<Self>> {
        let entry = Self::entry(engine, name).await?;
        entry.as_ref().map(Self::read).transpose()
    }

    /// An account's record before it is parsed.
    #[boxed]
    pub async fn entry(engine: &dyn Engine, name: &str) -> Result<Option<DirectoryEntry>> {
        Ok(engine.directory_entry(&account_key(name)).await?)
    }

    pub fn read(entry: &DirectoryEntry) -> Result<Self> {
        let record: AccountRecord = parse(entry)?;
        let wrong = |field: &str| unreadable(&entry.name, format!("its field '{field}' has a wrong form"));
        // A login finds the record by its key, and has what the account of the field's name has.
        if entry.name.strip_prefix(ACCOUNT_PREFIX) != Some(record.name.as_str()) {
            return Err(wrong("name"));
        }
        let keys = |record: &Option<ScramRecord>, hash, field: &str| {
            record.as_ref().map(|record| record.keys(hash).ok_or_else(|| wrong(field))).transpose()
        };
        let scram = keys(&record.scram, ScramHash::Sha256, "scram")?;
        let scram_sha1 = keys(&record.scram_sha1, ScramHash::Sha1, "scram_sha1")?;
        let app_passwords = record.app_passwords.into_iter().map(|one| {
            let verifier = key(&one.verifier).ok_or_else(|| wrong("app_passwords.verifier"))?;
            Ok(AppPassword {
                id: AppPasswordId(one.id),
                label: one.label,
                services: one.services,
                created: one.created,
                expires: one.expires,
                verifier: Verifier(verifier),
            })
        });
        let certificates =
            record.certificates.iter().map(|one| key(one).ok_or_else(|| wrong("certificates")));
        let own_limits = own_limits::of_stored(&record.own_limits).ok_or_else(|| wrong("own_limits"))?;
        Ok(Self {
            app_passwords: app_passwords.collect::<Result<_>>()?,
            certificates: certificates.collect::<Result<_>>()?,
            account: Arc::new(Account {
                id: AccountId(Id::parse(&record.id).ok_or_else(|| wrong("id"))?),
                name: record.name,
                quota_bytes: record.quota_bytes,
                quota_messages: record.quota_messages,
                command_limits: record.command_limits,
                quota_mailboxes: record.quota_mailboxes,
                folder_limits: record.folder_limits,
                own_limits: own_limits::boxed(own_limits),
                format: record.stored_as,
                keep_original: record.keep_original,
                disabled: record.disabled,
                shared: record.shared,
                created: record.created,
                password_changes: record.password_changes,
                scripts: record.scripts,
                forward: record.forward,
                referral: record.referral,
                mailbox_referrals: record.mailbox_referrals.into_boxed_slice(),
                sets_quotas: record.sets_quotas,
                version: entry.version,
            }),
            credentials: Credentials { argon2: record.argon2, scram, scram_sha1 },
        })
    }

    pub fn write(&self) -> Result<Bytes> {
        let a = &self.account;
        let record = AccountRecord {
            v: VERSION,
            id: a.id.to_string(),
            name: a.name.clone(),
            argon2: self.credentials.argon2.clone(),
            scram: self.credentials.scram.as_ref().map(ScramRecord::of),
            scram_sha1: self.credentials.scram_sha1.as_ref().map(ScramRecord::of),
            quota_bytes: a.quota_bytes,
            quota_messages: a.quota_messages,
            command_limits: a.command_limits,
            quota_mailboxes: a.quota_mailboxes,
            folder_limits: a.folder_limits,
            own_limits: own_limits::to_store(a.own_limits.as_deref()),
            format: a.format.unwrap_or_default(),
            stored_as: a.format,
            keep_original: a.keep_original,
            disabled: a.disabled,
            shared: a.shared,
            created: a.created,
            password_changes: a.password_changes,
            scripts: a.scripts.clone(),
            forward: a.forward.clone(),
            referral: a.referral.clone(),
            mailbox_referrals: a.mailbox_referrals.to_vec(),
            sets_quotas: a.sets_quotas,
            app_passwords: self.app_passwords.iter().map(AppPasswordRecord::of).collect(),
            certificates: self.certificates.iter().map(|one| STANDARD.encode(one)).collect(),
        };
        print(&account_key(&a.name), &record)
    }
}

impl ScramRecord {
    fn of(keys: &ScramKeys) -> Self {
        Self {
            iterations: keys.iterations,
            salt: STANDARD.encode(&keys.salt),
            stored_key: STANDARD.encode(&keys.stored_key),
            server_key: STANDARD.encode(&keys.server_key),
        }
    }

    /// `None` if a field has a wrong form.
    fn keys(&self, hash: ScramHash) -> Option<ScramKeys> {
        let key = |text: &String| STANDARD.decode(text).ok().filter(|key| key.len() == hash.len());
        Some(ScramKeys {
            iterations: self.iterations,
            salt: STANDARD.decode(&self.salt).ok()?,
            stored_key: key(&self.stored_key)?,
            server_key: key(&self.server_key)?,
        })
    }
}

impl AppPasswordRecord {
    fn of(one: &AppPassword) -> Self {
        Self {
            id: one.id.0,
            label: one.label.clone(),
            verifier: STANDARD.encode(one.verifier.0),
            services: one.services.clone(),
            created: one.created,
            expires: one.expires,
        }
    }
}

/// The account that lists a certificate.
pub(crate) fn read_certificate(entry: &DirectoryEntry) -> Result<String> {
    parse::<CertificateRecord>(entry).map(|record| record.account)
}

pub(crate) fn write_certificate(fingerprint: &Fingerprint, account: &str) -> Result<Bytes> {
    let record = CertificateRecord { v: VERSION, account: account.to_owned() };
    print(&certificate_key(fingerprint), &record)
}

/// The time when an app password was used last, from its record.
pub(crate) fn read_used(entry: &DirectoryEntry) -> Result<u64> {
    parse::<UsedRecord>(entry).map(|record| record.at)
}

pub(crate) fn write_used(name: &str, at: u64) -> Result<Bytes> {
    print(name, &UsedRecord { v: VERSION, at })
}

/// The account an alias belongs to.
pub(crate) fn read_alias(entry: &DirectoryEntry) -> Result<String> {
    parse::<AliasRecord>(entry).map(|record| record.account)
}

pub(crate) fn write_alias(address: &str, account: &str) -> Result<Bytes> {
    print(&alias_key(address), &AliasRecord { v: VERSION, account: account.to_owned() })
}

pub(crate) fn write_domain(domain: &str) -> Result<Bytes> {
    print(&domain_key(domain), &DomainRecord { v: VERSION })
}

pub(crate) fn read_decoy(entry: &DirectoryEntry) -> Result<[u8; KEY_LEN]> {
    let record: DecoyRecord = parse(entry)?;
    key(&record.key).ok_or_else(|| unreadable(&entry.name, "its field 'key' has a wrong form".into()))
}

pub(crate) fn write_decoy(key: &[u8; KEY_LEN]) -> Result<Bytes> {
    print(DECOY, &DecoyRecord { v: VERSION, key: STANDARD.encode(key) })
}

fn key(text: &str) -> Option<[u8; KEY_LEN]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// The version alone; other fields are ignored.
#[derive(Deserialize)]
struct AnyVersion {
    v: u32,
}

pub(crate) fn parse<T: DeserializeOwned>(entry: &DirectoryEntry) -> Result<T> {
    serde_json::from_slice(&entry.value).map_err(|error| {
        let why = match serde_json::from_slice::<AnyVersion>(&entry.value) {
            Ok(AnyVersion { v }) if v != VERSION => {
                format!(
                    "it has version {v}, and this program supports version {VERSION}: use the program that \
                         wrote it"
                )
            }
            // Only the column: serde's own message may quote the record.
            _ => format!("column {} is not as expected: restore it from a backup", error.column()),
        };
        unreadable(&entry.name, why)
    })
}

pub(crate) fn print<T: Serialize>(name: &str, record: &T) -> Result<Bytes> {
    serde_json::to_vec(record).map(Bytes::from).map_err(|e| unreadable(name, e.to_string()))
}

/// The refusal of a record of another store that no command could have written.
pub(crate) fn over_limits(record: &str) -> DirectoryError {
    unreadable(record, "it is over the limits of such records, so this program has not written it".into())
}

fn unreadable(record: &str, why: String) -> DirectoryError {
    DirectoryError::Record { record: record.to_owned(), why }
}

#[cfg(test)]
mod tests {
    use posthaste_net::{AccountLimit, OwnLimits};
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;
    use crate::password::Policy;

    #[test]
    fn an_account_is_its_record() {
        let mut own_limits = OwnLimits::NONE;
        own_limits.set(AccountLimit::Connections, Some(0));
        let stored = Stored {
            account: Arc::new(Account {
                id: AccountId(Id::new(5, 6)),
                name: "ana@example.org".into(),
                quota_bytes: Some(7),
                quota_messages: Some(10),
                format: Some(Format::Rich),
                keep_original: true,
                quota_mailboxes: None,
                folder_limits: FolderLimits { warn: Some(300), max: Some(0) },
                own_limits: own_limits::boxed(own_limits),
                command_limits: CommandLimits { process: Some(100), save: Some(200) },
                shared: true,
                disabled: true,
                created: 8,
                password_changes: 9,
                scripts: Box::new(ScriptState { active: Some("main".into()), changes: 4 }),
                forward: Some(Box::new(Forward { to: vec!["x@other.test".into()], keep: true })),
                referral: Some(Box::new(Referral { url: "imap://ana@other.test/".into(), admits: true })),
                mailbox_referrals: Box::new([MailboxReferral {
                    mailbox: "Lists".into(),
                    url: "imap://ana@other.test/Lists".into(),
                }]),
                sets_quotas: true,
                version: 3,
            }),
            credentials: Credentials::make(
                "pencil",
                Policy { scram_sha1: true, ..Policy::cheap_for_tests() },
            )
            .unwrap(),
            app_passwords: vec![AppPassword {
                id: AppPasswordId(u64::MAX),
                label: "ph\u{f6}ne".into(),
                services: vec![Service::Imap, Service::Submission],
                created: 11,
                expires: Some(12),
                verifier: Verifier([7; 32]),
            }],
            certificates: vec![[8; 32], [9; 32]],
        };
        let value = stored.write().unwrap();
        let entry = DirectoryEntry { name: account_key("ana@example.org"), version: 3, value };
        let read = Stored::read(&entry).unwrap();
        assert_eq!(read.account, stored.account);
        // The record of somebody else.
        assert!(Stored::read(&DirectoryEntry { name: account_key("bo@example.org"), ..entry }).is_err());
        assert!(read.credentials == stored.credentials);
        assert_eq!((read.app_passwords, read.certificates), (stored.app_passwords, stored.certificates));
    }

    /// Accounts of earlier versions have `mime`, which meant nothing: their mail stays as sent.
    #[test]
    fn a_format_that_did_nothing_still_does_nothing() {
        for format in ["mime", "rich", "keep"] {
            let json = format!(
                r#"{{"v":1,"id":"{}","name":"a","argon2":"x","format":"{format}","disabled":false,"created":1}}"#,
                AccountId(Id::new(5, 6))
            );
            let value = Bytes::from(json);
            let read = Stored::read(&DirectoryEntry { name: "account/a".into(), version: 3, value }).unwrap();
            assert_eq!(read.account.format, None);
            // Such a record stays readable by the program that wrote it.
            assert!(!String::from_utf8_lossy(&read.write().unwrap()).contains("stored_as"));
        }
    }

    /// A record of ana with these fields in place of the usual ones.
    fn record(more: &str) -> DirectoryEntry {
        let id = AccountId(Id::new(5, 6));
        let json = format!(
            r#"{{"v":1,"id":"{id}","name":"ana","argon2":"x","format":"keep","disabled":false,"created":1{more}}}"#
        );
        DirectoryEntry { name: "account/ana".into(), version: 3, value: Bytes::from(json) }
    }

    #[test]
    fn records_without_limits_of_their_own_stay_as_they_are() {
        let read = Stored::read(&record("")).unwrap();
        assert_eq!(read.account.own_limits, None);
        // Programs from before there were such limits read what is written.
        assert!(!String::from_utf8_lossy(&read.write().unwrap()).contains("own_limits"));
        let read = Stored::read(&record(r#","own_limits":{"connections":3,"sent_per_hour":0}"#)).unwrap();
        let own: Vec<_> = read.account.own_limits.as_deref().unwrap().iter().collect();
        assert_eq!(own, [(AccountLimit::Connections, 3), (AccountLimit::Sent, 0)]);
        // To rewrite a record would lose a limit that this program does not know.
        let error = Stored::read(&record(r#","own_limits":{"letters":3}"#)).err().unwrap().to_string();
        assert!(error.contains("own_limits"), "{error}");
    }

    properties! {
        #[test]
        fn limits_of_an_account_are_those_of_its_record(
            limits in prop::collection::vec(prop::option::of(any::<u64>()), AccountLimit::ALL.len())
        ) {
            let mut own = OwnLimits::NONE;
            AccountLimit::ALL.into_iter().zip(limits).for_each(|(limit, count)| own.set(limit, count));
            let mut stored = Stored::read(&record("")).unwrap();
            Arc::make_mut(&mut stored.account).own_limits = own_limits::boxed(own);
            let value = stored.write().unwrap();
            let read = Stored::read(&DirectoryEntry { value, ..record("") }).unwrap();
            prop_assert_eq!(read.account, stored.account);
        }
    }

    #[test]
    fn a_record_that_is_not_ours_says_why() {
        let entry = |json: &str| DirectoryEntry {
            name: "alias/a@b".into(),
            version: 1,
            value: Bytes::from(json.to_owned()),
        };
        let why = |json: &str| read_alias(&entry(json)).unwrap_err().to_string();
        assert!(why(r#"{"v":2,"accounts":["x"]}"#).contains("version 2"));
        assert!(why(r#"{"v":1,"account":"x","more":1}"#).contains("column"));
        assert!(why("nonsense").contains("'alias/a@b'"));
        assert_eq!(read_alias(&entry(r#"{"v":1,"account":"x"}"#)).unwrap(), "x");
    }
}
