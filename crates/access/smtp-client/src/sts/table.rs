//! The policies that are kept, and the choice of those that a new one evicts.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use posthaste_directory::registered_domain;

use super::cached_policy::CachedPolicy;
use super::policy::PATTERNS_LEN_MAX;

/// Policies that are kept: few domains have one. Beyond that, the registered domain with the most
/// policies loses the one that ends first.
pub(super) const POLICIES_MAX: usize = 10_000;
/// Bytes of all policies: a usual one has some 550, the longest 15 KiB. Beyond that,
/// the registered domain whose policies take most loses the one that ends first.
pub(super) const POLICIES_BYTES_MAX: usize = 4 << 20;
/// Policies of one registered domain: its owner can make names below it at will.
const OF_ONE_MAX: usize = 100;

/// The policies, by domain.
#[derive(Default)]
pub(super) struct Table {
    pub(super) policies: HashMap<String, CachedPolicy>,
    /// Bytes of all policies: see [`CachedPolicy::bytes`].
    bytes: usize,
    /// Ids that could not be fetched, and when. Forgotten when there are too many.
    pub(super) failed: HashMap<String, (String, i64)>,
    /// Walks over all policies.
    #[cfg(test)]
    walks: std::cell::Cell<usize>,
}

impl Table {
    /// Keeps a policy in place of the domain's old one. Returns the domains whose policies it
    /// evicts.
    pub fn put(&mut self, domain: &str, kept: CachedPolicy) -> Vec<String> {
        self.remove(domain);
        let evicted = self.in_the_way_of(domain, kept.bytes(domain));
        evicted.iter().for_each(|other| self.remove(other));
        self.insert(domain.to_owned(), kept);
        evicted
    }

    /// Adds the policy of a domain that has none here.
    pub fn insert(&mut self, domain: String, kept: CachedPolicy) {
        self.bytes += kept.bytes(&domain);
        self.policies.insert(domain, kept);
    }

    fn remove(&mut self, domain: &str) {
        if let Some(kept) = self.policies.remove(domain) {
            self.bytes -= kept.bytes(domain);
        }
    }

    /// Whether a stored policy of another domain fits beside those of the table.
    pub fn has_room(&self, domain: &str, kept: &CachedPolicy) -> bool {
        kept.policy.patterns_len() <= PATTERNS_LEN_MAX
            && self.policies.len() < POLICIES_MAX
            && self.bytes + kept.bytes(domain) <= POLICIES_BYTES_MAX
    }

    /// All policies. A walk over ten thousand takes a millisecond if each name is looked at, and
    /// the table is locked meanwhile.
    fn walk(&self) -> impl Iterator<Item = (&str, &CachedPolicy)> {
        #[cfg(test)]
        self.walks.set(self.walks.get() + 1);
        self.policies.iter().map(|(name, kept)| (name.as_str(), kept))
    }

    /// The policies to evict for a new one of `domain`, if the table is full. Domains under one
    /// registered domain evict each other first, and those of the largest group next.
    fn in_the_way_of(&self, domain: &str, bytes: usize) -> Vec<String> {
        let own = registered_domain(domain);
        // Most names end differently, which is seen at once.
        let is_own = |name: &str| name.ends_with(own) && registered_domain(name) == own;
        let of_own = self.walk().filter(|(name, _)| is_own(name)).count();
        let has_room = self.policies.len() < POLICIES_MAX && self.bytes + bytes <= POLICIES_BYTES_MAX;
        if of_own < OF_ONE_MAX && has_room {
            return Vec::new();
        }
        let mut eviction = Eviction::new(self, own, bytes);
        for _ in OF_ONE_MAX..=of_own {
            eviction.evict(own);
        }
        eviction.shrink(|group| group.count, |all| all.count <= POLICIES_MAX);
        eviction.shrink(|group| group.bytes, |all| all.bytes <= POLICIES_BYTES_MAX);
        eviction.evicted
    }
}

/// The policies that a new one evicts. However many they are, they are chosen after one walk over
/// the table.
struct Eviction<'t> {
    /// The policies, those that end first last.
    policies: Vec<Candidate<'t>>,
    /// By registered domain.
    groups: HashMap<&'t str, Group>,
    /// Policies and bytes of the table, with the new policy and without the evicted ones.
    count: usize,
    bytes: usize,
    evicted: Vec<String>,
}

/// A policy of the table.
struct Candidate<'t> {
    name: &'t str,
    ends: i64,
    bytes: usize,
    /// The place of the policy of its registered domain that ends next.
    next: Option<usize>,
}

