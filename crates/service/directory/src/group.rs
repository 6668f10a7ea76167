//! Groups: addresses with members, here or elsewhere. The group of a whole domain (`@example.org`)
//! gets mail for all other addresses of the domain: a catch-all.
//!
//! An address is looked up as an account first, then as an alias, then as a group. So groups do not
//! slow down mail for accounts.

use std::collections::HashSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use posthaste_store::CommitOutcome;
use serde::{Deserialize, Serialize};

use crate::address::{Address, AddressError, normal_domain};
use crate::error::{DirectoryError, Result};
use crate::limits::{EXPANSION_MAX, MEMBERS_MAX};
use crate::record;
use crate::records::{Records, TRIES};
use crate::resolve::{Addresses, Recipient, ResolveError};
use crate::shared_groups::{Group, SharedGroups};

const PREFIX: &str = "group/";
/// Members that are looked up before others get a turn: some microseconds each.
const MEMBERS_PER_BATCH: usize = 256;
/// Names of groups that are read at a time.
const PAGE: usize = 256;

/// The target of an address: an account, or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An account, by its name or an alias.
    Account(Recipient),
    /// A group. Sessions share one copy while any of them holds it: an untrusted host may name a
    /// group a thousand times.
    Group(Arc<Group>),
}

impl Target {
    /// The name of the account, or the address of the group.
    pub fn name(&self) -> &str {
        match self {
            Self::Account(recipient) => &recipient.account.name,
            Self::Group(group) => &group.address,
        }
    }
}

/// The members of a group, those of groups within it included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expansion {
    /// Accounts here, each once.
    pub here: Vec<Recipient>,
    /// Addresses in other domains, each once.
    pub elsewhere: Vec<String>,
    /// Members that take no mail, and why.
    pub refused: Vec<(String, String)>,
    /// Members through which it would contain itself. They reach nobody.
    pub circular: Vec<String>,
    /// Groups within it, in the order in which they were met.
    pub groups: Vec<String>,
}

impl Group {
    /// Whether mail for an address comes to this group, if nobody else takes it.
    pub fn takes(&self, address: &str) -> bool {
        Address::parse(address).is_ok_and(|address| names(&address).any(|name| name == self.address))
    }
}

/// `group/<address>`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupRecord {
    v: u32,
    members: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

/// The groups of all domains.
pub struct Groups {
    records: Records,
    addresses: Addresses,
    shared: SharedGroups,
}

impl Groups {
    pub(crate) fn new(records: Records) -> Self {
        let addresses = Addresses::new(records.clone());
        Self { records, addresses, shared: SharedGroups::default() }
    }

