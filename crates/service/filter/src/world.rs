//! The context of a run: the envelope, the clock, the mailboxes, the remembered records.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use chrono::{Local, Offset as _, TimeZone as _};
use parking_lot::Mutex;
use posthaste_directory::{Annotated, Annotations, Directory, Recipient, unix_time};
use posthaste_mail_model::MailboxName;
use posthaste_sieve::{Context, Location, Moment, Script};
use posthaste_store::{Engine, MailboxEntry, MailboxList, SpecialUse};
use tokio::runtime::Handle;

use crate::compiled::Scripts;
use crate::memory::{self, Key};
use crate::site::{self, SiteScripts};

/// The world of one run. The run has a thread of its own, which may wait for the engine.
pub(crate) struct World {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) own: Vec<String>,
    pub(crate) now: u64,
    pub(crate) host: Arc<str>,
    pub(crate) list: Arc<MailboxList>,
    pub(crate) scripts: Arc<Scripts>,
    /// The scripts of the administrator.
    pub(crate) site: Option<Arc<SiteScripts>>,
    /// The command of a user on the message, if it has not just come in.
    pub(crate) happened: Option<MessageEvent>,
    /// The address of the client that brought the message, if it is known.
    pub(crate) remote_ip: Option<String>,
    /// Its name in DNS.
    pub(crate) remote_host: Option<String>,
    pub(crate) directory: Arc<Directory>,
    /// The annotations that the run has read. An account has at most 4 MiB of them.
    pub(crate) annotations: Mutex<BTreeMap<Annotated, Annotations>>,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) runtime: Handle,
    /// The mailboxes, read at the first question about them.
    pub(crate) known: OnceLock<KnownMailboxes>,
    /// Set when nobody waits for the run any more.
    pub(crate) stop: Arc<AtomicBool>,
}

/// The ids and special uses of all mailboxes. A run reads them once.
pub(crate) struct KnownMailboxes {
    ids: HashSet<String>,
    uses: Vec<SpecialUse>,
}

/// The command on messages (RFC 6785 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// APPEND, or REPLACE.
    Append,
    /// COPY, or MOVE.
    Copy,
    /// STORE.
    Flag,
}

impl Cause {
    /// Its name in `imap.cause`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Append => "APPEND",
            Self::Copy => "COPY",
            Self::Flag => "FLAG",
        }
    }
}

/// The command of a user on a message (RFC 6785 §4).
pub(crate) struct MessageEvent {
    pub(crate) user: String,
    pub(crate) mailbox: String,
    pub(crate) cause: Cause,
    /// The flags that STORE was about, with spaces between them.
    pub(crate) changed: String,
    /// The flags that the message has now.
    pub(crate) flags: Vec<String>,
}

/// Addresses that are the account's own, as far as this message shows them (RFC 5230 §4.5). They
/// are its name and the address of the recipient, with and without its detail.
pub(crate) fn own_addresses(recipient: &Recipient) -> Vec<String> {
    let address = recipient.address.as_str();
    let mut own = vec![recipient.account.name.clone(), address.to_owned()];
    if let Some(detail) = &recipient.detail
        && let Some((local, domain)) = address.rsplit_once('@')
        && let Some(user) = local.strip_suffix(&**detail).and_then(|l| l.strip_suffix('+'))
    {
        own.push(format!("{user}@{domain}"));
    }
    own
}

/// An item of the environment at a delivery by a server of this name (RFC 5183 §4.1).
pub fn delivery_item<'h>(host: &'h str, item: &str) -> Option<&'h str> {
    match item {
        "host" => Some(host),
        "domain" => Some(host.split_once('.').map_or("", |(_, domain)| domain)),
        "location" => Some("MDA"),
        "phase" => Some("during"),
        "name" => Some("Posthaste"),
        "version" => Some(env!("CARGO_PKG_VERSION")),
        _ => None,
    }
}

/// The special use of a name such as `\Junk` (RFC 6154 §2).
pub(crate) fn special_use(name: &str) -> Option<SpecialUse> {
    SpecialUse::ALL.into_iter().find(|one| name.eq_ignore_ascii_case(&format!("\\{one:?}")))
}

/// The mailbox that a script names.
pub(crate) fn find<'l>(list: &'l MailboxList, name: &str) -> Option<&'l MailboxEntry> {
    list.find(&MailboxName::new(name).ok()?)
}

/// Minutes by which the zone of this machine is ahead of UTC at a time: the environment's `TZ`, or
/// `/etc/localtime`. 0 if the system does not know.
pub fn zone_minutes(unix_s: i64) -> i32 {
    Local.timestamp_opt(unix_s, 0).single().map_or(0, |at| at.offset().fix().local_minus_utc() / 60)
}