/// The policies of a registered domain. The new policy counts if there are others.
#[derive(Default)]
struct Group {
    count: usize,
    bytes: usize,
    /// The place of the policy that ends first.
    first: Option<usize>,
}

impl<'t> Eviction<'t> {
    /// Nothing is evicted yet for a policy of so many bytes, of a name below `own`.
    fn new(table: &'t Table, own: &str, bytes: usize) -> Self {
        let candidate = |(name, kept): (&'t str, &CachedPolicy)| Candidate {
            name,
            ends: kept.ends(),
            bytes: kept.bytes(name),
            next: None,
        };
        let mut policies: Vec<_> = table.walk().map(candidate).collect();
        policies.sort_unstable_by_key(|one| Reverse(one.ends));
        let mut groups: HashMap<&str, Group> = HashMap::new();
        for (at, one) in policies.iter_mut().enumerate() {
            let group = groups.entry(registered_domain(one.name)).or_default();
            one.next = group.first.replace(at);
            group.count += 1;
            group.bytes += one.bytes;
        }
        if let Some(group) = groups.get_mut(own) {
            group.count += 1;
            group.bytes += bytes;
        }
        let (count, bytes) = (policies.len() + 1, table.bytes + bytes);
        Self { policies, groups, count, bytes, evicted: Vec::new() }
    }

    /// Evicts the policy of a registered domain that ends first.
    fn evict(&mut self, registered: &str) {
        let Some(group) = self.groups.get_mut(registered) else { return };
        let Some(one) = group.first.and_then(|at| self.policies.get(at)) else { return };
        group.first = one.next;
        group.count -= 1;
        group.bytes -= one.bytes;
        self.count -= 1;
        self.bytes -= one.bytes;
        self.evicted.push(one.name.to_owned());
    }

    /// Evicts from the largest group, by a policy at a time, until there is room.
    fn shrink(&mut self, size: impl Fn(&Group) -> usize, has_room: impl Fn(&Self) -> bool) {
        if has_room(self) {
            return;
        }
        let ranks = self.groups.keys().copied().filter_map(|registered| self.rank(registered, &size));
        let mut largest: BinaryHeap<_> = ranks.collect();
        while !has_room(self)
            && let Some((_, _, registered)) = largest.pop()
        {
            self.evict(registered);
            largest.extend(self.rank(registered, &size));
        }
    }