    /// The addresses that are looked up before groups.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Makes a group, or replaces its members and owner. Refused for the address of an account or
    /// an alias, for members that are no addresses, and for a group that would contain itself.
    #[boxed]
    pub async fn set(&self, address: &str, members: &[String], owner: Option<&str>) -> Result<Group> {
        let (address, domain) = parse(address)?;
        if !address.starts_with('@') {
            if self.records.stored(&address).await?.is_some() {
                return Err(DirectoryError::AccountExists(address));
            }
            if let Some(account) = self.records.alias_target(&address).await? {
                return Err(DirectoryError::AliasExists { alias: address, account });
            }
        }
        let mut group = Group { address, members: Vec::new(), owner: owner.map(member).transpose()? };
        for text in members {
            let member = member(text)?;
            if !group.members.contains(&member) {
                group.members.push(member);
            }
        }
        if group.members.is_empty() || group.members.len() > MEMBERS_MAX {
            return Err(DirectoryError::GroupSize(group.members.len()));
        }
        let expansion = self.expand(&group).await.map_err(|error| match error {
            ResolveError::Directory(error) => error,
            _ => DirectoryError::GroupSize(EXPANSION_MAX),
        })?;
        if !expansion.circular.is_empty() {
            return Err(DirectoryError::GroupLoop(group.address));
        }
        if let Some(owner) = &group.owner {
            self.check_owner(owner, &group.address).await?;
        }
        self.records.note_domain(&domain).await?;
        let record =
            GroupRecord { v: record::VERSION, members: group.members.clone(), owner: group.owner.clone() };
        let key = key(&group.address);
        for _ in 0..TRIES {
            let expected = self.records.entry(&key).await?.map_or(0, |entry| entry.version);
            let value = record::print(&key, &record)?;
            if self.records.put(key.clone(), expected, Some(value)).await? == CommitOutcome::Done {
                return Ok(group);
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Whether reports can reach the owner of a group, which may be another group. Otherwise all
    /// members would get a report about each member without mail.
    async fn check_owner(&self, owner: &str, group: &str) -> Result<()> {
        match self.addresses.resolve(owner).await {
            Ok(_) | Err(ResolveError::NotLocal | ResolveError::Disabled) => Ok(()),
            Err(ResolveError::Directory(error)) => Err(error),
            Err(ResolveError::NoSuchUser | ResolveError::Invalid(_)) => match self.target(owner).await {
                // The other server of a shared domain has it.
                Err(ResolveError::NotLocal) => Ok(()),
                Err(ResolveError::Directory(error)) => Err(error),
                Ok(Target::Group(other)) if other.address != group => Ok(()),
                _ => Err(DirectoryError::GroupOwner(owner.to_owned())),
            },
        }
    }

    /// Removes a group. Its members stay.
    #[boxed]
    pub async fn remove(&self, address: &str) -> Result<()> {
        let (address, _) = parse(address)?;
        let key = key(&address);
        for _ in 0..TRIES {
            let entry = self.records.entry(&key).await?;
            let entry = entry.ok_or_else(|| DirectoryError::NoGroup(address.clone()))?;
            if self.records.put(key.clone(), entry.version, None).await? == CommitOutcome::Done {
                return Ok(());
            }
        }
        Err(DirectoryError::Busy(key))
    }

    /// Groups by address, those after `after`, at most `limit`.
    #[boxed]
    pub async fn list(&self, after: Option<&str>, limit: usize) -> Result<Vec<Group>> {
        let entries = self.records.scan(PREFIX, after.map(key).as_deref(), limit).await?;
        let group = |entry: &posthaste_store::DirectoryEntry| match entry.name.strip_prefix(PREFIX) {
            Some(address) => read(entry, address),
            None => {
                debug_assert!(false, "a scan for groups found {}", entry.name);
                let why = "it is not a group".to_owned();
                Err(DirectoryError::Record { record: entry.name.clone(), why })
            }
        };
        entries.iter().map(group).collect()
    }

    /// Whether a group has this address with a detail. An alias of the address would take its mail,
    /// because aliases come before groups.
    #[boxed]
    pub async fn have_details_of(&self, address: &Address) -> Result<bool> {
        let first = key(&format!("{}+", address.local()));
        let mut after: Option<String> = None;
        loop {
            let names = self.records.names(&first, after.as_deref(), PAGE).await?;
            let is_detailed = |name: &String| {
                let group = name.strip_prefix(PREFIX).and_then(|group| Address::parse(group).ok());
                group.as_ref().and_then(Address::split_detail).is_some_and(|(base, _)| base == *address)
            };
            if names.iter().any(is_detailed) {
                return Ok(true);
            }
            match names.into_iter().next_back() {
                Some(last) => after = Some(last),
                None => return Ok(false),
            }
        }
    }

    /// Finds the account or the group that gets mail for an address. One to four reads of a
    /// record for an account, up to three more for a group. `NotLocal` also for an unknown
    /// recipient of a domain that is shared ([`crate::Directory::share_domains`]).
    #[boxed]
    pub async fn target(&self, address: &str) -> Result<Target, ResolveError> {
        match self.addresses.resolve(address).await {
            Ok(recipient) => Ok(Target::Account(recipient)),
            Err(ResolveError::NoSuchUser) => {
                let address = Address::parse(address)?;
                let group = self.group_of(&address).await?;
                let group = group.map(|group| self.shared.share(group));
                group.map(Target::Group).ok_or_else(|| self.addresses.unknown(&address))
            }
            Err(error) => Err(error),
        }
    }

    /// The group of an address.
    async fn group_of(&self, address: &Address) -> Result<Option<Group>> {
        for name in names(address) {
            if let Some(entry) = self.records.entry(&key(&name)).await? {
                return read(&entry, &name).map(Some);
            }
        }
        Ok(None)
    }

    /// Finds the members of a group. A group that is met twice is expanded once, so there is no
    /// loop. The group need not be stored yet. `Invalid` if there are more than
    /// [`EXPANSION_MAX`].
    #[boxed]
    pub async fn expand(&self, group: &Group) -> Result<Expansion, ResolveError> {
        let mut found = Expansion::default();
        let (mut accounts, mut met) = (HashSet::new(), HashSet::new());
        let mut next: Vec<String> = group.members.iter().rev().cloned().collect();
        while let Some(member) = next.pop() {
            if !met.insert(member.clone()) {
                continue;
            }
            if met.len() > EXPANSION_MAX {
                return Err(ResolveError::Invalid(AddressError::TooLong));
            }
            if met.len().is_multiple_of(MEMBERS_PER_BATCH) {
                tokio::task::yield_now().await;
            }
            match self.target(&member).await {
                Ok(Target::Account(recipient)) => {
                    if accounts.insert(recipient.account.id) {
                        found.here.push(recipient);
                    }
                }
                Ok(Target::Group(inner)) if inner.address == group.address => found.circular.push(member),
                // It would come here, once the group is stored and its domain is known.
                Err(ResolveError::NoSuchUser | ResolveError::NotLocal) if group.takes(&member) => {
                    found.circular.push(member);
                }
                Ok(Target::Group(inner)) => {
                    if !found.groups.contains(&inner.address) {
                        next.extend(inner.members.iter().rev().cloned());
                        found.groups.push(inner.address.clone());
                    }
                }
                Err(ResolveError::NotLocal) => found.elsewhere.push(member),
                Err(error @ ResolveError::Directory(_)) => return Err(error),
                Err(error) => found.refused.push((member, error.to_string())),
            }
        }
        Ok(found)
    }
}

/// Refuses the address of a group.
pub(crate) async fn refuse_group(records: &Records, address: &Address) -> Result<()> {
    match records.entry(&key(address.as_str())).await? {
        Some(_) => Err(DirectoryError::GroupExists(address.to_string())),
        None => Ok(()),
    }
}

/// The address of a group in normal form, and its domain.
fn parse(text: &str) -> Result<(String, String)> {
    let wrong = |why| DirectoryError::Address { text: text.to_owned(), why };
    if let Some(domain) = text.strip_prefix('@') {
        let domain = normal_domain(domain).map_err(wrong)?;
        return Ok((format!("@{domain}"), domain));
    }
    let address = Address::parse(text).map_err(wrong)?;
    let domain = address.domain().ok_or_else(|| wrong(AddressError::Domain))?.to_owned();
    Ok((address.to_string(), domain))
}

/// A member in normal form: an address with a domain.
pub(crate) fn member(text: &str) -> Result<String> {
    if text.starts_with('@') {
        return Err(DirectoryError::Address { text: text.to_owned(), why: AddressError::NoLocalPart });
    }
    parse(text).map(|(address, _)| address)
}

/// The addresses of groups that may take mail for an address: its own, that without its detail, and
/// that of its domain.
fn names(address: &Address) -> impl Iterator<Item = String> {
    let base = address.split_detail().map(|(base, _)| base.to_string());
    let all = address.domain().map(|domain| format!("@{domain}"));
    [Some(address.to_string()), base, all].into_iter().flatten()
}

fn key(address: &str) -> String {
    format!("{PREFIX}{address}")
}

fn read(entry: &posthaste_store::DirectoryEntry, address: &str) -> Result<Group> {
    let GroupRecord { members, owner, .. } = record::parse(entry)?;
    Ok(Group { address: address.to_owned(), members, owner })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::AccountChange;
    use crate::directory::Directory;
    use crate::testing::add;

    async fn directory_of(accounts: &[&str]) -> Directory {
        let (_, directory) = crate::testing::directory();
        for name in accounts {
            add(&directory, name, "pencil").await;
        }
        directory
    }

    fn reached(found: &Expansion) -> Vec<&str> {
        found.here.iter().map(|recipient| recipient.account.name.as_str()).collect()
    }

    async fn set(directory: &Directory, address: &str, members: &[&str]) -> Result<Group> {
        let members: Vec<String> = members.iter().map(|member| (*member).to_owned()).collect();
        directory.groups().set(address, &members, None).await
    }

    async fn group(directory: &Directory, address: &str) -> Arc<Group> {
        match directory.target(address).await {
            Ok(Target::Group(group)) => group,
            other => panic!("{address}: {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_group_expands_to_its_members_and_those_of_its_groups() {
        let directory = directory_of(&["ana@example.org", "bo@example.org"]).await;
        directory.aliases().add("chief@example.org", "ana@example.org").await.unwrap();
        set(&directory, "inner@example.org", &["bo@example.org", "x@other.test"]).await.unwrap();
        let members =
            ["ana@example.org", "Inner@Example.org", "chief@example.org", "X@other.test", "no@example.org"];
        set(&directory, "team@example.org", &members).await.unwrap();
        let found = directory.expand(&*group(&directory, "team+detail@example.org").await).await.unwrap();
        assert_eq!(reached(&found), ["ana@example.org", "bo@example.org"]);
        assert_eq!(
            (&found.elsewhere[..], &found.groups[..]),
            (&["x@other.test".to_owned()][..], &["inner@example.org".to_owned()][..])
        );
        assert_eq!(found.refused, [("no@example.org".to_owned(), "no such user here".to_owned())]);
        directory.groups().remove("team@example.org").await.unwrap();
        assert!(matches!(directory.target("team@example.org").await, Err(ResolveError::NoSuchUser)));
        assert!(matches!(
            directory.groups().remove("team@example.org").await,
            Err(DirectoryError::NoGroup(_))
        ));
    }

    #[tokio::test]
    async fn a_group_that_many_ask_for_is_there_once() {
        let directory = directory_of(&["ana@example.org", "bo@example.org"]).await;
        set(&directory, "team@example.org", &["ana@example.org"]).await.unwrap();
        let one = group(&directory, "team@example.org").await;
        for detail in 0..100 {
            let other = group(&directory, &format!("team+{detail}@example.org")).await;
            assert!(Arc::ptr_eq(&one, &other));
        }
        // A change counts for those who read the group from then on.
        set(&directory, "team@example.org", &["bo@example.org"]).await.unwrap();
        let changed = group(&directory, "team@example.org").await;
        assert_eq!(
            (&one.members[..], &changed.members[..]),
            (&["ana@example.org".to_owned()][..], &["bo@example.org".to_owned()][..])
        );
        // Groups that no session uses are dropped.
        for n in 0..1000 {
            let address = format!("g{n}@example.org");
            directory.groups.shared.share(Group { address, members: Vec::new(), owner: None });
        }
        assert!(directory.groups.shared.0.lock().len() < 4 * crate::shared_groups::SharedGroups::NOTED_MAX);
        assert!(Arc::ptr_eq(&changed, &group(&directory, "team@example.org").await));
    }

    #[tokio::test]
    async fn the_group_of_a_domain_takes_what_nobody_else_does() {
        let directory = directory_of(&["ana@example.org"]).await;
        set(&directory, "@Example.org", &["ana@example.org"]).await.unwrap();
        set(&directory, "@lists.test", &["ana@example.org"]).await.unwrap();
        assert!(matches!(directory.target("ana+x@example.org").await, Ok(Target::Account(_))));
        assert_eq!(group(&directory, "anyone@example.org").await.address, "@example.org");
        assert_eq!(group(&directory, "anyone@lists.test").await.address, "@lists.test");
        assert!(matches!(directory.target("anyone@other.test").await, Err(ResolveError::NotLocal)));
    }

    #[tokio::test]
    async fn groups_with_a_detail_are_found_by_the_address_without_it() {
        let directory = directory_of(&["ana@example.org"]).await;
        for group in ["team+x@example.org", "team+a@other.test", "team@third.test"] {
            set(&directory, group, &["ana@example.org"]).await.unwrap();
        }
        for (address, expected) in [
            ("Team@example.org", true),
            ("team@other.test", true),
            ("team@third.test", false),
            ("tea@example.org", false),
            ("team+x@example.org", false),
            ("team", false),
        ] {
            let address = Address::parse(address).unwrap();
            let found = directory.groups().have_details_of(&address).await.unwrap();
            assert_eq!(found, expected, "{address}");
        }
    }

    #[tokio::test]
    async fn a_group_that_holds_itself_is_refused_and_harmless() {
        let directory = directory_of(&["ana@example.org"]).await;
        set(&directory, "a@example.org", &["b@example.org", "ana@example.org"]).await.unwrap();
        let refused = set(&directory, "b@example.org", &["a@example.org"]).await.unwrap_err();
        assert!(refused.to_string().contains("contains itself"), "{refused}");
        let refused = set(&directory, "@example.org", &["nobody@example.org"]).await.unwrap_err();
        assert!(refused.to_string().contains("contains itself"), "{refused}");
        // The state after two concurrent commands.
        let key = key("b@example.org");
        let record = GroupRecord { v: record::VERSION, members: vec!["a@example.org".into()], owner: None };
        directory.records.put(key.clone(), 0, Some(record::print(&key, &record).unwrap())).await.unwrap();
        let found = directory.expand(&*group(&directory, "a@example.org").await).await.unwrap();
        assert_eq!(reached(&found), ["ana@example.org"]);
        assert_eq!(found.circular, ["a@example.org"]);
    }

    #[tokio::test]
    async fn a_group_of_a_new_domain_is_refused_if_it_holds_itself() {
        let directory = directory_of(&["ana@example.org"]).await;
        for (address, members) in [
            ("list@new.test", &["list@new.test"][..]),
            ("list@new.test", &["ana@example.org", "List+x@New.test"]),
            ("@new.test", &["x@new.test"]),
        ] {
            let refused = set(&directory, address, members).await;
            assert!(matches!(refused, Err(DirectoryError::GroupLoop(_))), "{address}: {refused:?}");
        }
        // A member that takes no mail is no loop.
        let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
        directory.set("ana@example.org", change).await.unwrap();
        set(&directory, "@example.org", &["ana@example.org"]).await.unwrap();
        let found = directory.expand(&*group(&directory, "any@example.org").await).await.unwrap();
        assert_eq!((found.refused.len(), found.circular.len()), (1, 0));
    }

    #[tokio::test]
    async fn an_owner_is_somebody_who_gets_reports() {
        let directory = directory_of(&["ana@example.org"]).await;
        let members = ["ana@example.org".to_owned()];
        directory.groups().set("@lists.test", &members, None).await.unwrap();
        for (owner, is_good) in [
            ("ana+lists@example.org", true),
            ("x@elsewhere.test", true),
            ("nobody@example.org", false),
            ("team@example.org", false),
            ("anyone@lists.test", true),
        ] {
            let set = directory.groups().set("team@example.org", &members, Some(owner)).await;
            assert_eq!(set.is_ok(), is_good, "{owner}: {set:?}");
        }
        // An address of the group itself is no valid owner once the group exists.
        directory.groups().set("team@example.org", &members, Some("team+x@example.org")).await.unwrap_err();
    }

    #[tokio::test]
    async fn a_domains_group_whose_member_was_removed_is_empty() {
        let directory = directory_of(&["ana@example.org"]).await;
        set(&directory, "@example.org", &["ana@example.org"]).await.unwrap();
        directory.remove("ana@example.org").await.unwrap();
        let found = directory.expand(&*group(&directory, "any@example.org").await).await.unwrap();
        assert_eq!(found, Expansion { circular: vec!["ana@example.org".to_owned()], ..Expansion::default() });
    }

    #[tokio::test]
    async fn an_invalid_group_is_refused_with_its_reason() {
        let directory = directory_of(&["ana@example.org"]).await;
        directory.aliases().add("chief@example.org", "ana@example.org").await.unwrap();
        for (address, members, why) in [
            ("ana@example.org", &["x@other.test"][..], "exists already"),
            ("chief@example.org", &["x@other.test"], "is an alias of"),
            ("team@example.org", &[], "1 to 5000"),
            ("team", &["x@other.test"], "domain"),
            ("team@example.org", &["@other.test"], "no local part"),
            ("team@example.org", &["plain"], "domain"),
        ] {
            let refused = set(&directory, address, members).await.unwrap_err().to_string();
            assert!(refused.contains(why), "{address}: {refused}");
        }
        let taken = set(&directory, "team@example.org", &["ana@example.org"]).await.unwrap();
        let refused = directory.aliases().add("team@example.org", "ana@example.org").await.unwrap_err();
        assert!(refused.to_string().contains("is a group"), "{refused} {taken:?}");
    }
}