impl World {
    fn known(&self) -> &KnownMailboxes {
        self.known.get_or_init(|| KnownMailboxes {
            ids: self.list.entries.iter().map(|entry| entry.id.to_string()).collect(),
            uses: self.list.entries.iter().filter_map(|entry| entry.special_use).collect(),
        })
    }

    /// One annotation. All of a mailbox are read once.
    fn annotation(&self, of: Annotated, name: &str) -> Option<String> {
        let known = self.annotations.lock().get(&of).map(|all| all.get(name).cloned());
        let value = known.unwrap_or_else(|| {
            let read = self.runtime.block_on(self.directory.metadata().get(self.list.account, of));
            let all = read.unwrap_or_else(|error| {
                tracing::warn!(account = %self.list.account, %error, "annotations cannot be read for a Sieve script");
                Annotations::default()
            });
            let value = all.get(name).cloned();
            self.annotations.lock().insert(of, all);
            value
        });
        String::from_utf8(value?.to_vec()).ok()
    }

    fn remembers(&self, key: Key<'_>, within: Option<u64>) -> bool {
        let has = memory::has(&*self.engine, self.list.account, key, self.now, within);
        self.runtime.block_on(has).unwrap_or_else(|error| {
            // The message counts as new: a fault suppresses nothing.
            tracing::warn!(account = %self.list.account, %error, "cannot check whether a message was seen before");
            false
        })
    }
}

impl Context for World {
    fn envelope_from(&self) -> &str {
        &self.from
    }

    fn envelope_to(&self) -> &str {
        &self.to
    }

    fn now(&self) -> Moment {
        let unix_s = unix_time::signed(self.now);
        // RFC 5260 §4.1, §5: without `:zone` a date is that of the server's zone.
        Moment { unix_s, zone_minutes: zone_minutes(unix_s) }
    }

    fn own_addresses(&self) -> &[String] {
        &self.own
    }

    fn mailbox_exists(&self, mailbox: &str) -> bool {
        find(&self.list, mailbox).is_some()
    }

    fn mailbox_id_exists(&self, id: &str) -> bool {
        self.known().ids.contains(id)
    }

    fn special_use_exists(&self, mailbox: Option<&str>, flag: &str) -> bool {
        let Some(wanted) = special_use(flag) else { return false };
        match mailbox {
            Some(name) => find(&self.list, name).is_some_and(|entry| entry.special_use == Some(wanted)),
            None => self.known().uses.contains(&wanted),
        }
    }

    fn metadata(&self, mailbox: Option<&str>, annotation: &str) -> Option<Cow<'_, str>> {
        let of = match mailbox {
            Some(name) => Annotated::Mailbox(find(&self.list, name)?.id),
            None => Annotated::Server,
        };
        self.annotation(of, annotation).map(Cow::Owned)
    }

    /// RFC 5183 §4.1.
    fn environment(&self, item: &str) -> Option<Cow<'_, str>> {
        if let Some(happened) = &self.happened {
            // RFC 6785 §4. All accounts have an address as their name.
            let text = match item {
                "location" => "MS",
                "phase" => "post",
                "imap.user" | "imap.email" => &happened.user,
                "imap.cause" => happened.cause.name(),
                "imap.mailbox" => &happened.mailbox,
                "imap.changedflags" => &happened.changed,
                _ => "",
            };
            if !text.is_empty() || item == "imap.changedflags" {
                return Some(Cow::Borrowed(text));
            }
        }
        match item {
            "remote-ip" => self.remote_ip.as_deref(),
            "remote-host" => self.remote_host.as_deref(),
            _ => delivery_item(&self.host, item),
        }
        .map(Cow::Borrowed)
    }

    fn flags(&self) -> &[String] {
        self.happened.as_ref().map_or(&[], |happened| &happened.flags)
    }

    fn is_duplicate(&self, key: &str) -> bool {
        self.remembers(Key::Duplicate { key }, None)
    }

    fn was_answered(&self, key: &str, sender: &str, seconds: Option<u64>) -> bool {
        self.remembers(Key::Answered { key, sender }, Some(seconds.unwrap_or(memory::ANSWERED_S)))
    }

    fn stop(&self) -> Option<&AtomicBool> {
        Some(&self.stop)
    }

    fn script(&self, location: Location, name: &str) -> Result<Option<Arc<Script>>, String> {
        match location {
            Location::Personal if name == site::OWN => self.scripts.active.clone().map(Some),
            Location::Personal => self.scripts.others.get(name).cloned().transpose(),
            Location::Global => Ok(self.site.as_ref().and_then(|site| site.scripts.get(name).cloned())),
        }
    }
}