    /// The size of a group, and when its first policy ends: of the largest groups, the one whose
    /// policy ends first is the greatest. `None` of an empty one.
    fn rank(
        &self,
        registered: &'t str,
        size: impl Fn(&Group) -> usize,
    ) -> Option<(usize, Reverse<i64>, &'t str)> {
        let group = self.groups.get(registered)?;
        let first = self.policies.get(group.first?)?;
        Some((size(group), Reverse(first.ends), registered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sts::policy::{PATTERNS_MAX, Policy};

    fn kept(max_age: i64) -> CachedPolicy {
        let text = format!("version: STSv1\nmode: enforce\nmx: mx.test\nmax_age: {max_age}\n");
        CachedPolicy { id: "1".into(), fetched: 0, policy: Policy::parse(&text).unwrap() }
    }

    /// The longest policy that is kept: as many patterns as there may be, and all their octets.
    fn longest(max_age: i64) -> CachedPolicy {
        let label = "x".repeat(PATTERNS_LEN_MAX / PATTERNS_MAX / 2 - 2);
        let pattern = |n: usize| format!("mx: {n:02}.{label}.{label}\n");
        let patterns: String = (0..PATTERNS_MAX).map(pattern).collect();
        let text = format!("version: STSv1\nmode: enforce\n{patterns}max_age: {max_age}\n");
        CachedPolicy { id: "1".repeat(32), fetched: 0, policy: Policy::parse(&text).unwrap() }
    }

    fn put(table: &mut Table, domain: &str, max_age: i64) {
        table.put(domain, kept(max_age));
    }

    fn assert_bounded(table: &Table) {
        let bytes: usize = table.policies.iter().map(|(name, kept)| kept.bytes(name)).sum();
        assert_eq!(bytes, table.bytes);
        assert!(bytes <= POLICIES_BYTES_MAX && table.policies.len() <= POLICIES_MAX, "{bytes}");
    }

    /// An untrusted sender has names below one domain at will, and a policy for each.
    #[test]
    fn names_of_one_stranger_take_no_place_of_others() {
        let mut table = Table::default();
        put(&mut table, "victim.test", 1_000);
        for n in 0..POLICIES_MAX + 100 {
            put(&mut table, &format!("{n}.evil.test"), 1_000_000);
        }
        assert!(table.policies.contains_key("victim.test"));
        assert_eq!(table.policies.len(), 1 + OF_ONE_MAX);
        // The newest of one sender's own names is kept.
        assert!(table.policies.contains_key(&format!("{}.evil.test", POLICIES_MAX + 99)));
        // The same name again takes no place.
        put(&mut table, "victim.test", 2_000);
        assert_eq!(table.policies.len(), 1 + OF_ONE_MAX);
    }

    #[test]
    fn a_full_table_takes_from_those_with_the_most() {
        let mut table = Table::default();
        put(&mut table, "victim.test", 1_000);
        for stranger in 0..POLICIES_MAX / OF_ONE_MAX {
            for n in 0..OF_ONE_MAX {
                // Without a walk for each.
                let name = format!("{n}.evil{stranger}.test");
                table.insert(name, kept(1_000_000 + i64::try_from(stranger).unwrap()));
            }
        }
        put(&mut table, "other.test", 1_000);
        assert!(table.policies.contains_key("victim.test") && table.policies.contains_key("other.test"));
        let of_first = table.policies.keys().filter(|name| name.ends_with(".evil0.test")).count();
        assert_eq!(of_first, OF_ONE_MAX - 1);
        assert_bounded(&table);
    }

    /// Policies count by their octets: the longest ones fill the table before there are many.
    #[test]
    fn the_longest_policies_take_no_more_memory_than_short_ones() {
        let mut table = Table::default();
        put(&mut table, "victim.test", 1_000);
        for n in 0..1_000 {
            table.put(&format!("evil{n}.test"), longest(1_000_000 + n));
        }
        assert_bounded(&table);
        let bytes = longest(0).bytes("evil0.test");
        assert!(bytes > 14 << 10 && table.policies.len() <= 1 + POLICIES_BYTES_MAX / bytes, "{bytes}");
        assert!(table.policies.contains_key("victim.test") && table.policies.contains_key("evil999.test"));
        // One that is short finds room, and takes it from the longest alone.
        let evicted = table.put("other.test", kept(1));
        assert!(evicted.len() <= 1 && table.policies.contains_key("victim.test"), "{evicted:?}");
        assert!(!table.has_room("next.test", &longest(1)));
        // A new policy takes the place of the old one of its domain.
        let before = table.policies.len();
        assert_eq!(table.put("evil999.test", longest(1)), [""; 0]);
        assert_eq!(table.policies.len(), before);
        assert_bounded(&table);
    }

    #[test]
    fn the_domain_whose_policies_take_most_loses_them_first() {
        let mut table = Table::default();
        for n in 0..OF_ONE_MAX {
            table.put(&format!("{n}.evil.test"), longest(1_000 + i64::try_from(n).unwrap()));
        }
        for n in 0..600 {
            table.put(&format!("other{n}.test"), longest(1));
        }
        // The largest group gave its policies up until it was as large as the others.
        let left = table.policies.keys().filter(|name| name.ends_with(".evil.test")).count();
        assert!(left <= 1 && table.policies.len() > POLICIES_BYTES_MAX / (16 << 10), "{left}");
        assert_bounded(&table);
    }

    /// A policy of three hosts.
    fn usual(max_age: i64) -> CachedPolicy {
        let patterns: String = (0..3).map(|n| format!("mx: mx{n}.mail.provider.test\n")).collect();
        let text = format!("version: STSv1\nmode: enforce\n{patterns}max_age: {max_age}\n");
        CachedPolicy { id: "1".repeat(32), fetched: 0, policy: Policy::parse(&text).unwrap() }
    }

    /// A sender that has a long policy fetched causes no more work than others.
    #[test]
    fn all_that_a_long_policy_evicts_is_found_in_one_walk() {
        let mut table = Table::default();
        let name = |n: i64| format!("usual{n}.test");
        let mut count = 0;
        while table.has_room(&name(count), &usual(1_000 + count)) {
            table.insert(name(count), usual(1_000 + count));
            count += 1;
        }
        assert!((7_000..POLICIES_MAX as i64).contains(&count), "{count}");
        let before = table.walks.get();
        let evicted = table.put("new.test", longest(1));
        // One walk counts the policies of its own domain.
        assert_eq!(table.walks.get() - before, 2);
        assert!((20..40).contains(&evicted.len()), "{evicted:?}");
        assert_bounded(&table);
        assert!(!table.has_room("next.test", &usual(1)) && table.policies.contains_key("new.test"));
        // Of equally large ones those that end first: the names with four digits are the longest.
        assert_eq!(evicted, (1_000..).take(evicted.len()).map(name).collect::<Vec<_>>());
    }
}
